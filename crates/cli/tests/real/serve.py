"""Phoenix for a test: serve.py serve. It ends with its standard input, so it cannot outlive whoever started it."""
import os
import sys
import threading

from phoenix.server.grpc_server import GrpcServer
from phoenix.server.main import main


async def nothing(_):
    """No gRPC: that port is opened to every network, whatever `PHOENIX_HOST` says."""


def watch():
    sys.stdin.read()
    os._exit(0)


GrpcServer.__aenter__ = nothing
threading.Thread(target=watch, daemon=True).start()
main()
