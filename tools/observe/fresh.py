"""What a client makes anew at each start, as named patterns.

Such texts say nothing about the session, so they are left out of the comparison, but only where a
client puts them: in the first prompt, in the new prompt, or in a message of role `system` directly
behind one of the two. Elsewhere only their name is compared. What must stay true: a pattern
describes how a text of the product begins and nothing more of it; every pattern has a reason; how
often each one applied is counted and printed.
"""
import re
from collections import Counter


# name, how the text begins, why it is left out
PATTERNS = [
    ("context", r"As you answer the user's questions, you can use the following context:",
     "date, memory files and state of the repository, read at the start"),
    ("environment", r"(# Environment\b|Here is useful information about the environment)",
     "folder, platform and shell of the start"),
    ("model", r"(You are powered by the model|You are now powered by|Your model has changed)",
     "the model of the start"),
    ("agents", r"(Available agent types|The following agent types are (now )?available|"
               r"The following agent types are no longer)",
     "agents that are installed"),
    ("skills", r"(The following skills are (now )?available|# Skills?\b|"
               r"The following skills are no longer)",
     "skills that are installed"),
    ("tools", r"The following (deferred )?tools? (are|is) (now |no longer )?available",
     "tools that are offered"),
    ("servers", r"(# MCP Server Instructions|MCP servers? )", "servers that are connected"),
    ("date", r"(Today's date is |The current date is |Current date: )", "the day of the start"),
    ("todos", r"(This is a reminder that your todo list is currently empty|"
              r"The (TodoWrite|task) tools? ha(s|ve)n't been used recently)",
     "the list of this start, which is empty"),
    ("style", r"(# Output Style|\S+ output style is active)", "how answers are to look"),
    ("git", r"(gitStatus:|# gitStatus)", "state of the repository at the start"),
    ("budget", r"<total_tokens>", "what may still be used; a session's own note is its content"),
    ("attribution", r"Attribution for git commits", "a setting"),
    ("user", r"(# userEmail|The user's email)", "who is logged in"),
]
# Our program writes the name alone on the first line, and none of the product's words.
COMPILED = [(name, re.compile(rf"\s*({name}\s*(\n|$)|{begins})")) for name, begins, _ in PATTERNS]


def kind(text):
    """The name of the pattern that the text begins like."""
    return next((name for name, pattern in COMPILED if pattern.match(text)), None)


class Applied(Counter):
    """How often each pattern left something out."""

    def table(self):
        reasons = {name: reason for name, _, reason in PATTERNS}
        reasons["effort"] = "a message of role system without content, which sets the effort"
        return [(name, count, reasons[name]) for name, count in self.most_common()]
