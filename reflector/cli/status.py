"""`reflector status`: what is there, what waits, what failed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import print_json, safe

if TYPE_CHECKING:
    from reflector.project import Project


@click.command()
@click.option("--json", "as_json", is_flag=True, help="JSON for machines.")
@click.pass_obj
def status(place: Place, as_json: bool) -> None:
    """Show what is there, what waits and what failed.

    Takes nothing in and changes nothing. Exits 1 when something failed or could not be understood.
    """
    facts = _facts(place.project())
    if as_json:
        print_json(facts)
    else:
        _tell(facts)
    trouble = facts["spool"]["failed"] or facts["spool"]["broken"] or facts["windows"].get("failed")
    if trouble or facts["windows"].get("given_up"):
        raise click.exceptions.Exit(1)


def _facts(project: Project) -> dict[str, Any]:
    from reflector.hooks import spool

    counts = spool.counts(project.spool_dir)
    facts: dict[str, Any] = {
        "project": str(project.root),
        "backend": project.config.backend,
        "ledger": None,
        "bullets": 0,
        "windows": {},
        "spool": {
            "pending": counts.pending,
            "waiting": counts.waiting,
            "failed": [
                {"delivery": f.path.name, "error": f.error, "attempts": f.attempts}
                for f in spool.failed(project.spool_dir)
            ],
            "broken": [path.name for path in spool.broken(project.spool_dir)],
        },
        "failures": [],
    }
    if project.has_ledger():
        facts.update(_ledger_facts(project))
    return facts


def _ledger_facts(project: Project) -> dict[str, Any]:
    from reflector.ledger import event as ev

    with project.open_ledger() as ledger:
        head = ledger.head()
        windows = ledger.windows()
        troubled = {window.event_id: window for window in windows if window.state in {"failed", "given_up"}}
        failures = [
            {
                "position": event.position,
                "session_id": event.session_id,
                "attempts": troubled[event.target_id].attempts,
                "error": f"{event.data['stage']}: {event.data['message']}" if event.data else "(redacted)",
            }
            for event in (ledger.events(types=[ev.REFLECTION_FAILED]) if troubled else ())
            if event.target_id in troubled
        ]
        return {
            "ledger": {
                "url": ledger.engine.url.render_as_string(hide_password=True),
                "events": head.position,
                "head": head.chain,
                "last_event": head.recorded_at if head.position else None,
                "counting": ledger.counting(),
            },
            "bullets": len(ledger.bullets()),
            "windows": dict(Counter(window.state for window in windows)),
            "failures": failures,
        }


def _tell(facts: dict[str, Any]) -> None:
    ledger, spool = facts["ledger"], facts["spool"]
    lines = [("project", facts["project"]), ("backend", facts["backend"])]
    if ledger is None:
        lines.append(("ledger", "none yet; it begins with the first session or `reflector add`"))
    else:
        last = f", last at {ledger['last_event']}" if ledger["last_event"] else ""
        lines.append(("ledger", f"{ledger['url']}, {ledger['events']} events{last}"))
        lines.append(("playbook", f"{facts['bullets']} bullets, counting {ledger['counting']}"))
        windows = ", ".join(f"{count} {state}" for state, count in sorted(facts["windows"].items()))
        lines.append(("windows", windows or "none"))
    lines.append(("spool", f"{spool['pending']} pending, {spool['waiting']} waiting for their session's end"))
    for name, value in lines:
        click.echo(f"{name:<9} {safe(value)}")
    for failure in spool["failed"]:
        click.echo(safe(f"failed    {failure['delivery']} (tried {failure['attempts']} times): {failure['error']}"))
    for name in spool["broken"]:
        click.echo(safe(f"broken    {name}: not a hook payload; it is kept in the spool's folder broken/"))
    for failure in facts["failures"]:
        click.echo(safe(f"failed    reflection at position {failure['position']}: {failure['error']}"))
    if spool["failed"] or facts["failures"]:
        click.echo("          try again with: reflector drain --retry-failed")
