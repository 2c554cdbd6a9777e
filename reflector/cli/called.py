"""What an agent calls: `reflector hook`, for help only, and `reflector statusline` where it is called with options.

Without options `reflector.__main__` runs both before click is imported.
"""

from __future__ import annotations

import click


@click.command()
def hook() -> None:
    """Record one hook event from stdin; the agent calls this.

    Writes the event to the project's spool, starts a drain in the background and always exits 0. Prints the playbook
    for SessionStart and SubagentStart, and nothing for every other event.
    """
    from reflector.hooks import fast

    fast.main()


@click.command()
def statusline() -> None:
    """Print one line for the agent's status line: the playbook, and the last session's verdicts.

    In Claude Code's settings: {"statusLine": {"type": "command", "command": "reflector statusline"}}
    """
    from reflector.hooks.statusline import main

    main()
