"""`reflector statusline` where it is called with options; without any, `reflector.__main__` runs it at once."""

from __future__ import annotations

import click


@click.command()
def statusline() -> None:
    """Print one line for the agent's status line: the playbook, and the last session's verdicts.

    In Claude Code's settings: {"statusLine": {"type": "command", "command": "reflector statusline"}}
    """
    from reflector.hooks.statusline import main

    main()
