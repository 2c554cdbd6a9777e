"""One question to every playbook of every ledger in the directory.

Invariant: a ledger that does not answer is named, and never keeps the others from answering. A playbook that moved
answers where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger, playbooks_in
from reflector.ledger.url import url_of

if TYPE_CHECKING:
    from reflector.ledger.rows import Head

#: Ledgers that are asked at once: most of the time goes by on their servers.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """What a playbook answered: the place of its ledger, its head, and where it went if it is elsewhere now."""

    playbook: str
    place: str
    head: Head
    value: Any
    moved_to: str = ""


@dataclass(slots=True)
class Everywhere:
    """The answers by name of playbook, and the error of each place that did not answer."""

    answers: list[Answer] = field(default_factory=list)
    down: dict[str, str] = field(default_factory=dict)


def ask_everywhere(
    urls: Iterable[str],
    question: Callable[[Ledger], Any],
    *,
    begin: Callable[[int], None] = lambda _: None,
    step: Callable[[], None] = lambda: None,
) -> Everywhere:
    """Ask each playbook of the ledgers at these URLs. `begin` is told how many there are, `step` is called at each.

    A ledger that is named twice is asked once. Raises LedgerUnavailable for what is not a ledger's URL.
    """
    places = {url_of(url).place: url for url in urls}
    found: Everywhere = Everywhere()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        listed = {pool.submit(playbooks_in, url): (place, url) for place, url in places.items()}
        there = [(*listed[one], name) for one in _done(listed, found) for name in one.result()]
        begin(len(there))
        asked = {pool.submit(_ask, url, place, name, question): (place, url) for place, url, name in there}
        for one in _done(asked, found, step):
            answer = one.result()
            # A playbook that moved within the directory answers there.
            if not answer.moved_to or answer.moved_to not in places:
                found.answers.append(answer)
    found.answers.sort(key=lambda answer: (answer.playbook, answer.place))
    return found


def _done(
    futures: dict[Future[Any], tuple[str, str]], found: Everywhere, step: Callable[[], None] = lambda: None
) -> Iterator[Future[Any]]:
    """Yield what ended well; what did not makes its place one that is down."""
    for one in as_completed(futures):
        step()
        error = one.exception()
        if error is None:
            yield one
        elif isinstance(error, LedgerError):
            found.down.setdefault(futures[one][0], str(error))
        else:
            raise error


def _ask(url: str, place: str, name: str, question: Callable[[Ledger], Any]) -> Answer:
    with Ledger.open(url, name) as ledger:
        moved = ledger.moved()
        value = question(ledger) if moved is None else None
        return Answer(name, place, ledger.head(), value, moved.to if moved is not None else "")
