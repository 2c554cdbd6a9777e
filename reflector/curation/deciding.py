"""Proposals as a text for an editor, with a decision before each.

Invariant: a proposal whose line is gone, or begins with `later`, is not decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reflector.curation.proposals import Proposal
from reflector.playbook.buffer import Slip

_WORDS: Final = ("approve", "reject", "keep", "later")
_HELP: Final = """\
# Put a word before each proposal: approve, reject, keep (the bullets apart) or
# later; its first letter will do. The text of one that you approve may be
# changed. Say why you reject one at the end of its line, behind " # ".
# Lines that begin with # are left out.
"""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with the proposal whose id begins with `id`: approve, reject or keep. `text` is the other text of one
    that is approved, None for its own, else the reason."""

    word: str
    id: str
    text: str | None


def render(proposals: Sequence[Proposal]) -> str:
    """Return the text for an editor."""
    parts = []
    for one in proposals:
        said = [f"# {one.origin}: {one.reason}", *(f"# {quote.by} said: {quote.text}" for quote in one.evidence)]
        parts.append("\n".join([*said, f"later {one.id[:8]} {one.change.line}"]))
    return f"{_HELP}\n" + "\n\n".join(parts) + "\n"


def parse(text: str, proposals: Sequence[Proposal]) -> list[Decision]:
    """Return the decisions that an edited text holds. Raises Slip."""
    decisions: list[Decision] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first, _, rest = line.strip().partition(" ")
        word = next((one for one in _WORDS if first and one.startswith(first.lower())), None)
        if word is None:
            raise Slip(f"line {number}: {first!r} is not a decision; the words are {', '.join(_WORDS)}")
        id, _, said = rest.strip().partition(" ")
        found = [one for one in proposals if id and one.id.startswith(id)]
        if len(found) != 1:
            raise Slip(f"line {number}: {id!r} is not the id of a proposal that waits")
        if any(found[0].id.startswith(one.id) for one in decisions):
            raise Slip(f"line {number}: {id} was decided above")
        if word != "later":
            decisions.append(Decision(word, id, _text(found[0], word, said, number)))
    return decisions


def _text(proposal: Proposal, word: str, said: str, number: int) -> str | None:
    if word != "approve":
        return said.rpartition(" # ")[2].strip() if " # " in said else "rejected in review"
    line = proposal.change.line
    if proposal.change.text is None or said.strip() == line:
        return None
    shown = " ".join(proposal.change.text.split())
    before = line.removesuffix(shown)
    if not said.startswith(before):
        raise Slip(f"line {number}: only the text behind {before!r} may be changed")
    return said.removeprefix(before).strip()
