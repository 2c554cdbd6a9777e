"""`reflector status`: what is there, what waits, what failed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import counted, os_error_words, print_json, safe

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
    spool, windows = facts["spool"], facts["windows"]
    if spool["failed"] or spool["broken"] or windows.get("failed") or windows.get("given_up") or facts["problems"]:
        raise click.exceptions.Exit(1)


def _facts(project: Project) -> dict[str, Any]:
    from reflector.hooks import spool
    from reflector.ledger.errors import LedgerError

    counts = spool.counts(project.spool_dir)
    facts: dict[str, Any] = {
        "project": str(project.root),
        "backend": project.config.backend,
        "ledger": None,
        "bullets": 0,
        "user": _users(project),
        "problems": _problems(project.playbook_json) + _problems_of_user(project),
        "windows": {},
        "spool": {
            "pending": counts.pending,
            "waiting": counts.waiting,
            "silent": counts.silent,
            "failed": [
                {"delivery": f.path.name, "error": f.error, "attempts": f.attempts}
                for f in spool.failed(project.spool_dir)
            ],
            "broken": [path.name for path in spool.broken(project.spool_dir)],
            "elsewhere": _elsewhere(),
        },
        "failures": [],
    }
    if came := project.came_with():
        facts["problems"].append(came)
    elif project.has_ledger():
        try:
            facts.update(_ledger_facts(project))
        except LedgerError as error:
            # What lies in the spool is worth telling most of all where the ledger cannot be opened.
            facts["problems"].append(str(error))
    return facts


def _problems_of_user(project: Project) -> list[str]:
    from reflector.user_folder import user_root

    return [] if project.is_users else _problems(user_root() / ".claude" / "playbook.json")


def _problems(path: Path) -> list[str]:
    """What keeps a playbook.json from being taken in."""
    from reflector.files import read_ours
    from reflector.playbook.document import MAX_BYTES, load

    try:
        raw = read_ours(path, MAX_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        return [os_error_words(error)]
    return [f"{path}: {problem}" for problem in load(raw).problems]


def _users(project: Project) -> dict[str, Any] | None:
    from reflector.hooks.users import told_beside

    beside = told_beside(project)
    return {"bullets": beside.bullets, "hidden": list(beside.hidden)} if beside else None


def _elsewhere() -> int:
    """Deliveries kept with the user because their project could not be written, of whatever project."""
    from reflector.hooks import spool
    from reflector.hooks.fallback import fallback_state

    kept = fallback_state()
    if not kept:
        return 0
    counts = spool.counts(Path(kept) / "spool")
    return counts.pending + counts.waiting + counts.failed + counts.broken


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
    if ledger is None and not facts["problems"]:
        lines.append(("ledger", "none yet; it begins with the first session or `reflector add`"))
    elif ledger is not None:
        last = f", last at {ledger['last_event']}" if ledger["last_event"] else ""
        lines.append(("ledger", f"{ledger['url']}, {counted(ledger['events'], 'event')}{last}"))
        lines.append(("playbook", f"{counted(facts['bullets'], 'bullet')}, counting {ledger['counting']}"))
        windows = ", ".join(f"{count} {state}" for state, count in sorted(facts["windows"].items()))
        lines.append(("windows", windows or "none"))
    if user := facts["user"]:
        hidden = f"; {', '.join(user['hidden'])} not told: the project's name means another" if user["hidden"] else ""
        lines.append(("yours", f"{counted(user['bullets'], 'bullet')} of your own beside it{hidden}"))
    silent = f", {spool['silent']} ended without a word or a transcript" if spool["silent"] else ""
    lines.append(("spool", f"{spool['pending']} pending, {spool['waiting']} waiting for their session's end{silent}"))
    if spool["elsewhere"]:
        lines.append(("", f"{spool['elsewhere']} in your own state folder, of projects that could not be written"))
    for name, value in lines:
        click.echo(f"{name:<9} {safe(value)}")
    for problem in facts["problems"]:
        click.echo(safe(f"problem   {problem}"))
    for failure in spool["failed"]:
        click.echo(safe(f"failed    {failure['delivery']} (tried {failure['attempts']} times): {failure['error']}"))
    for name in spool["broken"]:
        told = "not a hook payload; it is kept in the spool's folder broken/ until you remove it"
        click.echo(safe(f"broken    {name}: {told}"))
    for failure in facts["failures"]:
        click.echo(safe(f"failed    reflection at position {failure['position']}: {failure['error']}"))
    if spool["failed"] or facts["failures"]:
        click.echo("          try again with: reflector drain --retry-failed")
    if spool["failed"]:
        click.echo("          or give a delivery up: remove its file from the spool's folder failed/")
