"""`reflector doctor`: the checks, what --fix does about them, and the text to paste into an issue.

Invariant: without --fix nothing changes. A report holds what the program knows of itself and
nothing of what people, agents or models wrote: no text of a session or a bullet, no quoted word, no
value that a person chose freely, no address and no name of another project. It goes through the
rules for secrets all the same.
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
from typing import Any

import click

from reflector import __version__, entries
from reflector.cli.app import Place, explained
from reflector.cli.options import json_option
from reflector.cli.output import note, print_facts, print_json
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

#: Yellow and green cannot be read on a light terminal.
_STYLES: dict[str, dict[str, Any]] = {
    "ok": {},
    "warning": {"bold": True},
    "error": {"bold": True, "fg": "red"},
}


@click.command()
@click.option(
    "--fix", is_flag=True, help=("First fix what can be fixed safely, and print what was done.")
)
@click.option(
    "--report",
    "as_report",
    is_flag=True,
    help=("Print a text for an issue, with nothing that anybody wrote."),
)
@json_option
@click.pass_obj
def doctor(place: Place, fix: bool, as_report: bool, as_json: bool) -> None:
    """Check everything between the agent and the playbook.

    Each line is ok, a warning or an error, with the command that corrects it, and with what --fix
    would do about it. Without --fix it changes nothing. --fix renews our hooks, makes our files
    private and processes what waits; it changes nothing that a person wrote. Exits 1 on errors.
    """
    refused = None
    try:
        project = place.project()
    except ConfigError as error:
        project, refused = Project(place.folder(), Config()), error
    if fix:
        _fix(examine(project, refused))
    checks = list(examine(project, refused))
    if as_report:
        click.echo(report(project, checks, status_of(place) if refused is None else None), nl=False)
    elif as_json:
        print_json(checks)
    else:
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
            note(f"{check.name}: not fixed: {known[1]}")
        else:
            note(f"{check.name}: {check.fix}")
    if not done:
        note("nothing that --fix can fix")


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
    """Return the report of a project: its settings, the checks, and the last errors of its
    status.
    """
    config, root = project.config, project.root
    own = {name: getattr(config, name) for name in SETTINGS if config.layer(name) != "default"}
    plain = {name: f" = {value}" for name, value in own.items() if isinstance(value, int)}
    lines = [f"setting {name} ({config.layer(name)}){plain.get(name, '')}" for name in own]
    more = [
        f"{one.state:<7}  {one.name}: {'…' if one.name in KINDS else one.text}" for one in checks
    ]
    if status is not None:
        # What an error says may quote what was read; its stage, or its first words, say enough.
        errors = Counter(f"{one.backend}, {one.stage}, {one.state}" for one in status.failures)
        errors += Counter(
            " ".join(one.error.partition(":")[0].split()[:8]) for one in status.spool.failed
        )
        left = status.spool
        counts = {f"windows {state}": count for state, count in status.windows.items()}
        counts |= {
            "proposals": status.proposals,
            "deliveries pending": left.pending,
            "waiting": left.waiting,
        }
        counts |= {
            "failed": len(left.failed),
            "broken": len(left.broken),
            "kept elsewhere": left.elsewhere,
        }
        more += ["", ", ".join(f"{what}: {count}" for what, count in counts.items())]
        more += ["", *(f"error: {what} ({count} times)" for what, count in errors.most_common(10))]
    places = {
        value: f"the {name}"
        for name, value in own.items()
        if isinstance(value, str) and len(value) > 2
    }
    places |= {one.root: "ANOTHER" for one in entries.entries()}
    places |= dict.fromkeys((str(root), str(root.resolve())), "PROJECT")
    places |= {home: "~"} if (home := home_folder()) not in ("", os.sep) else {}
    return (
        redact("\n".join([*_versions(), "", *lines, "", *(_plain(line, places) for line in more)]))
        + "\n"
    )


def _versions() -> Iterator[str]:
    lock = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else ", free-threaded"
    yield f"reflector {__version__}"
    yield f"{platform.python_implementation()} {platform.python_version()}{lock}"
    yield f"{platform.system()} {platform.release()} {platform.machine()}"
    found = []
    for spec in metadata.requires(DISTRIBUTION) or ():
        if re.search(r"extra == .(?!mcp|postgres)", spec) is None:
            with suppress(metadata.PackageNotFoundError):
                found.append(
                    " ".join((name := re.split(r"[^\w.-]", spec)[0], metadata.version(name)))
                )
    yield ", ".join(sorted({*found}))


#: A word that is no setting may say anything, and a folder of homes has people's names.
_UNKNOWN_SETTING = re.compile(r"\S+( is not a setting\b)")
_OTHERS_HOME = re.compile(r"(?<![\w.~])(/(?:home|Users)/)[^/\s]+")


def _plain(line: str, places: Mapping[str, str]) -> str:
    """Return a line without quoted words and addresses, and with other words for a person's
    places and choices.
    """
    for place in sorted(places, key=len, reverse=True):
        line = line.replace(place, places[place])
    line = _OTHERS_HOME.sub(r"\1…", _UNKNOWN_SETTING.sub(r"'…'\1", line))
    return re.sub(
        r"'[^'\n]*'|\"[^\"\n]*\"|“[^”\n]*”",
        "'…'",
        re.sub(r"\b[a-z+]+://\S+", "URL", line),
    )
