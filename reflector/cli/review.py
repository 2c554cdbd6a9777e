"""`reflector review`: citations, proposals and changes to memory files that wait for your decision.

Invariant: a decision is written before the next key is read, so you can leave at any moment and
lose nothing.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

import click

from reflector.attribution.files import shown_name
from reflector.audit.citations import Due, due
from reflector.audit.moments import session_named
from reflector.changes import propose as proposing
from reflector.changes.apply import BulletRefused, plan_changes
from reflector.changes.propose import Proposal, ProposalRefused
from reflector.changes.pruning import Pruned, prune
from reflector.cli.app import Place
from reflector.cli.changes import alike_to, edited
from reflector.cli.memory import (
    MemoryJson,
    is_memory,
    keep_memory,
    memory_waiting,
    print_change,
    take_back_memory,
)
from reflector.cli.options import (
    NAME,
    dry_run_option,
    find_bullet,
    json_option,
    why_option,
)
from reflector.cli.output import (
    note,
    print_facts,
    safe,
    say,
    short_id,
    short_time,
    table,
)
from reflector.cli.undo import undo
from reflector.events.bullets import WITHOUT_A_QUOTE
from reflector.events.event import Event
from reflector.files import Changed
from reflector.ledger.store import Ledger
from reflector.mistakes import Mistake
from reflector.playbook.bullet import Bullet, Verdict
from reflector.playbook.duplicates import Pair, duplicates
from reflector.playbook.names import is_name
from reflector.playbook_files.places import places
from reflector.reflection.aftermath import aftermath, evidence
from reflector.reflection.standing import OpenCitation, citation_of, citations, windows_from
from reflector.refusal import Refusal
from reflector.sessions.judging import give_up as give_up_session, give_verdict
from reflector.text.phrases import counted
from reflector.text.secrets import quote
from reflector.transcripts.message import Message
from reflector.transcripts.reading import UnknownTranscript

_WHO = {"person": "you", "agent": "the agent", "tool": "a tool"}
_VERDICT_OF: Mapping[str, Verdict] = {"h": "helpful", "x": "harmful", "n": "neutral"}
_CITATION_KEYS = {"h": "helped", "x": "harmed", "n": "neither", "m": "more"}
_COMMON_KEYS = {"s": "skip", "u": "undo", "q": "quit"}
_LAST_KEYS = {"u": "undo", "q": "quit"}
#: The most characters of a message, and the most of your messages, on a screen.
_CHARACTERS, _REPLIES = 240, 3
_NOTHING = "Nothing is waiting for you."
_NO_REASON = "no reason given"
#: The value for a kept change, which is used instead of the position of a decision.
_KEPT = "kept"

session_option = click.option(
    "--session", metavar="SESSION", help="Session to show (id or its beginning)."
)
ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID…")


class _Review(click.Group):
    """The group. A word with a digit that is not a command is the name of a rule."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in self.commands and re.search(r"\d", word):
            if args == [word]:
                decision = f"{word} helpful|harmful|neutral --session SESSION"
                if not is_name(word):
                    decision = f"approve {word}, or reflector review reject {word}"
                raise click.UsageError(f"{word} needs your decision: reflector review {decision}")
            return "NAME", self.commands["NAME"], args
        return super().resolve_command(ctx, args)


@dataclass
class WaitingJson:
    """The things that wait for you.

    citations  without a verdict, newest first; with `review list`, also those that a judge decided
    proposals  oldest first; with `review list`, also decided ones
    memory     changes to memory files by an agent, with the setting `memory` = "tell"
    """

    citations: list[OpenCitation]
    proposals: list[Proposal] = field(default_factory=list)
    memory: list[MemoryJson] = field(default_factory=list)


@click.group(cls=_Review, invoke_without_command=True)
@session_option
@json_option
@click.pass_context
def review(ctx: click.Context, session: str | None) -> None:
    """Give verdicts and decide on proposals.

    In a terminal, `review` shows you each citation without a verdict and each proposal, with the
    evidence. In `review`, you decide on a citation or a proposal with one key. Your verdict on a
    rule in a session replaces all other verdicts on this rule in this session. `review` records
    each decision immediately. To undo your last decision in `review`, press u. Without a terminal,
    `review` only lists the citations without a verdict, and the proposals. ID is the id of a
    proposal, or the beginning of the id.
    """
    if ctx.invoked_subcommand is not None:
        return
    place: Place = ctx.obj
    is_by_key = sys.stdin.isatty() and not place.as_json
    if is_by_key:
        with place.changing() as ledger:
            for gone in proposing.sweep_proposals(ledger)[1]:
                note(f"This proposal no longer applies: {gone.change.line}. {gone.why}")
    waiting = _waiting(place, session)
    if is_by_key and waiting != WaitingJson([]):
        _decide_by_key(place, _cases_of(waiting))
    else:
        _print(place, waiting)


def _waiting(place: Place, session: str | None, *, decided: bool = False) -> WaitingJson:
    with place.reading() as ledger:
        session_id = session_named(ledger, session) if session is not None else None
        waiting = WaitingJson([*citations(ledger, session_id=session_id, decided=decided)])
        if session is None:
            waiting.proposals = proposing.read_proposals(ledger, only_waiting=not decided)
            if place.project().config.memory == "tell":
                waiting.memory = memory_waiting(place)
    return waiting


def _cases_of(waiting: WaitingJson) -> list[_Case]:
    """Return the cases to decide on, one after the other."""
    return [
        *map(_CitationCase, waiting.citations),
        *map(_ProposalCase, waiting.proposals),
        *map(_MemoryCase, waiting.memory),
    ]


@review.command("list")
@session_option
@json_option
@click.pass_obj
def list_(place: Place, session: str | None) -> None:
    """List all citations and proposals."""
    _print(place, _waiting(place, session, decided=True))


def _print(place: Place, waiting: WaitingJson) -> None:
    if place.answers(waiting):
        return
    if waiting == WaitingJson([]):
        note(_NOTHING)
        return
    if waiting.citations:
        cited = map(_cells, waiting.citations)
        table(("rule", "session", "cited", "verdict", "reason"), cited, extra=("cited",))
        verdict = "NAME helpful|harmful|neutral --session SESSION"
        note(f"To decide: {place.command('review', verdict)}")
    if waiting.proposals:
        _print_proposals(waiting.proposals)
    if waiting.memory:
        rows = [(one.place, shown_name(one.file), one.session[:8]) for one in waiting.memory]
        table(("change", "file", "session"), rows)
        keep_change = place.command("review", "keep", "CHANGE")
        note(f"To decide: {keep_change}, or {place.command('undo', 'CHANGE')}")
    if any(proposal.state == "waiting" for proposal in waiting.proposals):
        approve_it = place.command("review", "approve", "ID")
        note(f"To decide: {approve_it}, or {place.command('review', 'reject', 'ID')}")


def _cells(citation: OpenCitation) -> Sequence[str]:
    return (
        citation.name,
        short_id(citation.session_id),
        short_time(citation.occurred_at),
        citation.verdict or "none",
        citation.reason,
    )


def _print_proposals(proposals: Sequence[Proposal]) -> None:
    rows = [
        (
            short_id(proposal.id),
            short_time(proposal.proposed_at),
            proposal.state,
            proposal.origin,
            f"{proposal.change.line} ({proposal.why or proposal.reason})",
        )
        for proposal in proposals
    ]
    columns = ("id", "proposed", "state", "origin", "change")
    table(columns, rows, extra=("proposed",), whole=True)


def _decide_by_key(place: Place, cases: Sequence[_Case]) -> None:
    """Show each open case, and record each decision immediately. After the last case, only the
    last decision can be taken back.
    """
    decided: list[_Decided] = []
    number = 0
    key = ""
    while key != "q" and (number < len(cases) or decided):
        if number == len(cases):
            key = _pressed(_LAST_KEYS)
            if key == "u":
                number = _undo_last(place, decided, number)
            continue
        case = cases[number]
        if not case.show(place, f"{number + 1} of {len(cases)}"):
            number += 1
            continue
        while (key := _pressed({**case.keys, **_COMMON_KEYS})) == "m":
            case.show_more()
        if key == "u":
            number = _undo_last(place, decided, number)
        elif key != "q":
            if key != "s":
                _decide(place, case, key, decided, number)
            number += 1
    left = len(cases) - len(decided)
    note(f"{counted(len(decided), 'decision')} recorded; {left} still to decide.")


class _Decided(NamedTuple):
    """The number of a case, and the position of the decision; None if `undo` cannot undo it."""

    number: int
    position: int | str | None


def _decide(
    place: Place,
    case: _Case,
    key: str,
    decided: list[_Decided],
    number: int,
) -> None:
    """Record a decision, or print the reason why it is refused."""
    try:
        decided.append(_Decided(number, case.decide(place, key)))
    except click.ClickException as error:
        note(error.format_message())
    except (Mistake, Refusal, Changed, OSError) as error:
        note(str(error))


def _undo_last(place: Place, decided: list[_Decided], number: int) -> int:
    """Undo the last decision, and return the number of the case to show next."""
    if not decided:
        note("You have not decided anything yet.")
        return number
    position = decided[-1].position
    if position == _KEPT:
        note(
            "You decided to keep this change to the file. To undo the change, find its number "
            "with `reflector log --memory`, then run: reflector undo NUMBER"
        )
        return number
    if position is None:
        note(
            "You declined this proposal. To approve the proposal anyway: "
            f"{place.command('review', 'approve', 'ID')}"
        )
        return number
    undo.main([str(position), "--yes"], obj=place, standalone_mode=False)
    return decided.pop().number


def _pressed(keys: Mapping[str, str]) -> str:
    """Return the key that you press, which is one of these."""
    menu = "  ".join(f"{key} {word}" for key, word in keys.items())
    while True:
        click.echo(f"{menu} > ", nl=False)
        try:
            key = click.getchar().lower()
        except (EOFError, KeyboardInterrupt):
            key = "q"
        click.echo(key if key.isprintable() else "")
        if key in keys:
            return key


class _CitationCase:
    """A citation that waits for your verdict.

    keys  the keys that decide on it
    """

    def __init__(self, citation: OpenCitation) -> None:
        self.citation = citation
        self.windows: Sequence[Event] = ()
        self.keys = _CITATION_KEYS

    def show(self, place: Place, number: str) -> bool:
        """Print it, with a summary of the evidence."""
        citation = self.citation
        with place.reading() as ledger:
            text = find_bullet(ledger, citation.name).text
            self.windows = windows_from(ledger, citation)
        session = f"{citation.name}, session {short_id(citation.session_id)}"
        when = short_time(citation.occurred_at)
        say(f"\n{number}  citation that needs a verdict  {session}, {when}", bold=True)
        print_facts([("rule", text), *self._facts()], 7)
        return True

    def _facts(self) -> list[tuple[str, str]]:
        facts = []
        if self.citation.verdict:
            facts.append(("judge", _judged_words(self.citation)))
        try:
            summary = aftermath(self.windows, self.citation.name)
        except (OSError, UnknownTranscript) as error:
            return [*facts, ("", f"reflector cannot show the evidence: {error}")]
        steps = [counted(summary.calls, "call")]
        if summary.errors:
            steps.append(counted(summary.errors, "error"))
        if summary.resumed:
            steps.append(f"resumed {short_time(summary.resumed)}")
        cited = f"“{quote(summary.cited, _CHARACTERS)}”"
        facts += [("agent", cited), ("then", ", ".join(steps))]
        replies = [f"“{quote(reply, _CHARACTERS)}”" for reply in summary.replies]
        facts += [("you", reply) for reply in replies[:_REPLIES]]
        if more := replies[_REPLIES:]:
            facts.append(("", f"and {counted(len(more), 'more message')}"))
        return facts

    def show_more(self) -> None:
        try:
            for cites, message in evidence(self.windows, self.citation.name):
                for line in _lines(message):
                    say(line, bold=cites or message.origin == "human")
        except (OSError, UnknownTranscript) as error:
            say(f"  reflector cannot show the evidence: {safe(str(error))}")

    def decide(self, place: Place, key: str) -> int | None:
        return _record_verdict(place, self.citation, _VERDICT_OF[key])


def _judged_words(citation: OpenCitation) -> str:
    words = f"{citation.by}: {citation.verdict}"
    if citation.unquoted:
        words += f" {WITHOUT_A_QUOTE}"
    if citation.uncounted:
        words += f", not counted: {citation.uncounted}"
    return ", ".join(filter(None, (words, citation.reason)))


def _lines(message: Message) -> list[str]:
    """Return a message's words, calls and results."""
    lines: list[tuple[str, str]] = []
    if message.text.strip():
        lines.append(("you" if message.origin == "human" else message.origin, message.text))
    lines += [
        ("call", f"{call.name} {next(iter(call.input.values()), '')}") for call in message.calls
    ]
    lines += [("error" if result.is_error else "result", result.text) for result in message.results]
    return [f"{who:>9}  " + safe(text).replace("\n", "\n" + " " * 11) for who, text in lines]


def _record_verdict(
    place: Place, citation: OpenCitation, verdict: Verdict, why: str | None = None
) -> int | None:
    with place.changing() as ledger:
        appended = give_verdict(place.project(), ledger, citation, verdict, why or "")
    note(f"Undo: {place.command('undo', str(appended.position))}")
    return appended.position


class _ProposalCase:
    """A proposal that waits for your decision.

    keys  the keys that decide on it
    """

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        change = proposal.change
        self.keys = {"a": "add" if change.kind == "add" else "approve"}
        if change.text is not None:
            self.keys["e"] = "edit"
        self.keys["d"] = "decline"
        if change.kind == "merge":
            self.keys["k"] = "keep apart"

    def show(self, place: Place, number: str) -> bool:
        """Print it. Return False if it no longer waits."""
        with place.reading() as ledger:
            proposal = proposing.find_proposal(ledger, self.proposal.id)
            if proposal.state != "waiting":
                return False
            change = proposal.change
            (step,) = plan_changes(ledger, [change], first=place.project().first_number)
            alike = alike_to(place, change, ledger.bullets())
        title = "a new rule?" if change.kind == "add" else f"{change.kind} {' '.join(change.about)}"
        when = short_time(proposal.proposed_at)
        say(f"\n{number}  {title}  from {proposal.origin}, {when}", bold=True)
        for line in (proposal.reason, *step.lines, *alike):
            say(line)
        for words in proposal.evidence:
            where = f", session {short_id(words.session)}" if words.session else ""
            say(f"  {_WHO[words.by]}{where}: “{words.text}”")
        return True

    def show_more(self) -> None:
        """A proposal is always shown whole."""

    def decide(self, place: Place, key: str) -> int | None:
        proposal = self.proposal
        if key in ("a", "e"):
            text = self._edited() if key == "e" else None
            with place.changing() as ledger:
                return _approve(place, ledger, proposal, text)
        why = click.prompt("Why", default=_NO_REASON, err=True)
        with place.changing() as ledger:
            _reject(place, ledger, proposal, why=why, keep=key == "k")
        return None

    def _edited(self) -> str:
        otherwise = f"use `review edit {short_id(self.proposal.id)} TEXT`"
        text = edited(otherwise, self.proposal.change.text or "")
        if text is None:
            raise click.ClickException("The text was not saved, so nothing was decided.")
        return " ".join(text.split())


def _reject(
    place: Place, ledger: Ledger, proposal: Proposal, *, why: str | None, keep: bool
) -> None:
    proposing.reject_proposal(ledger, proposal, why or _NO_REASON, keep=keep)
    id = short_id(proposal.id)
    note(f"Declined {id}. To approve the proposal anyway: {place.command('review', 'approve', id)}")


def _approve(place: Place, ledger: Ledger, proposal: Proposal, text: str | None) -> int | None:
    first = place.project().first_number
    step = proposing.approve_proposal(ledger, proposal, text=text, first=first)
    for line in step.lines:
        say(line)
    note(f"Undo: {place.command('undo', str(step.position))}")
    return step.position


class _MemoryCase:
    """A change to a memory file by an agent, which you keep or undo."""

    keys: Mapping[str, str] = {"k": "keep", "t": "undo"}

    def __init__(self, change: MemoryJson) -> None:
        self.change = change

    def show(self, place: Place, number: str) -> bool:
        """Print it with its lines, and your words before it."""
        say(f"\n{number}  your agent changed a memory file", bold=True)
        print_change(place, self.change.place)
        return True

    def show_more(self) -> None:
        """A change is always shown whole."""

    def decide(self, place: Place, key: str) -> str:
        if key == "k":
            keep_memory(place, self.change.place)
            return _KEPT
        return take_back_memory(place, self.change.place)


_Case = _CitationCase | _ProposalCase | _MemoryCase


@review.command(
    "NAME",
    short_help="Record your verdict on a rule in a session.",
    epilog="\b\nExample:\n  reflector review pat-001 helpful --session 5f2a91c0",
)
@click.argument("name", type=NAME, metavar="")
@click.argument("verdict", type=click.Choice(["helpful", "harmful", "neutral"]))
@click.option(
    "--session", required=True, metavar="SESSION", help="Session in which the agent cited the rule."
)
@why_option
@click.pass_obj
def verdict_(place: Place, name: str, verdict: Verdict, session: str, why: str | None) -> None:
    """Record your verdict on the rule NAME in a session.

    Your verdict on a rule in a session replaces all other verdicts on this rule in this session.
    """
    with place.reading() as ledger:
        row = find_bullet(ledger, name)
        citation = citation_of(ledger, session_named(ledger, session), row.name)
    note(f"Your verdict on {citation.name} in session {citation.session_id}: {verdict}.")
    _record_verdict(place, citation, verdict, why)


@review.command()
@ids_argument
@click.pass_obj
def approve(place: Place, ids: tuple[str, ...]) -> None:
    """Approve proposals, and make their changes."""

    def decide(ledger: Ledger, proposal: Proposal) -> None:
        if len(ids) > 1 and (proposal.origin, proposal.trust) == ("model", "tool"):
            raise ProposalRefused(
                f"proposal {short_id(proposal.id)} quotes a tool's output: read this proposal, "
                "and approve it in a separate command"
            )
        _approve(place, ledger, proposal, None)

    _decide_each(place, ids, decide)


@review.command()
@click.argument("id")
@click.argument("text")
@click.pass_obj
def edit(place: Place, id: str, text: str) -> None:
    """Approve a proposal, but with text of your own."""
    _decide_each(place, [id], lambda ledger, proposal: _approve(place, ledger, proposal, text))


@review.command()
@ids_argument
@why_option
@click.pass_obj
def reject(place: Place, ids: tuple[str, ...], why: str | None) -> None:
    """Decline proposals.

    If an agent later repeats a declined proposal, reflector shows the agent your reason.
    """
    _decide_each(place, ids, partial(_reject, place, why=why, keep=False))


@review.command()
@ids_argument
@why_option
@click.pass_obj
def keep(place: Place, ids: tuple[str, ...], why: str | None) -> None:
    """Decline merges, and never propose them again.

    After you decline a merge with `review keep`, reflector does not propose the same merge again.
    To accept a change to a file such as CLAUDE.md, give `review keep` the number of the change,
    such as u41.
    """
    changes = [id for id in ids if is_memory(place, id)]
    for change in changes:
        keep_memory(place, change)
    if proposals := [id for id in ids if id not in changes]:
        _decide_each(place, proposals, partial(_reject, place, why=why, keep=True))


def _decide_each(
    place: Place, ids: Sequence[str], decide: Callable[[Ledger, Proposal], object]
) -> None:
    """Decide on each proposal. If some cannot be decided, raise an error that names them.

    Raises: ClickException after deciding on the others.
    """
    refused = []
    with place.changing() as ledger:
        for id in ids:
            try:
                decide(ledger, proposing.find_proposal(ledger, id))
            except BulletRefused as error:
                refused.append(str(error))
    if refused:
        raise click.ClickException("\n".join(refused))


@review.command("give-up", short_help="Stop waiting for a judge's verdicts.")
@click.argument("sessions", nargs=-1, required=True, metavar="SESSION…")
@why_option
@click.pass_obj
def give_up(place: Place, sessions: tuple[str, ...], why: str | None) -> None:
    """Stop waiting for a judge's verdicts on a session.

    After `review give-up SESSION`, you can decide on the citations of the session yourself, with
    `review`. To let a judge read the session later, run `reflector reflect SESSION`.
    """
    place.needs_playbook()
    backend = place.project().config.backend
    with place.changing() as ledger:
        for session in sessions:
            session_id = session_named(ledger, session)
            if not give_up_session(ledger, session_id, why or _NO_REASON, backend):
                note(f"Session {short_id(session_id)} is not waiting for a judge.")


@dataclass
class FoundJson:
    """The findings of `review find`: the duplicates and the rules to remove."""

    duplicates: list[Pair]
    removals: list[Due]


@review.command(short_help="Propose merges and removals.")
@dry_run_option
@json_option
@click.pass_obj
def find(place: Place, dry_run: bool) -> None:
    """Propose merges and removals of rules.

    Two rules are duplicates if they have the same words. When `review find` compares rules, words
    such as "always", some synonyms and the order of a list make no difference. Two rules with
    different numbers, names, paths, commands or negations are not duplicates. If two rules
    contradict each other, or are in different sections, `review find` shows the two rules without a
    proposal.

    `review find` proposes to remove a rule that harmed more often than chance explains. `review
    find` also proposes to remove a rule that no session cited, if at least N sessions got the rule.
    The setting `prune_after` is N. With the setting `prune` = "apply", `review find` removes
    harmful and uncited rules immediately, without a proposal. `review find` never removes pinned
    rules.
    """
    config = place.project().config
    with place.reading() as ledger:
        pairs = duplicates(ledger.bullets(), proposing.kept_pairs(ledger))
        removals = due(
            ledger,
            after=config.prune_after,
            pinned=config.pinned,
            rates=config.finding_rates,
        )
        harming = {
            removal.name
            for removal in due(ledger, after=0, status="watched", rates=config.finding_rates)
        }
        in_files = [row for row in ledger.rows() if row.name in harming]
        places_by_name = places(ledger, place.folder(), in_files)
    pruned = Pruned()
    if not dry_run:
        reasons = [(removal.name, removal.reason) for removal in removals]
        with place.changing() as ledger:
            pruned = prune(ledger, pairs, reasons, at_once=config.prune == "apply")
    for line in pruned.refused:
        note(line)
    found = FoundJson(
        [
            replace(pair, proposal=pruned.merges.get(pair.names), move=_move(place, *pair.bullets))
            for pair in pairs
        ],
        [replace(removal, state=state) for removal, state in zip_longest(removals, pruned.states)],
    )
    if place.answers(found):
        return
    _print_found(found)
    for name, where in places_by_name.items():
        move = place.command("adopt", "--move", shlex.quote(where.rpartition(":")[0] or where))
        note(
            f"{name} in {where} harms too often. Edit this rule, or move it to the playbook: {move}"
        )
    note(_found_words(place, found, pruned, dry_run=dry_run))
    if "waiting" in pruned.states and (left := len(removals) - len(pruned.states)):
        note(
            f"reflector can propose {counted(left, 'more removal')} later. First decide on these "
            f"proposals, then run: {place.command('review', 'find')}"
        )


def _move(place: Place, first: Bullet, second: Bullet) -> str | None:
    """Return the command that makes a merge possible; None if both rules have the same section."""
    if first.section == second.section:
        return None
    return place.command("edit", second.name, "--section", first.section)


def _print_found(found: FoundJson) -> None:
    for pair in found.duplicates:
        say(f"{pair.kind}: {pair.why}", bold=True)
        for bullet in pair.bullets:
            say(f"  {bullet.line}")
        if pair.move:
            say(f"  to merge these rules, first run: {pair.move}")
        if pair.proposal:
            say(f"  proposal {short_id(pair.proposal)}")
    rows = [(removal.name, removal.reason, removal.text) for removal in found.removals]
    if rows:
        table(("name", "reason", "text"), rows)


def _found_words(place: Place, found: FoundJson, pruned: Pruned, *, dry_run: bool) -> str:
    if not found.duplicates and not found.removals:
        return "reflector found no duplicates and no rules to remove."
    if dry_run:
        return (
            "Nothing was proposed. To make the listed proposals, run the command without --dry-run."
        )
    if "removed" in pruned.states:
        back = place.command("undo", found.removals[0].name)
        return f"Removed {counted(len(found.removals), 'rule')}. To restore the first rule: {back}"
    waiting = len(pruned.merges) + pruned.states.count("waiting")
    return f"{counted(waiting, 'proposal')} to decide on: {place.command('review')}"
