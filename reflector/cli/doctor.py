"""`reflector doctor`: the checks, the repairs of --fix, and the text to paste into an issue.

Invariant: without --fix nothing changes. A report contains only facts about the program: no text of
a session or a rule, no quote, no value that the user chose, no address and no name of another
project. It still passes through the rules for secrets.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import click

from reflector import __version__, entries
from reflector.cli.app import Place, explained
from reflector.cli.options import flag, json_option
from reflector.cli.output import note, print_facts
from reflector.cli.status import status_of
from reflector.config import SETTINGS, Config, ConfigError
from reflector.extensions import KINDS
from reflector.hooks.doctor import examine
from reflector.hooks.reach import Check
from reflector.locate import home_folder
from reflector.project import Project
from reflector.resources import DISTRIBUTION
from reflector.sessions.overview import StatusJson
from reflector.text.secrets import redact

#: The most kinds of errors in a report, and the most words of each.
_MOST_ERRORS, _MOST_WORDS = 10, 8
#: A shorter setting would also be replaced inside other words.
_SHORTEST_CHOICE = 2
#: Yellow and green cannot be read on a light terminal.
_STYLES: dict[str, dict[str, Any]] = {
    "ok": {},
    "warning": {"bold": True},
    "error": {"bold": True, "fg": "red"},
}


@click.command()
@flag("--fix", help="Make safe repairs before the check, and list them.")
@flag(
    "--report",
    "as_report",
    help="Print facts to paste into a bug report.",
)
@json_option
@click.pass_obj
def doctor(place: Place, fix: bool, as_report: bool) -> None:
    """Check that agent and playbook are connected.

    For each check, `doctor` prints a line that begins with `ok`, `warning` or `error`. The line
    after a warning or an error contains the command that solves the problem. Without --fix,
    `doctor` changes nothing. --fix writes reflector's hooks again, makes reflector's files private,
    and records the sessions that are not recorded yet. --fix never changes your own text. --report
    prints facts that you can paste into a bug report. A report of `doctor` does not contain text of
    your rules or sessions. If `doctor` finds an error, the exit code is 1.
    """
    refused: ConfigError | None = None
    try:
        project = place.project()
    except ConfigError as error:
        refused = error
        project = Project(place.folder(), Config())
    if fix:
        _fix(examine(project, refused))
    checks = list(examine(project, refused))
    if as_report:
        click.echo(report(project, checks, status_of(place) if refused is None else None), nl=False)
    elif not place.answers(checks):
        _print_checks(checks)
    if any(check.state == "error" for check in checks):
        raise click.exceptions.Exit(1)


def _fix(checks: Iterable[Check]) -> None:
    done: set[str] = set()
    for check in checks:
        if check.fix is None or check.apply is None or check.fix in done:
            continue
        done.add(check.fix)
        try:
            check.apply()
        except Exception as error:
            if (known := explained(error)) is None:
                raise
            note(f"{check.name}: the repair failed: {known[1]}")
        else:
            note(f"{check.name}: {check.fix}")
    if not done:
        note("--fix found nothing to repair")


def _print_checks(checks: list[Check]) -> None:
    width = max(len(check.name) for check in checks) + 1
    for check in checks:
        click.echo(click.style(f"{check.state:<7}  ", **_STYLES[check.state]), nl=False)
        ways_out = [f"→ {check.mend}"] if check.mend else []
        ways_out += [f"→ or reflector doctor --fix, which {check.fix}"] if check.fix else []
        print_facts(
            [(check.name, check.text), *(("", way_out) for way_out in ways_out)],
            width,
            9,
            begun=True,
        )


def report(project: Project, checks: list[Check], status: StatusJson | None) -> str:
    """Return the report of a project: its settings, checks, and the last errors of its status."""
    config = project.config
    settings = {name: getattr(config, name) for name in SETTINGS if config.layer(name) != "default"}
    lines = list(_check_lines(checks))
    if status is not None:
        lines += ["", *_status_lines(status)]
    places = _places(project.root, settings)
    plain = [_plain(line, places) for line in lines]
    text = [*_versions(), "", *_setting_lines(config, settings), "", *plain]
    return redact("\n".join(text)) + "\n"


def _setting_lines(config: Config, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings that are not the default. Only numbers and switches have their values."""
    for name, value in settings.items():
        shown = f" = {value}" if isinstance(value, int) else ""
        yield f"setting {name} ({config.layer(name)}){shown}"


def _check_lines(checks: list[Check]) -> Iterator[str]:
    for check in checks:
        # A line about an extension contains its name, which the user chose.
        text = "…" if check.name in KINDS else check.text
        yield f"{check.state:<7}  {check.name}: {text}"


def _status_lines(status: StatusJson) -> Iterator[str]:
    """Yield the counts of a status and the kinds of its errors.

    Only the stage or the first words of an error are included, because its text may quote the file
    that was read.
    """
    queue = status.spool
    counts = {f"session parts {state}": count for state, count in status.windows.items()}
    counts |= {
        "proposals": status.proposals,
        "deliveries pending": queue.pending,
        "waiting": queue.waiting,
        "failed": len(queue.failed),
        "broken": len(queue.broken),
        "kept elsewhere": queue.elsewhere,
    }
    yield ", ".join(f"{name}: {count}" for name, count in counts.items())
    yield ""
    kinds = Counter(
        f"{failure.backend}, {failure.stage}, {failure.state}" for failure in status.failures
    )
    kinds.update(_first_words(delivery.error) for delivery in queue.failed)
    for kind, count in kinds.most_common(_MOST_ERRORS):
        yield f"error: {kind} ({count} times)"


def _first_words(error: str) -> str:
    return " ".join(error.partition(":")[0].split()[:_MOST_WORDS])


def _places(root: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that the user chose, each with the word that replaces it."""
    places = {
        value: f"the {name}"
        for name, value in settings.items()
        if isinstance(value, str) and len(value) > _SHORTEST_CHOICE
    }
    places |= {entry.root: "ANOTHER" for entry in entries.entries()}
    places |= dict.fromkeys((str(root), str(root.resolve())), "PROJECT")
    home = home_folder()
    return places | ({home: "~"} if home not in ("", os.sep) else {})


def _versions() -> Iterator[str]:
    lock = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", free-threaded"
    yield f"reflector {__version__}"
    yield f"{platform.python_implementation()} {platform.python_version()}{lock}"
    yield f"{platform.system()} {platform.release()} {platform.machine()}"
    versions = set()
    for spec in metadata.requires(DISTRIBUTION) or ():
        if re.search(r"extra == .(?!mcp|postgres)", spec) is None:
            name = re.split(r"[^\w.-]", spec)[0]
            with suppress(metadata.PackageNotFoundError):
                versions.add(f"{name} {metadata.version(name)}")
    yield ", ".join(sorted(versions))


#: An unknown setting may be any word, and a folder of home folders contains names of users.
_UNKNOWN_SETTING = re.compile(r"\S+( is not a setting\b)")
_OTHERS_HOME = re.compile(r"(?<![\w.~])(/(?:home|Users)/)[^/\s]+")


def _plain(line: str, places: Mapping[str, str]) -> str:
    """Return a line without quoted words and addresses.

    The user's places and choices are replaced by other words.
    """
    for place in sorted(places, key=len, reverse=True):
        line = line.replace(place, places[place])
    line = _OTHERS_HOME.sub(r"\1…", _UNKNOWN_SETTING.sub(r"'…'\1", line))
    return re.sub(
        r"'[^'\n]*'|\"[^\"\n]*\"|“[^”\n]*”",
        "'…'",
        re.sub(r"\b[a-z+]+://\S+", "URL", line),
    )
