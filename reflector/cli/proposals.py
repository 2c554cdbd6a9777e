"""`reflector proposals`: the changes that were proposed, the decision of a person, and what `find`
proposes.

Invariant: a decision is written before the next key is read, so leaving at any moment loses
nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal

import click

from reflector.audit.citations import Due, due
from reflector.changes import propose as proposing
from reflector.changes.apply import BulletRefused, apply_changes, plan_changes
from reflector.changes.propose import Proposal, ProposalRefused
from reflector.changes.undo import undone
from reflector.cli.app import Place
from reflector.cli.changes import alike_to, asked, edited
from reflector.cli.options import dry_run_option, json_option, why_option
from reflector.cli.output import counted, note, print_json, safe, short_id, short_time, table
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.duplicates import Pair, duplicates

_Word = Literal["approve", "reject", "keep"]
_WHO = {"person": "a person", "agent": "the agent", "tool": "a tool"}
_MENU = "[a]pprove  [e]dit  [r]eject  [k]eep apart  [l]ater  [q]uit"


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
    place: Place = ctx.obj
    with place.reading() as ledger:
        found, now = proposing.read_proposals(ledger, waiting=not everything), ledger.bullets()
        gone = undone(ledger) if everything else {}
    found = [replace(one, undone_at=gone.get(one.approval or "")) for one in found]
    if as_json:
        print_json(found)
        return
    rows = [
        (
            short_id(p.id),
            short_time(p.proposed_at),
            "undone" if p.undone_at else p.state,
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
@click.option(
    "--keep", is_flag=True, help=("Of merges: keep the bullets apart, and never propose it again.")
)
@click.pass_obj
def reject(place: Place, ids: tuple[str, ...], why: str | None, keep: bool) -> None:
    """Decide against proposed changes; the agent gets the reason when it proposes the same
    again.
    """
    _decide(place, "keep" if keep else "reject", ids, why or "no reason given")


def _decide(place: Place, word: _Word, ids: Sequence[str], text: str | None) -> None:
    """Decide on proposals, each by itself: one that cannot be decided on is named, and the others
    are.

    `text` is another text of one that is approved, else the reason.
    """
    refused = []
    with place.changing() as ledger:
        first = place.project().first_number
        for id in ids:
            try:
                proposal = proposing.find_proposal(ledger, id)
                if word != "approve":
                    proposing.reject_proposal(ledger, proposal, text or "", keep=word == "keep")
                    continue
                if len(ids) > 1 and (proposal.origin, proposal.trust) == ("model", "tool"):
                    what = (
                        f"proposal {short_id(proposal.id)} is from a tool: approve it by "
                        "itself, after its quotes"
                    )
                    raise ProposalRefused(what)
                step = proposing.approve_proposal(ledger, proposal, text=text, first=first)
            except BulletRefused as error:
                refused.append(str(error))
                continue
            for line in step.lines:
                click.echo(safe(line))
            note(f"Undo: {place.command('undo', str(step.position))}")
    if refused:
        raise click.ClickException("\n".join(refused))


@proposals.command(short_help="Decide on what waits, with one key each.")
@click.pass_obj
def decide(place: Place) -> None:
    """Decide on what waits, with one key each and the evidence on the screen.

    Each decision is written at once. `k` keeps the bullets of a merge apart for good.
    """
    with place.changing() as ledger:
        for gone in proposing.sweep_proposals(ledger)[1]:
            note(f"Fell away: {gone.change.line}. {gone.why}")
        waiting = [one.id for one in proposing.read_proposals(ledger)]
    decided = 0
    for number, id in enumerate(waiting, 1):
        with place.reading() as ledger:
            one = proposing.find_proposal(ledger, id)
            if one.state != "waiting":
                continue
            click.secho(f"\n{number} of {len(waiting)}", bold=True)
            _show(ledger, one, place.project().first_number)
        word = asked(_menu(one.change))
        if word == "quit":
            break
        try:
            if word != "later":
                _decide(place, *_decision(one, word))
                decided += 1
        except click.ClickException as error:
            note(error.format_message())
    note(
        f"{decided} decided; {counted(len(waiting) - decided, 'proposal')} left."
        if waiting
        else "No proposal waits."
    )


def _menu(change: Change) -> str:
    """Return the keys that decide on a change: only a text can be edited, and only a merge's
    bullets be kept apart.
    """
    menu = _MENU if change.text is not None else _MENU.replace("[e]dit  ", "")
    return menu if change.kind == "merge" else menu.replace("[k]eep apart  ", "")


def _decision(one: Proposal, word: str) -> tuple[_Word, list[str], str | None]:
    """Return the decision of a key: another text is written in an editor, a reason on a line."""
    text = None
    if word == "edit":
        text = edited(f"use `proposals approve {short_id(one.id)} --text`", one.change.text or "")
        if text is None:
            raise click.ClickException("The text was not saved, so nothing was decided.")
        text = " ".join(text.split())
    if word in ("edit", "approve"):
        return "approve", [one.id], text
    why = (
        click.prompt("Why", default="not wanted", err=True) if sys.stdin.isatty() else "not wanted"
    )
    return "reject" if word == "reject" else "keep", [one.id], why


def _show(ledger: Ledger, one: Proposal, first: int) -> None:
    (step,) = plan_changes(ledger, [one.change], first=first)
    click.secho(f"{one.change.kind} {' '.join(one.change.about)}".rstrip(), bold=True)
    click.echo(
        f"from {one.origin}, words of {_WHO[one.trust]}, {short_time(one.proposed_at)}, id "
        f"{short_id(one.id)}"
    )
    for line in (one.reason, *step.lines, *alike_to(one.change, ledger.bullets())):
        click.echo(safe(line))
    for quote in one.evidence:
        where = f", session {short_id(quote.session)}" if quote.session else ""
        click.echo(safe(f"  {_WHO[quote.by]}{where}: “{quote.text}”"))


@dataclass(frozen=True, slots=True)
class FoundJson:
    """What `proposals find` found."""

    duplicates: list[Pair]
    removals: list[Due]


@proposals.command(short_help="Propose merges of duplicates, and removals.")
@dry_run_option
@json_option
@click.pass_obj
def find(place: Place, dry_run: bool, as_json: bool) -> None:
    """Propose merges of duplicates, and removals of bullets that harm or are not used.

    A pair has the same words, apart from words that carry no meaning, a few synonyms and the order
    of a list. Texts that differ in a number, a name, a path, a command or a negation are never a
    pair, nor are bullets that you decided to keep apart. Contradictions, and pairs of two sections,
    are only shown.

    A removal is for a bullet that harmed too often for chance, as nine sessions of nine or 13 of 14
    show, or that `prune_after` sessions were told and none cited, unless it helped more than it
    harmed. Pinned bullets stay. With the setting `prune` = "apply" they are removed at once;
    `reflector undo NAME` brings one back.
    """
    config = place.project().config
    with place.reading() as ledger:
        pairs = duplicates(ledger.bullets(), proposing.kept_pairs(ledger))
        found = due(ledger, after=config.prune_after, pinned=config.pinned)
    merges: dict[frozenset[str], str] = {}
    states: list[str] = []
    if not dry_run:
        with place.changing() as ledger:
            merges = _merges(ledger, pairs)
            states = _removals(ledger, found, at_once=config.prune == "apply")
    answer = FoundJson(
        [
            replace(one, proposal=merges.get(one.names), move=_move(place, *one.bullets))
            for one in pairs
        ],
        [replace(one, state=state) for one, state in zip_longest(found, states)],
    )
    if as_json:
        print_json(answer)
        return
    for one in answer.duplicates:
        click.secho(f"{one.kind}: {safe(one.why)}", bold=True)
        click.echo(safe("".join(f"  {bullet.line}\n" for bullet in one.bullets).rstrip("\n")))
        if one.move:
            click.echo(f"  to merge them, first: {one.move}")
        if one.proposal:
            click.echo(f"  proposal {short_id(one.proposal)}")
    if found:
        table(
            ("name", "why", "text"), [(one.name, one.reason, one.text) for one in answer.removals]
        )
    if not pairs and not found:
        note("No duplicate was found by wording, and no bullet is to be removed.")
    elif dry_run:
        note("Nothing was proposed; leave --dry-run out to propose it.")
    elif "removed" in states:
        back = place.command("undo", found[0].name)
        note(f"Removed {counted(len(found), 'bullet')}. Bring one back with: {back}")
    else:
        waiting = states.count("waiting")
        proposed = counted(len(merges) + waiting, "proposal")
        note(f"{proposed} waiting. Decide: {place.command('proposals', 'decide')}")
        if left := len(found) - len(states):
            note(f"{counted(left, 'more removal')} when fewer proposals wait: run find again.")


def _move(place: Place, first: Bullet, second: Bullet) -> str | None:
    """Return the command after which bullets of two sections can be merged."""
    is_across = first.section != second.section
    return place.command("edit", second.name, "--section", first.section) if is_across else None


def _merges(ledger: Ledger, pairs: Sequence[Pair]) -> dict[frozenset[str], str]:
    """Propose merges, and return the ids of the proposals that wait by the pairs' names.

    Of pairs that share a bullet only the first: once it is decided on, the other texts meet again.
    """
    waiting: dict[frozenset[str], str] = {}
    for pair in pairs:
        if pair.text is not None and not any(pair.names & names for names in waiting):
            first, second = pair.bullets
            change = Change(
                "merge", names=(first.name, second.name), section=first.section, text=pair.text
            )
            one = _proposed(ledger, change, pair.why)
            if one is not None and one.state == "waiting":
                waiting[pair.names] = one.id
    return waiting


def _removals(ledger: Ledger, found: Sequence[Due], *, at_once: bool) -> list[str]:
    """Remove bullets, or propose it as long as that pushes no other proposal away; return what
    became of each.
    """
    states: list[str] = []
    for one in found:
        change = Change("remove", one.name)
        if at_once:
            apply_changes(ledger, [change], actor="human", reason=f"pruned: {one.reason}")
            states.append("removed")
        elif (proposal := _proposed(ledger, change, one.reason)) is not None:
            states.append(proposal.state)
        else:
            break
    return states


def _proposed(ledger: Ledger, change: Change, reason: str) -> Proposal | None:
    """Return the proposal of a change; None where as many wait as may, or it is refused, which
    is said.
    """
    waiting = proposing.read_proposals(ledger)
    if len(waiting) >= proposing.MOST_WAITING and all(other.change != change for other in waiting):
        return None
    try:
        return proposing.propose(
            ledger, change, origin="rules", trust="agent", reason=reason, actor="rules"
        )
    except ProposalRefused as refused:
        note(f"{change.line}: {refused}")
        return None
