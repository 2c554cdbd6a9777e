"""`reflector status`: what is there, what waits, what failed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import (
    counted,
    fields,
    json_option,
    note,
    os_error_words,
    print_facts,
    print_json,
    short_time,
)

if TYPE_CHECKING:
    from reflector.project import Project

_TROUBLED = {"failed", "given_up"}


@click.command()
@json_option
@click.pass_obj
def status(place: Place, as_json: bool) -> None:
    """Show what is recorded, what waits and what failed.

    Records and changes nothing. Exits 1 if something failed or could not be understood.
    """
    facts = _facts(place.project())
    if as_json:
        print_json(facts)
    else:
        _print(place, facts)
    spool, windows = facts["spool"], facts["windows"]
    if spool["failed"] or spool["broken"] or windows.get("failed") or windows.get("given_up") or facts["problems"]:
        raise click.exceptions.Exit(1)


def _facts(project: Project) -> dict[str, Any]:
    from reflector.cli.again import month_of
    from reflector.ledger.errors import LedgerError
    from reflector.reflection.backends import described
    from reflector.sessions import spool
    from reflector.sessions.injection import told_beside
    from reflector.sessions.spool import MOST_ATTEMPTS

    counts = spool.counts(project.spool_dir)
    beside = told_beside(project)
    backend, mend = described(project.config, project.root)
    facts: dict[str, Any] = {
        "project": str(project.root),
        "backend": project.config.backend,
        "backend_lacks": f"{backend}; {mend}" if mend else None,
        "ledger": None,
        "bullets": 0,
        "user": {"bullets": beside.bullets, "hidden": list(beside.hidden)} if beside else None,
        "problems": _problems(project),
        "windows": {},
        "proposals": 0,
        "spool": {
            **fields(counts, "pending waiting silent"),
            "failed": [
                {
                    "delivery": f.path.name,
                    **fields(f, "error attempts"),
                    "given_up": f.attempts >= MOST_ATTEMPTS,
                }
                for f in spool.failed(project.spool_dir)
            ],
            "broken": [path.name for path in spool.broken(project.spool_dir)],
            "elsewhere": sum(_elsewhere().values()),
        },
        "month": month_of(None, project),
        "waiting_for_budget": 0,
        "failures": [],
    }
    if came := project.came_with():
        facts["problems"].append(came)
    elif project.has_ledger():
        try:
            facts.update(_ledger_facts(project))
            more = (f"{project.playbook_json}: {problem}" for problem in facts.pop("untaken"))
            facts["problems"] += [problem for problem in more if problem not in facts["problems"]]
        except LedgerError as error:
            # What lies in the spool is worth telling most of all where the ledger cannot be opened.
            facts["problems"].append(str(error))
    return facts


def _problems(project: Project) -> list[str]:
    """Return why a playbook.json, the project's or the user's, cannot be read, or the ledger cannot be written."""
    from reflector.curation.adoption import kept_of_others, of_another
    from reflector.locate import user_folder
    from reflector.sessions import locks

    found = _unreadable(project.playbook_json)
    found += [of_another(project.playbook_json, kept) for kept in kept_of_others(project)]
    if not project.is_users:
        found += _unreadable(Path(user_folder()) / ".claude" / "playbook.json")
    if reason := "" if project.config.ledger_url else locks.why_none(project.state_dir):
        what = f"no file can be locked in {project.state_dir} ({reason}), so its ledger cannot be written"
        found.append(f"{what}; see `reflector doctor`")
    return found


def _unreadable(path: Path) -> list[str]:
    """Return the problems that keep a playbook.json from being read."""
    from reflector.curation.adoption import read
    from reflector.playbook.document import load

    try:
        raw = read(path)
    except OSError as error:
        return [os_error_words(error)]
    return [f"{path}: {problem}" for problem in load(raw).problems] if raw is not None else []


def _elsewhere() -> dict[str, int]:
    """Deliveries kept with the user because their project could not be written, of whatever project, by spool."""
    from reflector.sessions import spool
    from reflector.sessions.fallback import stand_ins

    found = {str(state / "spool"): spool.counts(state / "spool") for state in stand_ins()}
    kept = {where: one.pending + one.waiting + one.failed + one.broken for where, one in found.items()}
    return {where: count for where, count in kept.items() if count}


def _ledger_facts(project: Project) -> dict[str, Any]:
    from reflector.cli.again import failures_of, month_of
    from reflector.curation.playbook_file import untaken
    from reflector.curation.proposals import proposals
    from reflector.reflection.spending import waiting_for_budget

    with project.open_ledger() as ledger:
        head = ledger.head()
        windows = ledger.window_states()
        failures = [
            {
                **{key: failure[key] for key in ("position", "session_id", "attempts")},
                "error": f"{failure['stage']}: {failure['message']}",
                "command": failure["command"],
            }
            for failure in (failures_of(ledger, project) if _TROUBLED & windows.keys() else ())
        ]
        return {
            "ledger": {
                "url": ledger.engine.url.public,
                "events": head.position,
                "head": head.chain,
                "last_event": head.recorded_at if head.position else None,
                "counting": ledger.counting(),
            },
            "bullets": len(ledger.bullets()),
            "windows": windows,
            "proposals": len(proposals(ledger)),
            "month": month_of(ledger, project),
            "waiting_for_budget": len(waiting_for_budget(ledger)) if "skipped" in windows else 0,
            "failures": failures,
            "untaken": untaken(ledger, project),
        }


def _print(place: Place, facts: dict[str, Any]) -> None:
    from reflector.cli.again import month_words

    ledger, spool = facts["ledger"], facts["spool"]
    lines = [("project", facts["project"]), ("backend", facts["backend_lacks"] or facts["backend"])]
    if ledger is None and not facts["problems"]:
        lines.append(("ledger", "none yet; `reflector add` begins it, or a session that has a playbook"))
    elif ledger is not None:
        last = f", the last {short_time(ledger['last_event'])}" if ledger["last_event"] else ""
        lines.append(("ledger", f"{ledger['url']}, {counted(ledger['events'], 'event')}{last}"))
        lines.append(("playbook", f"{counted(facts['bullets'], 'bullet')}, counting {ledger['counting']}"))
        windows = ", ".join(f"{count} {state}" for state, count in sorted(facts["windows"].items()))
        lines.append(("windows", windows or "none"))
        if facts["waiting_for_budget"]:
            lines.append(
                ("", f"{facts['waiting_for_budget']} of the skipped wait for a budget: {place.command('drain')}")
            )
    if waiting := facts["proposals"]:
        lines.append(("waiting", f"{counted(waiting, 'proposal')}: {place.command('proposals')}"))
    if facts["month"] is None or facts["month"]["tokens"] or facts["waiting_for_budget"]:
        lines.append(("tokens", month_words(facts["month"])))
    if user := facts["user"]:
        hidden = f"; {', '.join(user['hidden'])} not shown: the project's name means another" if user["hidden"] else ""
        lines.append(("yours", f"{counted(user['bullets'], 'bullet')} of your own beside it{hidden}"))
    silent = f", {spool['silent']} ended without a word or a transcript" if spool["silent"] else ""
    lines.append(("spool", f"{spool['pending']} pending, {spool['waiting']} waiting for their session's end{silent}"))
    for where, count in _elsewhere().items():
        lines.append(("", f"{count} kept elsewhere, of folders that are gone or cannot be written: {where}"))
    lines += [("problem", problem) for problem in facts["problems"]]
    for failure in spool["failed"]:
        tried = f"tried {counted(failure['attempts'], 'time')}{', given up' if failure['given_up'] else ''}"
        lines.append(("failed", f"{failure['delivery']} ({tried}): {failure['error']}"))
    if spool["failed"]:
        lines.append(("", f"tried again later by itself; now with: {place.command('drain --retry-failed')}"))
        lines.append(("", "or give a delivery up: remove its file from the spool's folder failed/"))
    if spool["broken"]:
        from reflector.sessions.drain import NOT_A_PAYLOAD

        lines += [("broken", f"{name}: {NOT_A_PAYLOAD}") for name in spool["broken"]]
    for failure in facts["failures"]:
        lines.append(("failed", f"reflection at position {failure['position']}: {failure['error']}"))
        if failure["command"]:
            lines.append(("", f"try again with: {failure['command']}"))
    print_facts(lines, 9)
    if spool["pending"]:
        note(f"reflector: a session is being processed, or waits for `{place.command('drain')}`")
