"""The command `status`: the state of a project in one row for each part.

Invariant: `status` records and changes nothing, except the mark that it showed the figures that an
upgrade changed. Each command that it shows can be copied unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from reflector.audit.dropped import MOST
from reflector.cli.app import Place
from reflector.cli.options import flag, json_option
from reflector.cli.output import (
    day_words,
    note,
    print_facts,
    short_id,
    short_time,
    table,
    warn,
)
from reflector.events.event import latest_time
from reflector.hooks import fast
from reflector.hooks.reach import callers_of
from reflector.playbook.bullet import policy_words
from reflector.playbook_files.kept_copies import foreign_note
from reflector.sessions import spool
from reflector.sessions.former_shares import note_shown
from reflector.sessions.overview import (
    FailureJson,
    MonthJson,
    StatusJson,
    overview,
    own_ledgers,
)
from reflector.text.phrases import counted, short_number

#: The most dropped verdicts that are shown.
_MOST_DROPPED = 3
#: The names of session states on the screen. Other states are shown unchanged.
_STATES = {"skipped": "without a verdict", "given_up": "given up", "completed": "judged"}
_NO_LEDGER = "no ledger yet; `reflector add` creates a ledger"

Row = tuple[str, str]


@click.command()
@flag("--projects", "everything", help="Show a line for each of your projects.")
@json_option
@click.pass_obj
def status(place: Place, everything: bool) -> None:
    """Show recorded, waiting and failed sessions.

    `status` changes nothing. The exit code is 1 if reflector could not record or judge a session,
    or cannot read one of its files.
    """
    if everything:
        _print_projects(place)
        return
    state = status_of(place)
    if not place.answers(state):
        print_facts(_Rows(place, state).all(), 9)
        _print_notes(place, state)
    if state.is_troubled:
        raise click.exceptions.Exit(1)


def _print_projects(place: Place) -> None:
    ledgers = list(own_ledgers())
    if place.answers(ledgers):
        return
    cells = [
        (
            own.project,
            own.events,
            own.waiting,
            short_time(own.written_at or ""),
            "" if own.is_there else "gone",
        )
        for own in ledgers
    ]
    empty = "No project of yours has a ledger yet; `reflector add` starts one."
    table(("project", "events", "waiting", "written", "ledger"), cells, empty=empty)


def status_of(place: Place) -> StatusJson:
    """Return the state of the place's project.

    Raises: ConfigError if the settings cannot be used.
    """
    project = place.project()
    return overview(project, place.command, fast.switched_off_by(str(project.root)))


def month_words(month: MonthJson | None) -> str:
    """Return the tokens of this month in a line."""
    if month is None:
        return "this month: unknown, because reflector cannot read its count of judges' tokens"
    limit = f"of {month.limit:,} tokens" if month.limit else "tokens, without a limit"
    return f"this month: {month.tokens:,} {limit}, in all projects together"


class _Rows(NamedTuple):
    """A state as rows of names and values."""

    place: Place
    state: StatusJson

    def all(self) -> Iterator[Row]:
        """Yield the rows from the project to its failures."""
        yield from self._project()
        yield from self._ledger()
        yield from self._waiting()
        yield from self._spool()
        yield from (("problem", problem) for problem in self.state.problems)
        yield from self._deliveries()
        for failure in self.state.failures:
            yield from self._failure(failure)

    def _project(self) -> Iterator[Row]:
        state = self.state
        yield "project", state.project
        if state.off is not None:
            yield (
                "off",
                f"reflector is off in {state.off}; to turn it on: {self.place.command('on')}",
            )
        if next(callers_of(Path(state.project)), None) is None:
            yield "agents", "none connected; to connect your agent: reflector install"
        yield "backend", state.backend_lacks or state.backend

    def _ledger(self) -> Iterator[Row]:
        state = self.state
        ledger = state.ledger
        if ledger is None:
            if not state.problems:
                yield "ledger", _NO_LEDGER
            return
        last = f", the last at {short_time(ledger.last_event)}" if ledger.last_event else ""
        if (ledger.last_event or "") > latest_time():
            last += f", which is in the future; to see why: {self.place.command('doctor')}"
        yield "ledger", f"{ledger.url}, {counted(ledger.events, 'event')}{last}"
        if upgrade := state.upgrade:
            when = f"upgraded from revision {upgrade.revision} on {short_time(upgrade.at)}"
            yield "", f"{when}; the copy of the ledger before the upgrade is {upgrade.file}"
        in_files = (
            f", and {counted(state.file_rules, 'rule')} in your files" if state.file_rules else ""
        )
        rules = f"{counted(state.bullets, 'rule')}{in_files}"
        yield "playbook", f"{rules}; {policy_words(ledger.counting)}"
        if told := state.told:
            cost = f"in {told.characters:,} characters, about {told.tokens:,} tokens"
            yield "at start", f"{counted(told.bullets, 'rule')} {cost}"
        parts = (
            f"{count} {_STATES.get(name, name)}" for name, count in sorted(state.sessions.items())
        )
        earlier = f"; to record earlier sessions: {self.place.command('history')}"
        yield "sessions", ", ".join(parts) or f"none recorded{'' if self.place.user else earlier}"
        yield from self._dropped()
        if change := state.model:
            agent = change.agent or "your agent"
            since = day_words(change.since)
            votes = (
                f"{short_number(change.earlier)} of {short_number(change.votes)} votes are from "
                "sessions before this change of the model"
            )
            words = f"{agent} changed from {change.before} to {change.model} ({since}); {votes}"
            yield "model", f"{words}; to compare: {self.place.command('list --by model')}"
        if state.waiting_for_budget:
            again = self.place.command("reflect")
            skipped = counted(state.waiting_for_budget, "session")
            yield "", f"{skipped} not judged because of a budget; to judge anyway: {again}"

    def _dropped(self) -> Iterator[Row]:
        """Yield the newest verdicts that do not count, and their number."""
        dropped = self.state.dropped
        for verdict in dropped[:_MOST_DROPPED]:
            session = short_id(verdict.session_id)
            words = f"{verdict.name} {verdict.tag} in session {session}, not counted: {verdict.why}"
            yield "dropped", words
        if count := len(dropped):
            number = f"{count} or more" if count >= MOST else str(count)
            why = self.place.command("blame", dropped[0].name)
            yield "", f"verdicts not counted in the last 30 days: {number}; to see a reason: {why}"

    def _waiting(self) -> Iterator[Row]:
        state = self.state
        command = self.place.command
        if state.proposals:
            yield "waiting", f"{counted(state.proposals, 'proposal')}: {command('review')}"
        if state.trial is not None:
            yield "trial", f"{state.trial}; {command('trial status')}"
        if state.month is None or state.month.tokens or state.waiting_for_budget:
            yield "tokens", month_words(state.month)
        if user := state.user:
            names = ", ".join(user.hidden)
            hidden = (
                f"; sessions do not get {names}, because the project has rules with the same names"
            )
            yield "yours", f"{counted(user.bullets, 'rule')} of your own{hidden if names else ''}"

    def _spool(self) -> Iterator[Row]:
        left = self.state.spool
        waiting = counted(left.waiting, "session")
        words = f"{counted(left.pending, 'hook event')} to read, {waiting} open"
        if left.unanswered:
            words += f", {left.unanswered} whose last answer reflector has not read yet"
        if left.silent:
            words += f", {left.silent} ended without a message or a transcript"
        yield "queue", words
        if left.elsewhere:
            folders = ", ".join(map(str, spool.stand_in_spools()))
            yield (
                "",
                f"{counted(left.elsewhere, 'hook event')} kept in another folder, because the "
                f"project's folder is missing or read-only: {folders}",
            )

    def _deliveries(self) -> Iterator[Row]:
        """Yield the deliveries that could not be recorded."""
        left = self.state.spool
        for delivery in left.failed:
            given_up = ", given up" if delivery.given_up else ""
            tries = f"tried {counted(delivery.attempts, 'time')}{given_up}"
            yield "failed", f"{delivery.delivery} ({tries}): {delivery.error}"
        if left.failed:
            again = self.place.command("reflect")
            yield "", f"reflector retries automatically; to retry now: {again}"
            yield (
                "",
                "to discard a failed hook event, remove its file from the folder spool/failed/",
            )
        yield from (("broken", f"{name}: {spool.NOT_A_PAYLOAD}") for name in left.broken)

    def _failure(self, failure: FailureJson) -> Iterator[Row]:
        """Yield a question that a judge did not answer."""
        question = "judging"
        if failure.asked_by == "check":
            question = f"check of session {short_id(failure.session_id)}"
        again = f"; next try {short_time(failure.next_try)}" if failure.next_try else ""
        reason = f"{failure.stage}: {failure.message}{again}"
        yield "failed", f"{question} at position {failure.position}: {reason}"
        if failure.command:
            yield "", f"to try again: {failure.command}"


def _print_notes(place: Place, state: StatusJson) -> None:
    """Print the ways out of failures, and a note on another tool's playbook.json."""
    again = place.command("reflect")
    failures = state.failures
    if any(failure.state == "given_up" and failure.stage == "answer" for failure in failures):
        note(f"If the model declined, try another model: REFLECTOR_MODEL=NAME {again}")
    if any(failure.state == "failed" for failure in failures):
        note("To stop trying: reflector review give-up SESSION")
    if state.spool.pending:
        warn(f"a session is still being processed; if this takes long, run `{again}`")
    if not state.problems and (text := foreign_note(place.project())):
        note(text)
    for line in state.changed:
        note(line)
    if state.changed:
        note_shown(place.project())
