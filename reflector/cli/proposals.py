"""`reflector proposals`: the changes that were proposed, the decision of a person, and what `find` proposes.

Invariant: a decision is written before the next key is read, so leaving at any moment loses nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal

import click

from reflector.cli.app import Place
from reflector.cli.changes import alike_to, asked, chosen_editor
from reflector.cli.options import dry_run_option, json_option, why_option
from reflector.cli.output import BulletJson, counted, note, print_json, safe, shaped, short_id, short_time, table

if TYPE_CHECKING:
    from reflector.audit.citations import Due
    from reflector.curation.proposals import Proposal, Quote
    from reflector.ledger.store import Ledger
    from reflector.playbook.change import Change
    from reflector.playbook.duplicates import Pair

_Word = Literal["approve", "reject", "keep"]
_WHO = {"person": "a person", "agent": "the agent", "tool": "a tool"}
_MENU = "[a]pprove  [e]dit  [r]eject  [k]eep apart  [l]ater  [u]ndo  [q]uit"


@click.group(invoke_without_command=True)
@click.option("--all", "everything", is_flag=True, help="Include decided proposals.")
@json_option
@click.pass_context
def proposals(ctx: click.Context, everything: bool, as_json: bool) -> None:
    """List the proposed changes; decide, approve, reject or find them.

    ID is a proposal's id or its beginning.
    """
    if ctx.invoked_subcommand is not None:
        return
    from reflector.curation.proposals import proposals as of
    from reflector.curation.undoing import undone

    place: Place = ctx.obj
    with place.reading() as ledger:
        found, now = of(ledger, waiting=not everything), ledger.rows()
        gone = undone(ledger) if everything else {}
    if as_json:
        print_json(
            [
                shaped(
                    ProposalJson, one, change=one.change.to_data(), basis=dict(one.basis or {}),
                    undone_at=gone.get(one.approval or ""),
                )
                for one in found
            ]
        )  # fmt: skip
        return
    rows = [
        (
            short_id(p.id),
            short_time(p.proposed_at),
            "undone" if p.approval in gone else p.state,
            *((p.name or "",) if everything else ()),
            p.origin,
            f"{p.change.line} ({p.reason})",
        )
        for p in found
    ]
    empty = "Nothing was proposed." if everything else "No proposal waits."
    columns = ("id", "proposed", "state", *(("bullet",) if everything else ()), "origin", "change")
    table(columns, rows, extra=("proposed",), whole=True, empty=empty)
    waiting = [one for one in found if one.state == "waiting"]
    for one in waiting:
        for line in alike_to(one.change, now):
            note(f"{short_id(one.id)}: {line}")
    if waiting:
        note(f"Decide: {place.command('proposals', 'decide')}, or approve ID or reject ID")


@dataclass(frozen=True, slots=True)
class ProposalJson:
    """A proposed change and the decision on it; `change` is as an event has it.

    origin    where it comes from: human, agent, rules, model, import or machine; `trust` is the least of its sources'
    basis     digests of the bullets that it is about, by name
    target    the event that it is about
    name      the bullet that it made, `approval` the event; null before
    why       why it was rejected or fell away
    edited    whether it was approved with another text
    undone_at  the position at which it was undone
    """

    id: str
    position: int
    proposed_at: str
    actor: str
    change: dict[str, Any]
    origin: str
    trust: str
    reason: str
    evidence: tuple[Quote, ...]
    basis: dict[str, str]
    target: str | None
    state: str
    decided_at: str | None
    name: str | None
    approval: str | None
    why: str | None
    edited: bool
    undone_at: int | None


@proposals.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--text", help="Other words than the proposed ones; for one proposal.")
@click.pass_obj
def approve(place: Place, ids: tuple[str, ...], text: str | None) -> None:
    """Make proposed changes."""
    if text is not None and len(ids) != 1:
        raise click.UsageError("--text is for one proposal")
    _decide(place, "approve", ids, text)


@proposals.command(short_help="Decide against proposed changes.")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@why_option
@click.option("--keep", is_flag=True, help="Of merges: keep the bullets apart, and never propose it again.")
@click.pass_obj
def reject(place: Place, ids: tuple[str, ...], why: str | None, keep: bool) -> None:
    """Decide against proposed changes; the agent gets the reason when it proposes the same again."""
    _decide(place, "keep" if keep else "reject", ids, why or "no reason given")


def _decide(place: Place, word: _Word, ids: Sequence[str], text: str | None) -> None:
    """Decide on proposals, each by itself: one that cannot be decided on is named, and the others are.

    `text` is another text of one that is approved, else the reason.
    """
    from reflector.curation.bullets import BulletRefused
    from reflector.curation.changes import planned
    from reflector.curation.proposals import approve, find, reject

    refused = []
    with place.pipeline() as pipeline:
        ledger, first = pipeline.ledger, pipeline.project.first_number
        for id in ids:
            try:
                proposal = find(ledger, id)
                if word != "approve":
                    reject(ledger, proposal, text or "", keep=proposal.change.about if word == "keep" else ())
                    continue
                change = proposal.change if text is None else replace(proposal.change, text=text)
                steps = planned(ledger, [change], first=first) if proposal.state == "waiting" else []
                applied = approve(ledger, proposal, text=text, first=first)
            except BulletRefused as error:
                refused.append(str(error))
                continue
            for line in (line for step in steps for line in step.lines):
                click.echo(safe(line))
            note(f"Undo: {place.command('undo', str(applied.position))}")
        pipeline.write()
    if refused:
        raise click.ClickException("\n".join(refused))


@proposals.command(short_help="Decide on what waits, with one key each.")
@click.pass_obj
def decide(place: Place) -> None:
    """Decide on what waits, with one key each and the evidence on the screen.

    Each decision is written at once. `k` keeps the bullets of a merge apart for good, `u` undoes your last decision.
    """
    from reflector.curation.bullets import BulletRefused
    from reflector.curation.proposals import find, reopen, sweep
    from reflector.curation.proposals import proposals as of

    with place.pipeline() as pipeline:
        for gone in sweep(pipeline.ledger):
            note(f"Fell away: {gone.change.line}. {gone.why}")
        waiting = [one.id for one in of(pipeline.ledger)]
        pipeline.write()
    number, decided = 0, []  # type: int, list[str]
    while number < len(waiting):
        with place.reading() as ledger:
            one = find(ledger, waiting[number])
            if one.state == "waiting":
                click.secho(f"\n{number + 1} of {len(waiting)}", bold=True)
                _show(ledger, one, place.project().first_number)
        word = asked(_MENU) if one.state == "waiting" else "later"
        try:
            if word == "quit":
                break
            if word == "undo":
                if not decided:
                    note("You have decided nothing yet.")
                    continue
                with place.pipeline() as pipeline:
                    reopen(pipeline.ledger, find(pipeline.ledger, decided[-1]), first=pipeline.project.first_number)
                    pipeline.write()
                    number = waiting.index(decided.pop())
                    waiting[number] = of(pipeline.ledger)[-1].id  # it waits again, as a new event
                continue
            if word != "later":
                _decide(place, *_decision(one, word))
                decided.append(one.id)
        except (BulletRefused, click.ClickException) as error:
            note(error.format_message() if isinstance(error, click.ClickException) else str(error))
        number += 1
    note(f"{len(decided)} decided; {counted(len(waiting) - len(decided), 'proposal')} left." if waiting else
         "No proposal waits.")  # fmt: skip


def _decision(one: Proposal, word: str) -> tuple[_Word, list[str], str | None]:
    """Return the decision of a key: another text is written in an editor, a reason on a line."""
    text = None
    if word == "edit":
        text = click.edit(one.change.text or "", editor=chosen_editor(f"with `proposals approve {short_id(one.id)}`"))
        if text is None:
            raise click.ClickException("The text was not saved, so nothing was decided.")
        text = " ".join(text.split())
    if word in ("edit", "approve"):
        return "approve", [one.id], text
    why = click.prompt("Why", default="not wanted", err=True) if sys.stdin.isatty() else "not wanted"
    return "reject" if word == "reject" else "keep", [one.id], why


def _show(ledger: Ledger, one: Proposal, first: int) -> None:
    from reflector.curation.changes import planned

    (step,) = planned(ledger, [one.change], first=first)
    click.secho(f"{one.change.kind} {' '.join(one.change.about)}".rstrip(), bold=True)
    click.echo(f"from {one.origin}, words of {_WHO[one.trust]}, {short_time(one.proposed_at)}, id {short_id(one.id)}")
    for line in (one.reason, *step.lines, *alike_to(one.change, ledger.rows())):
        click.echo(safe(line))
    for quote in one.evidence:
        where = f", session {short_id(quote.session)}" if quote.session else ""
        click.echo(safe(f"  {_WHO[quote.by]}{where}: “{quote.text}”"))


@dataclass(frozen=True, slots=True)
class PairJson:
    """Two bullets that say the same or contradict each other.

    text      what a merge of them would say; null where none is proposed
    proposal  the id of the proposal that waits
    move      the command after which bullets of two sections can be merged
    """

    kind: str
    why: str
    bullets: list[BulletJson]
    text: str | None
    proposal: str | None
    move: str | None


@dataclass(frozen=True, slots=True)
class DueJson:
    """A bullet that evidence speaks against; `state` is that of its removal, null for a dry run."""

    name: str
    reason: str
    told: int | None
    cited: int
    helpful: int
    harmful: int
    text: str
    state: str | None


@dataclass(frozen=True, slots=True)
class FoundJson:
    """What `proposals find` found."""

    duplicates: list[PairJson]
    removals: list[DueJson]


@proposals.command(short_help="Propose merges of duplicates, and removals.")
@dry_run_option
@json_option
@click.pass_obj
def find(place: Place, dry_run: bool, as_json: bool) -> None:
    """Propose merges of duplicates, and removals of bullets that harm or are not used.

    A pair has the same words, apart from words that carry no meaning, a few synonyms and the order of a list. Texts
    that differ in a number, a name, a path, a command or a negation are never a pair, nor are bullets that you decided
    to keep apart. Contradictions, and pairs of two sections, are only shown.

    A removal is for a bullet that harmed too often for chance, as nine sessions of nine or 13 of 14 show, or
    that `prune_after` sessions were told and
    none cited, unless it helped more than it harmed. Pinned bullets stay. With the setting `prune` = "apply" they are
    removed at once; `reflector undo NAME` brings one back.
    """
    from reflector.audit.citations import due
    from reflector.curation.proposals import kept_pairs
    from reflector.playbook.duplicates import duplicates

    config = place.project().config
    with place.reading() as ledger:
        pairs = duplicates(ledger.bullets(), kept_pairs(ledger))
        found = due(ledger, after=config.prune_after, pinned=config.pinned)
    merges: dict[frozenset[str], str] = {}
    states: list[str] = []
    if not dry_run:
        with place.pipeline() as pipeline:
            merges = _merges(pipeline.ledger, pairs)
            states = _removals(pipeline.ledger, found, at_once=config.prune == "apply")
            pipeline.write()
    if as_json:
        merging = [
            shaped(
                PairJson,
                pair,
                bullets=BulletJson.all((pair.first, pair.second)),
                text=pair.text if pair.is_mergeable else None,
                proposal=merges.get(pair.names),
                move=_move(place, pair),
            )
            for pair in pairs
        ]
        removals = [
            shaped(DueJson, one.cited, reason=one.reason, text=one.text, state=state)
            for one, state in zip_longest(found, states)
        ]
        print_json(FoundJson(merging, removals))
        return
    for pair in pairs:
        click.secho(f"{pair.kind}: {safe(pair.why)}", bold=True)
        click.echo(safe(f"  {pair.first.line}\n  {pair.second.line}"))
        if move := _move(place, pair):
            click.echo(f"  to merge them, first: {move}")
        if pair.names in merges:
            click.echo(f"  proposal {short_id(merges[pair.names])}")
    if found:
        table(("name", "why", "text"), [(one.cited.name, one.reason, one.text) for one in found])
    if not pairs and not found:
        note("No two bullets say the same, and none is to be removed.")
    elif dry_run:
        note("Nothing was proposed; leave --dry-run out to propose it.")
    elif "removed" in states:
        back = place.command("undo", found[0].cited.name)
        note(f"Removed {counted(len(found), 'bullet')}. Bring one back with: {back}")
    else:
        waiting = states.count("waiting")
        proposed = counted(len(merges) + waiting, "proposal")
        note(f"{proposed} waiting. Decide: {place.command('proposals', 'decide')}")
        if decided := len(states) - waiting:
            note(f"Decided on before, and not proposed again: {decided}.")
        if left := len(found) - len(states):
            note(f"{counted(left, 'more removal')} when fewer proposals wait: run find again.")


def _move(place: Place, pair: Pair) -> str | None:
    """Return the command after which a pair of two sections can be merged."""
    return place.command("revise", pair.second.name, "--section", pair.first.section) if pair.is_across else None


def _merges(ledger: Ledger, pairs: Sequence[Pair]) -> dict[frozenset[str], str]:
    """Propose merges, and return the ids of the proposals that wait by the pairs' names.

    Of pairs that share a bullet only the first: once it is decided on, the other texts meet again.
    """
    from reflector.playbook.change import Change

    waiting: dict[frozenset[str], str] = {}
    for pair in pairs:
        if pair.is_mergeable and not any(pair.names & names for names in waiting):
            names = (pair.first.name, pair.second.name)
            change = Change("merge", names=names, section=pair.first.section, text=pair.text)
            one = _proposed(ledger, change, pair.why)
            if one is not None and one.state == "waiting":
                waiting[pair.names] = one.id
    return waiting


def _removals(ledger: Ledger, found: Sequence[Due], *, at_once: bool) -> list[str]:
    """Remove bullets, or propose it as long as that pushes no other proposal away; return what became of each."""
    from reflector.curation.changes import apply
    from reflector.playbook.change import Change

    states: list[str] = []
    for one in found:
        change = Change("remove", one.cited.name)
        if at_once:
            apply(ledger, [change], actor="human", reason=f"pruned: {one.reason}")
            states.append("removed")
        elif (proposal := _proposed(ledger, change, one.reason)) is not None:
            states.append(proposal.state)
        else:
            break
    return states


def _proposed(ledger: Ledger, change: Change, reason: str) -> Proposal | None:
    """Return the proposal of a change; None where as many wait as may, or it is refused, which is said."""
    from reflector.curation.proposals import MOST_WAITING, ProposalRefused, propose
    from reflector.curation.proposals import proposals as of

    waiting = of(ledger)
    if len(waiting) >= MOST_WAITING and all(other.change != change for other in waiting):
        return None
    try:
        return propose(ledger, change, origin="rules", trust="agent", reason=reason, actor="rules")
    except ProposalRefused as refused:
        note(f"{change.line}: {refused}")
        return None
