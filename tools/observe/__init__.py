"""Real clients resume our cases; what they send is held against what `quipu history` says.

Only the standard library is used. Whatever a client says stays under `target/observe`: it holds
texts of the product, which are not ours to publish.
"""
