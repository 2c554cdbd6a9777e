"""The screen of `reflector review`: proposals on one side, the evidence of the chosen one on the other.

Invariant: a decision is written before the next key is read, under the playbook's lock, so leaving at any moment loses
nothing. The colours are the terminal's own, so a light and a dark one both fit.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from reflector.cli.app import Place, known_code, words_of
from reflector.cli.output import counted, safe
from reflector.cli.review_items import Item, details, load, nothing
from reflector.curation import proposals as of
from reflector.curation.bullets import BulletRefused
from reflector.curation.proposals import Proposal
from reflector.playbook.change import Change
from reflector.sessions.pipeline import Pipeline

_NO_REASON: Final = "not wanted"
_KEYS: Final = (
    ("a", "accept the change"),
    ("e", "edit its text, then accept it (Ctrl+J for a new line)"),
    ("r", "reject it; a reason is asked for, and Enter alone is enough"),
    ("k", "keep the bullets of a merge apart; they are not proposed together again"),
    ("l", "leave it for later: the next one"),
    ("space", "mark it"),
    ("A  R", "accept or reject all that are marked"),
    ("u", "undo your last decision; it waits again"),
    ("/", "show only those with these words; Escape shows all"),
    ("↑ ↓  PgUp PgDn", "choose a proposal; scroll its evidence"),
    ("q", "quit; every decision is written already"),
)


class _Ask(ModalScreen[str | None]):
    """One line: a reason."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Cancel")]

    def __init__(self, question: str, placeholder: str) -> None:
        super().__init__()
        self._question, self._placeholder = question, placeholder

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self._question, markup=False)
            yield Input(placeholder=self._placeholder, max_length=1_000)
            yield Label("Enter: done   Escape: back", classes="hint")

    @on(Input.Submitted)
    def _given(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or self._placeholder)


class _Edit(ModalScreen[str | None]):
    """A text that may have several lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Cancel", priority=True),
        Binding("enter", "done", "Accept", priority=True),
        Binding("ctrl+j", "line", "New line", priority=True),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Label("Edit the text, then accept the change with it")
            yield TextArea(self._text, soft_wrap=True, compact=True)
            yield Label("Enter: accept   Ctrl+J: new line   Escape: back", classes="hint")

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)

    def action_line(self) -> None:
        self.query_one(TextArea).insert("\n")

    def action_done(self) -> None:
        self.dismiss(self.query_one(TextArea).text)


class _Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", "Back")]

    def compose(self) -> ComposeResult:
        width = max(len(key) for key, _ in _KEYS)
        with Vertical(classes="box"):
            yield Static("\n".join(f"{key:>{width}}  {does}" for key, does in _KEYS), markup=False)
            yield Label("Escape: back", classes="hint")


class Review(App[None]):
    """The proposals that wait, each decided with one key."""

    TITLE = "reflector review"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 - Textual's own declaration
    CSS = """
    #title { height: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #title, #keys { padding: 0 1; color: ansi_black; background: ansi_cyan; }
    #keys { height: auto; }
    #filter { height: 1; border: none; padding: 0 1; display: none; }
    #filter.-shown { display: block; }
    #both { height: 1fr; }
    .-wide #both { layout: horizontal; }
    .-wide #list { width: 40%; height: 100%; border: none; border-right: solid ansi_bright_black; }
    .-wide #evidence { width: 60%; height: 100%; }
    .-narrow #list { width: 100%; height: 9; max-height: 40%; border: none; border-bottom: solid ansi_bright_black; }
    .-narrow #evidence { width: 100%; height: 1fr; }
    #list { padding: 0; background: ansi_default; color: ansi_default; text-wrap: nowrap; text-overflow: ellipsis; }
    #list > .option-list--option-highlighted, #list:focus > .option-list--option-highlighted {
        color: ansi_black; background: ansi_cyan; text-style: none;
    }
    #evidence { padding: 0 1; scrollbar-size-vertical: 1; }
    ModalScreen { align: center middle; background: ansi_default; }
    .box { width: 76; max-width: 96%; height: auto; max-height: 90%; border: round ansi_cyan; padding: 0 1; }
    .box Input, .box TextArea { border: none; padding: 0; margin: 1 0; }
    .box TextArea { height: 8; }
    .hint { text-style: dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "accept", "accept"),
        Binding("e", "edit", "edit"),
        Binding("r", "reject", "reject"),
        Binding("k", "keep", "keep both"),
        Binding("l", "later", "later"),
        Binding("space", "mark", "mark"),
        Binding("A", "accept_marked", "accept marked"),
        Binding("R", "reject_marked", "reject marked"),
        Binding("u", "undo", "undo"),
        Binding("slash", "filter", "find"),
        Binding("question_mark", "help", "keys"),
        Binding("escape", "everything", "all"),
        Binding("pageup", "scroll(-1)", "up", priority=True),
        Binding("pagedown", "scroll(1)", "down", priority=True),
        Binding("q,ctrl+c", "quit", "quit", priority=False),
    ]

    def __init__(self, place: Place, items: list[Item]) -> None:
        super().__init__()
        self.theme = "ansi-dark"
        self._place = place
        self.items = items
        self.done: Counter[str] = Counter()
        self._marked: set[str] = set()
        self._words = ""
        self._said = ""
        self._decisions: list[tuple[str, list[Item]]] = []

    def compose(self) -> ComposeResult:
        yield Static("", id="title", markup=False)
        yield Input(placeholder="words", id="filter", compact=True)
        with Container(id="both"):
            yield OptionList(id="list", markup=False)
            with VerticalScroll(id="evidence", can_focus=False):
                yield Static("", id="detail", markup=False)
        yield Static("", id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#list").focus()
        self._show()

    # -- reading and writing -----------------------------------------------------------------------

    async def _write(self, work: Callable[[Pipeline], list[str]], choose: Change | None = None) -> None:
        """Do `work` with the playbook's lock held, and show what waits then, the one of the change `choose` chosen.

        What `work` returns, and why a proposal fell away, is told.
        """

        def run() -> tuple[list[Item], list[str]]:
            with self._place.pipeline() as pipeline:
                told = work(pipeline)
                items, fallen = load(pipeline)
                pipeline.write()
            told += [f"Fell away: {one.change.line}. {one.why}" for one in fallen]
            return items, [*told, *pipeline.notes]

        try:
            items, told = await asyncio.to_thread(run)
        except Exception as error:
            if known_code(error) is None:
                raise
            items, told = self.items, [words_of(error)]
        order = {item.proposal.id: number for number, item in enumerate(self.items)}
        self.items = sorted(items, key=lambda item: order.get(item.proposal.id, len(order)))
        self._marked &= {item.proposal.id for item in items}
        self._show(next((at for at, item in enumerate(self.shown) if item.proposal.change == choose), None))
        for text in told:
            self.notify(safe(text), severity="warning", timeout=8, markup=False)

    async def _decide(self, items: Sequence[Item], how: str, decide: Callable[[Pipeline, Proposal], object]) -> None:
        """Write one decision about each item, whatever becomes of the others."""

        def work(pipeline: Pipeline) -> list[str]:
            refused, decided = [], []
            for item in items:
                try:
                    decide(pipeline, of.find(pipeline.ledger, item.proposal.id))
                    decided.append(item)
                except BulletRefused as error:
                    refused.append(str(error))
            if decided:
                self._decisions.append((how, decided))
                self.done[how] += len(decided)
                self._said = _about(how, decided)
            return refused

        await self._write(work)

    # -- what is shown -----------------------------------------------------------------------------

    @property
    def shown(self) -> list[Item]:
        return [item for item in self.items if all(word in item.searched for word in self._words.split())]

    @property
    def chosen(self) -> Item | None:
        shown, at = self.shown, self.query_one(OptionList).highlighted
        return shown[at] if at is not None and at < len(shown) else None

    @property
    def marked(self) -> list[Item]:
        return [item for item in self.items if item.proposal.id in self._marked]

    def _show(self, at: int | None = None) -> None:
        listed, shown = self.query_one(OptionList), self.shown
        at = at if at is not None else listed.highlighted or 0
        listed.clear_options()
        listed.add_options([Option(self._line(item), id=item.proposal.id) for item in shown])
        listed.highlighted = min(at, len(shown) - 1) if shown else None
        of_all = f" of {len(self.items)}" if len(shown) != len(self.items) else ""
        marked = f"  {len(self._marked)} marked" if self._marked else ""
        self.query_one("#title", Static).update(safe(f"{len(shown)}{of_all} waiting{marked}   {self._said}"))
        self._detail()

    def _line(self, item: Item) -> Text:
        mark = "*" if item.proposal.id in self._marked else " "
        return Text(f"{mark} {safe(item.proposal.change.line)}", no_wrap=True, overflow="ellipsis")

    @on(OptionList.OptionHighlighted)
    def _detail(self) -> None:
        item = self.chosen
        self.query_one("#detail", Static).update(details(item) if item else nothing(self._words))
        self.query_one("#evidence").scroll_home(animate=False)
        kept = "  k keep" if item and item.proposal.change.kind == "merge" else ""
        marked = "  A/R marked" if self._marked else ""
        self.query_one("#keys", Static).update(
            f"a accept  e edit  r reject{kept}  l later  u undo{marked}  / find  ? keys  q quit"
        )

    # -- keys --------------------------------------------------------------------------------------

    async def action_accept(self) -> None:
        if self.chosen:
            await self._accept([self.chosen])

    async def _accept(self, items: Sequence[Item], text: str | None = None) -> None:
        def work(pipeline: Pipeline, proposal: Proposal) -> None:
            of.approve(pipeline.ledger, proposal, text=text, first=pipeline.project.first_number)

        await self._decide(items, "approved", work)

    def action_edit(self) -> None:
        item = self.chosen
        if item is None:
            return
        if item.proposal.change.text is None:
            self.notify("This change has no text.", severity="warning")
            return
        self.run_worker(self._edit(item, item.proposal.change.text))

    async def _edit(self, item: Item, text: str) -> None:
        edited = await self.push_screen_wait(_Edit(text))
        if edited is not None:
            await self._accept([item], edited if edited.strip() != text else None)

    def action_reject(self) -> None:
        if self.chosen:
            self.run_worker(self._reject([self.chosen]))

    async def _reject(self, items: Sequence[Item]) -> None:
        what = safe(items[0].proposal.change.line) if len(items) == 1 else counted(len(items), "proposal")
        why = await self.push_screen_wait(_Ask(f"Reject {what}. Why?", _NO_REASON))
        if why is not None:
            await self._decide(items, "rejected", lambda pipeline, one: of.reject(pipeline.ledger, one, why))

    async def action_keep(self) -> None:
        item = self.chosen
        if item is None:
            return
        if item.proposal.change.kind != "merge":
            self.notify("Only the bullets of a merge can be kept apart.", severity="warning")
            return
        names = item.proposal.change.names
        await self._decide(
            [item], "kept", lambda pipeline, one: of.reject(pipeline.ledger, one, "keep both", keep=names)
        )

    def action_later(self) -> None:
        item = self.chosen
        if item is not None:
            self.items.remove(item)
            self.items.append(item)
            self._show()

    def action_mark(self) -> None:
        item = self.chosen
        if item is not None:
            self._marked ^= {item.proposal.id}
            self._show()
            self.query_one(OptionList).action_cursor_down()

    async def action_accept_marked(self) -> None:
        if self.marked:
            await self._accept(self.marked)

    def action_reject_marked(self) -> None:
        if self.marked:
            self.run_worker(self._reject(self.marked))

    async def action_undo(self) -> None:
        if not self._decisions:
            self.notify("You have decided nothing yet.", severity="warning")
            return
        how, undone = self._decisions[-1]

        def work(pipeline: Pipeline) -> list[str]:
            for item in reversed(undone):
                proposal = of.find(pipeline.ledger, item.proposal.id)
                of.reopen(pipeline.ledger, proposal, first=pipeline.project.first_number)
            self._decisions.pop()
            self.done[how] -= len(undone)
            self._said = _about("undone", undone)
            return []

        await self._write(work, undone[0].proposal.change)

    def action_filter(self) -> None:
        asked = self.query_one("#filter", Input)
        asked.add_class("-shown")
        asked.focus()

    @on(Input.Changed, "#filter")
    def _filtered(self, event: Input.Changed) -> None:
        self._words = event.value.casefold()
        self._show()

    @on(Input.Submitted, "#filter")
    def _found(self) -> None:
        self.query_one("#list").focus()

    def action_everything(self) -> None:
        asked = self.query_one("#filter", Input)
        asked.value = ""
        asked.remove_class("-shown")
        self.query_one("#list").focus()

    def action_help(self) -> None:
        self.push_screen(_Help())

    def action_scroll(self, pages: int) -> None:
        evidence = self.query_one("#evidence")
        evidence.scroll_relative(y=pages * max(1, evidence.size.height - 2), animate=False)


def _about(how: str, items: Sequence[Item]) -> str:
    return f"{how}: {items[0].proposal.change.line}" if len(items) == 1 else f"{len(items)} {how}"
