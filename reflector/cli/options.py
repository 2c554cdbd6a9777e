"""The types of arguments of commands, and the options that several commands share.

Invariant: an option means the same on every command. A name that no bullet ever had is a usage
error that suggests the nearest name.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from reflector.cli.output import safe
from reflector.config import load_config
from reflector.playbook.names import SECTIONS, USER_FIRST, is_below, is_name

if TYPE_CHECKING:
    from reflector.cli.app import Place
    from reflector.events.event import Event
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import BulletRow, Ledger

#: A path, a path that is not a folder, and a path of an existing file.
PATH = click.Path(path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
READ_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

#: An event as users type it: its position, with the prefix `u` in the user's own ledger. A number
#: that begins with a zero may be a session's id.
POSITION = re.compile(r"(u?)([1-9][0-9]{0,14})", re.ASCII)

#: A text that may mean a bullet's name.
_LIKE_A_NAME = r"[a-z]+[-_ ]?\d+"

#: An option without a value.
flag = partial(click.option, is_flag=True)


def _answer_as_json(context: click.Context, _: click.Parameter, is_chosen: bool) -> None:
    context.obj.as_json = is_chosen


#: The option of every command that can print one JSON document. See `Place.answers`.
json_option = flag("--json", expose_value=False, callback=_answer_as_json, help="Print JSON.")
#: The option of a command that can show a change without making it.
dry_run_option = flag("--dry-run", help=("Only show what this command would change."))
#: The command gets it as `moment`. It is None for now.
as_of_option = click.option(
    "--as-of",
    "moment",
    metavar="MOMENT",
    help="Use the state at this date, position or session.",
)
#: The reason for a decision. It is None without a reason.
why_option = click.option("--why", metavar="REASON", help="Your reason, which reflector stores.")
#: Agreement in advance. See `agreed`.
yes_option = flag("--yes", help="Do not ask for confirmation.")


class _JudgeChoice(click.Choice[str]):
    """A judge of reflector, an agent that can judge, or a judge that you list in `judges`."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        """The names of judges. Not read at import, because each hook starts `drain`, whose module
        has the option.
        """
        from reflector.judges.registry import judge_names

        return judge_names()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name of a judge."""
        if ctx is not None and value in load_config(ctx.obj.folder()).judges:
            return str(value)
        return super().convert(value, param, ctx)


#: The command gets it as `judge`. It is None for the judge in the settings. See `judge_settings`.
judge_option = click.option(
    "--judge",
    type=_JudgeChoice(),
    metavar="WHO",
    help="Judge, such as claude or anthropic.",
)


def agreed(question: str, otherwise: str, *, yes: bool) -> None:
    """Return if the user agrees. Otherwise, end the command with 1.

    otherwise  the reason why the user cannot be asked

    Raises: UsageError if stdin is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{otherwise}: add --yes")
    if not click.confirm(question, err=True):
        raise click.exceptions.Exit(1)


@dataclass
class Question:
    """The subject of a command: a ledger as of now, or as of a moment.

    `playbook.rows()` returns the bullets; `row.is_rule` is false for a removed or merged one.
    `use(ledger, past).bullets[row.name]` of reflector/audit/citations.py is the use of a bullet.
    `names_in_window(window)` of reflector/reflection/window.py returns the bullets that a session
    cites in one of its `ledger.events(types=WINDOW_TYPES, upto=past.position)`. Omit a window if
    `past.is_active(window.event_id)` is false, and add `past.heirs(name)` of each name.

    moment  in the user's words; None for now
    then    the playbook of the moment; None for now
    """

    place: Place
    ledger: Ledger
    moment: str | None
    then: Past | None = field(init=False)

    def __post_init__(self) -> None:
        self.then = past(self.ledger, self.moment)

    @property
    def playbook(self) -> Ledger | Past:
        """The playbook as of now or of the moment."""
        return self.then or self.ledger

    @cached_property
    def past(self) -> Past:
        """The playbook of the moment, or of now in the same form. It is read once."""
        from reflector.ledger.as_of import Past

        return self.then or Past(self.ledger)

    @property
    def upto(self) -> int | None:
        """The position of the moment; None for now."""
        return self.then.position if self.then is not None else None

    @property
    def time(self) -> str:
        """The last time that the moment includes, but not a future time; the present for now. It is
        a text: `time_of` and `written` of reflector/events/event.py convert it.
        """
        from reflector.ledger.append import utc_now

        now = utc_now()
        return now if self.moment is None else min(now, last_time(self.ledger, self.moment))

    def day(self, words: str) -> str:
        """Return the beginning of a day; `30 days ago` counts from the moment."""
        from reflector.audit.dates import period_of
        from reflector.events.event import time_of, written

        time = None if self.moment is None else time_of(self.time)
        period = period_of(words, time and time.astimezone().replace(tzinfo=None))
        assert period is not None
        return written(period.first)

    def answers(self, document: object) -> bool:
        """Print the answer if JSON is asked for, and return whether it was printed."""
        return self.place.answers(document)


def question(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command with `--as-of` and `--json`; the function gets a `Question` first."""

    @wraps(function)
    @as_of_option
    @json_option
    @click.pass_obj
    def asked(place: Place, /, moment: str | None, **own: Any) -> None:
        # In a group with a subcommand, only the subcommand has a question.
        if click.get_current_context().invoked_subcommand is not None:
            return
        with place.reading() as ledger:
            function(Question(place, ledger, moment), **own)

    return asked


def past(ledger: Ledger, moment: str | None) -> Past | None:
    """Return the playbook of a moment; None for now. A position of the user's own ledger, such as
    `u38`, means the time at which its event was recorded.

    Raises: UnknownReference if the text does not name a moment.
    """
    if moment is None:
        return None
    from reflector.audit.moments import position_of
    from reflector.ledger.as_of import Past

    if users := _users_event(moment):
        return Past(ledger, ledger.position_at(users.recorded_at))
    return Past(ledger, position_of(ledger, moment))


def _users_event(moment: str) -> Event | None:
    """Return the event at a position of the user's ledger, such as `u38`; else None."""
    match = POSITION.fullmatch(moment.strip())
    if match is None or not match[1]:
        return None
    from reflector.project import Project

    users = Project.of_user()
    if not users.has_ledger():
        return None
    with users.open_ledger() as ledger:
        events = ledger.at([int(match[2])])
    if not events:
        raise click.UsageError(f"your own ledger does not have an event at position {moment}")
    return events[0]


def last_time(ledger: Ledger, moment: str) -> str:
    """Return the last time that a moment includes. For a position, it is the time of its event."""
    from reflector.audit.dates import period_of
    from reflector.audit.moments import position_of
    from reflector.events.event import written

    if users := _users_event(moment):
        return users.occurred_at
    if not moment.strip().isdecimal() and (period := period_of(moment)) is not None:
        return written(period.last)
    events = ledger.at([position_of(ledger, moment)])
    return events[0].occurred_at if events else ""


def bullet_named(playbook: Ledger | Past, name: str) -> BulletRow | None:
    """Return the bullet of a name; None if there is none.

    The name may differ in case, hyphens or leading zeros if only one bullet matches, such as
    pat-001 for Pat-1.
    """
    row = playbook.row(name)
    if row is not None or not re.fullmatch(_LIKE_A_NAME, name, re.ASCII | re.IGNORECASE):
        return row
    alike = [row for row in playbook.rows() if _bare(row.name) == _bare(name)]
    return alike[0] if len(alike) == 1 else None


def find_bullet(ledger: Ledger, name: str, then: Past | None = None) -> BulletRow:
    """Return the bullet of a name as `bullet_named` does, as of now or of a moment.

    Raises: UsageError if it does not exist, with the nearest name.
    """
    row = bullet_named(then or ledger, name)
    if row is not None:
        return row
    if then is not None and bullet_named(ledger, name) is not None:
        raise click.UsageError(
            f"{name} did not exist yet at position {then.position}. To see the history of this "
            f"rule: `reflector show {name}`"
        )
    raise click.UsageError(
        f"the playbook does not have a rule {safe(name)!r}.{_suggestion(ledger, name)}"
    )


def find_own_bullet(place: Place, ledger: Ledger, name: str) -> BulletRow:
    """Return the bullet of a name as `find_bullet` does.

    Raises: UsageError if the rule stays in your file.
    """
    from reflector.playbook_files.places import places

    row = find_bullet(ledger, name)
    if row.status != "watched":
        return row
    root = place.folder()
    where = places(ledger, root, [row])[row.name]
    file = where.rpartition(":")[0] or where or "FILE"
    raise click.UsageError(
        f"{row.name} is in {where or 'your file'}. Edit the rule in the file, or move the rules "
        f"of this file into the playbook: {place.command('adopt', '--move', shlex.quote(file))}"
    )


def _suggestion(ledger: Ledger, name: str) -> str:
    """Return a hint about the intended name. A live bullet is suggested first."""
    from difflib import get_close_matches

    if is_name(name) and not is_below(name, USER_FIRST):
        return (
            " Names with this number belong to your own playbook. To list the rules of your own "
            "playbook: `reflector --user list --removed`"
        )
    rows = ledger.rows()
    live = [row.name for row in rows if row.status == "live"]
    every = [row.name for row in rows]
    near = get_close_matches(name.lower(), live, n=1) or get_close_matches(name.lower(), every, n=1)
    return f" Did you mean {near[0]}?" if near else " To list all rules: `reflector list --removed`"


def _bare(name: str) -> str:
    """Return the short form of a name, such as `pat1` for `pat-001`, `PAT-1` and `pat 1`."""
    return re.sub(r"[-_ ]|(?<!\d)0+", "", name.lower())


def _name_at(place: Place, text: str) -> str:
    """Return the name of the rule at a place such as CLAUDE.md:33; else the text itself."""
    from reflector.playbook_files.places import name_at

    file = text.rpartition(":")[0]
    if not (place.folder() / file).is_file():
        return text
    with place.reading() as ledger:
        name = name_at(ledger, place.folder(), text)
    if name is None:
        adopt = place.command("adopt", shlex.quote(file))
        raise click.UsageError(
            f"the rule at {text} does not have a name, or no rule begins at this line. To give "
            f"names to the rules of {file}: {adopt}"
        )
    return name


class _Name(click.ParamType[str]):
    """The name of a bullet, or the id of a lesson or session, also in the brackets of a citation.

    A bullet's name may be typed without the hyphen, in capitals, or as the place of a rule in a
    file, such as CLAUDE.md:33.
    """

    name = "name"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        plain = value.strip("[] ").removeprefix("lesson ")
        if re.search(r".:\d+\Z", plain) and ctx is not None:
            return _name_at(ctx.obj, plain)
        typed = re.fullmatch(rf"({'|'.join(SECTIONS)})[-_ ]?(\d+)", plain.lower(), re.ASCII)
        return f"{typed[1]}-{typed[2]}" if typed is not None else plain


class FileLine(NamedTuple):
    """A watched file, by its name in the ledger, and the number of a line; None for all lines."""

    file: str
    number: int | None


def root_of(place: Place) -> Path | None:
    """Return the project's folder; None for the user's own playbook."""
    return None if place.user else place.folder()


class _Line(click.ParamType[Any]):
    """A watched file, or a line of it such as CLAUDE.md:12; else a name that `_Name` accepts."""

    name = "line"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        match = re.fullmatch(r"(.+):([0-9]{1,8})", value)
        file, number = (match[1], int(match[2])) if match else (value, None)
        if ctx is not None and re.search(r"[./]", value):
            from reflector.memory.changes import file_named

            named = file_named(root_of(ctx.obj), file)
            if named is not None:
                return FileLine(named, number)
            is_file = (ctx.obj.folder() / file).is_file()
            # Agents load a file of a sub-folder only there, so it is not a watched file.
            if number is not None and is_file and not Path(file).is_absolute():
                return FileLine(file, number)
            if file.endswith(".md") and not is_file:
                self.fail(
                    f"{safe(file)} does not exist, and reflector did not record a change of "
                    f"this file. To list other changes: {ctx.obj.command('log', '--memory')}"
                )
        return NAME.convert(value, param, ctx)


class _Day(click.ParamType[datetime]):
    """A date or a time. It is the beginning of the period that it names."""

    name = "day"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        from reflector.audit.dates import FORMS, period_of

        period = period_of(value)
        if period is None:
            self.fail(f"{value!r} is not a date or time, such as {FORMS}", param, ctx)
        return period.first.astimezone()


DAY = _Day()


class _DayInWords(click.ParamType[str]):
    """A day that `Question.day` reads, because `30 days ago` depends on the moment."""

    name = DAY.name

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        DAY.convert(value, param, ctx)
        return value


class _Section(click.Choice[str]):
    """A section by its slug, its title, or the beginning of its title."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        wanted = value.strip().casefold()
        if wanted in SECTIONS:
            return wanted
        found = [
            slug
            for slug, title in SECTIONS.items()
            if wanted and title.casefold().startswith(wanted)
        ]
        if len(found) == 1:
            return found[0]
        known = ", ".join(f"{slug} ({title})" for slug, title in SECTIONS.items())
        raise click.BadParameter(
            f"{value!r} is not a section; the sections are {known}", ctx, param, "SECTION"
        )


NAME = _Name()
LINE = _Line()
DAY_IN_WORDS = _DayInWords()
SECTION = _Section(list(SECTIONS))
