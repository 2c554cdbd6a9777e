"""The command line: a file for each group of commands, no logic, the only place besides the hook
that prints.
"""

from __future__ import annotations


def main() -> int:
    """Run a command and return its exit code."""
    from reflector.cli.app import run

    return run()
