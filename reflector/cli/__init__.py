"""The command line: one module for each group of commands, without logic. Only it and the hook
print.
"""

from __future__ import annotations


def main() -> int:
    """Run a command and return its exit code."""
    from reflector.cli.app import run

    return run()
