"""`reflector hook`, for help only: `reflector.__main__` runs the hook before click is imported."""

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
