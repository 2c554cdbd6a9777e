"""`reflector hook`, for help only: `reflector.__main__` runs the hook before click is imported."""

from __future__ import annotations

import click


@click.command()
def hook() -> None:
    """Record one hook event from stdin; the agent calls this.

    Prints the playbook for SessionStart and SubagentStart, nothing for every other event, keeps the event in
    the project's spool, starts a drain in the background and always exits 0.
    """
    from reflector.hooks import fast

    fast.main()
