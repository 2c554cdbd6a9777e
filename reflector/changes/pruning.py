"""Proposals of merges and removals, for `reflector review find`.

Invariant: it never proposes more than the number of proposals that may wait, so it displaces no
other proposal. Of several pairs with a common bullet it proposes the first. The next run compares
the remaining texts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from reflector.changes import propose as proposing
from reflector.changes.apply import apply_changes
from reflector.changes.propose import Proposal, ProposalRefused
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from reflector.playbook.duplicates import Pair


@dataclass(slots=True)
class Pruned:
    """The proposals for some pairs and removals.

    merges   the ids of the waiting proposals, by the names of the pair
    states   the state of each removal: of its proposal, or `removed`; the last ones may be missing
    refused  the proposals that cannot be made, with the reason
    """

    merges: dict[frozenset[str], str] = field(default_factory=dict)
    states: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def prune(
    ledger: Ledger,
    pairs: Iterable[Pair],
    removals: Sequence[tuple[str, str]],
    *,
    at_once: bool = False,
) -> Pruned:
    """Propose to merge pairs and to remove bullets, each with its reason. `at_once` removes the
    bullets instead.

    The playbook's lock must be held.

    Raises: BulletRefused, LedgerError.
    """
    pruned = Pruned()
    for pair in pairs:
        _propose_merge(ledger, pair, pruned)
    for name, reason in removals:
        change = Change("remove", name)
        if at_once:
            apply_changes(ledger, [change], actor="human", reason=f"pruned: {reason}")
            pruned.states.append("removed")
            continue
        proposal = _proposed(ledger, change, reason, pruned)
        if proposal is None:
            break
        pruned.states.append(proposal.state)
    return pruned


def _propose_merge(ledger: Ledger, pair: Pair, pruned: Pruned) -> None:
    """Propose to merge a pair, unless a proposed merge has one of its bullets."""
    if pair.text is None or any(pair.names & names for names in pruned.merges):
        return
    first, second = pair.bullets
    names = (first.name, second.name)
    change = Change("merge", names=names, section=first.section, text=pair.text)
    proposal = _proposed(ledger, change, pair.why, pruned)
    if proposal and proposal.state == "waiting":
        pruned.merges[pair.names] = proposal.id


def _proposed(ledger: Ledger, change: Change, reason: str, pruned: Pruned) -> Proposal | None:
    """Return the proposal of a change; None if it is refused, or if the maximum number of proposals
    is waiting.
    """
    waiting = proposing.read_proposals(ledger)
    is_new = all(proposal.change != change for proposal in waiting)
    if is_new and len(waiting) >= proposing.MOST_WAITING:
        return None
    try:
        return proposing.propose(
            ledger, change, origin="rules", trust="agent", reason=reason, actor="rules"
        )
    except ProposalRefused as refusal:
        pruned.refused.append(f"{change.line}: {refusal}")
        return None
