"""The command line: one module for each group of commands, without logic. Only it and the hook
print.

The types of JSON documents are not frozen: each is printed once, and a frozen class takes three
times as long to define at each start.
"""

from __future__ import annotations


def main() -> int:
    """Run a command and return its exit code."""
    from reflector.cli.app import run

    return run()
