"""What `reflector review` shows of a proposal, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rich.text import Text

from reflector.cli.duplicates import alike_to
from reflector.cli.output import safe, short_id, short_time
from reflector.curation import proposals as of
from reflector.curation.changes import Step, preview
from reflector.curation.proposals import Proposal
from reflector.ledger.as_of import Past
from reflector.playbook.names import SECTIONS
from reflector.sessions.pipeline import Pipeline

_WHO: Final = {"person": "a person", "agent": "the agent", "tool": "a tool"}


@dataclass(frozen=True, slots=True)
class Item:
    """A proposal that waits, and what a person looks at to decide on it."""

    proposal: Proposal
    step: Step
    #: When each quote was said, as far as the ledger knows.
    said_at: tuple[str | None, ...]
    #: What other bullets already say of it, a line each.
    alike: tuple[str, ...]

    @property
    def searched(self) -> str:
        one = self.proposal
        return " ".join([one.change.line, one.reason, one.origin, *(quote.text for quote in one.evidence)]).casefold()


def load(pipeline: Pipeline) -> tuple[list[Item], list[Proposal]]:
    """Return what waits for a decision, oldest first, and what fell away just now. The lock must be held."""
    ledger = pipeline.ledger
    fallen = of.sweep(ledger)
    rows, past, items = ledger.rows(), Past(ledger), []
    for one in of.proposals(ledger):
        (step,) = preview(rows, [one.change], first=pipeline.project.first_number, union=past.together)
        events = (ledger.event(quote.window) if quote.window else None for quote in one.evidence)
        said = tuple((event.occurred_at or event.recorded_at) if event else None for event in events)
        items.append(Item(one, step, said, tuple(alike_to(one.change, rows))))
    return items, fallen


def nothing(words: str) -> Text:
    return Text(
        f"No proposal has the words {safe(words)!r}. Escape shows all." if words else "No proposal waits. q quits."
    )


def details(item: Item) -> Text:
    one = item.proposal
    text = Text()
    text.append(f"{one.change.kind} {' '.join(one.change.about)}".rstrip(), style="bold")
    text.append(
        f"   from {one.origin}, words of {_WHO[one.trust]}, {short_time(one.proposed_at)}, id {short_id(one.id)}\n",
        "dim",
    )
    if one.reason:
        text.append(f"{safe(one.reason)}\n")
    before, after = item.step.before, item.step.after
    moved = len({bullet.section for bullet in (*before, *after)}) > 1
    for sign, title, bullets, style in (("-", "Now", before, "red"), ("+", "Then", after, "green")):
        text.append(f"\n{title}\n", style="bold")
        for bullet in bullets:
            where = f" ({SECTIONS[bullet.section]})" if moved else ""
            text.append(f"{sign} {safe(bullet.line)}{where}\n", style=style)
        if not bullets:
            text.append("  no bullet\n", style="dim")
    if item.alike:
        text.append("\nAlike\n", style="bold")
        text.append("".join(f"{safe(line)}\n" for line in item.alike))
    text.append("\nEvidence\n", style="bold")
    for quote, said in zip(one.evidence, item.said_at, strict=True):
        where = f", session {short_id(quote.session)}" if quote.session else ""
        when = f", {short_time(said)}" if said else ""
        text.append(f"{_WHO[quote.by]}{where}{when}\n", style="dim")
        text.append(f"  “{safe(quote.text)}”\n")
    if not one.evidence:
        text.append("  no quotation\n", style="dim")
    return text
