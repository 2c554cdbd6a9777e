"""The ledgers of watched files, opened for a question or an undo.

Invariant: a question in a project without reflector's files leaves none. It computes the changes
from commits and transcripts, in memory, and the next question computes them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory

import click

from reflector import locate
from reflector.attribution.files import Table
from reflector.cli.app import Place
from reflector.cli.options import last_time
from reflector.ledger.errors import LedgerError
from reflector.ledger.store import Ledger
from reflector.memory.changes import Store
from reflector.memory.places import scopes_of
from reflector.project import Project

#: The key of the store of a project without a ledger.
_UNRECORDED = "reflector.unrecorded"
_NUMBERS = "this project does not have a ledger yet; with a ledger, these changes get other numbers"


@contextmanager
def opened(
    place: Place, *, changes: bool = False, moment: str | None = None, numbered: bool = True
) -> Iterator[list[Store]]:
    """Yield the updated ledgers of a project's watched files: its own, and the user's if it exists.

    changes   whether to hold the locks of the ledgers
    moment    omits later changes
    numbered  whether the command shows the numbers of changes
    """
    project = place.project()
    is_plain = not (place.user or place.dataset is not None or project.is_only_read)
    if changes:
        _end_unrecorded()
    elif is_plain and place.is_untouched and _is_projects(project):
        yield _unrecorded(place, moment)
        if numbered:
            note_numbers(place)
        return
    with ExitStack() as closing:
        trouble = _bring_up_to_date(place) if is_plain else ""
        stores = _stores(place, closing, changes=changes)
        until = last_time(stores[0].ledger, moment) if moment is not None and stores else None
        if trouble:
            place.note([f"reflector could not record changes to memory files yet: {trouble}"])
        yield [replace(store, until=until) for store in stores]


def _stores(place: Place, closing: ExitStack, *, changes: bool) -> list[Store]:
    """Open the ledgers that exist, and close them with `closing`."""
    stores = []
    for each in [place] if place.user else [place, Place(user=True)]:
        if not each.is_untouched:
            opening = each.changing() if changes else each.reading()
            stores.append(Store(each.project(), closing.enter_context(opening)))
    return stores


def _is_projects(project: Project) -> bool:
    """Return whether no change of the user's own files is recorded, only the project's."""
    return not ("user" in scopes_of(project) or Project.of_user().has_ledger())


def _unrecorded(place: Place, moment: str | None) -> list[Store]:
    """Return the changes that commits and transcripts show in a project without a ledger, in a
    ledger in memory. Nothing stays after the command.
    """
    from reflector.sessions.memory_drain import bring_up_to_date

    project = place.project()
    context = click.get_current_context().find_root()
    if _UNRECORDED not in context.meta:
        closing = ExitStack()
        context.call_on_close(closing.close)
        store = Store(project, closing.enter_context(_aside()))
        context.meta[_UNRECORDED] = store, closing
        if project.config.memory != "off":
            place.note(bring_up_to_date(project, store.ledger))
    store, _ = context.meta[_UNRECORDED]
    return [replace(store, until=moment and last_time(store.ledger, moment))]


def note_numbers(place: Place) -> None:
    """Print once that the shown numbers are preliminary, if the project does not have a ledger."""
    meta = click.get_current_context().find_root().meta
    if _UNRECORDED not in meta or _NUMBERS in meta:
        return
    store, _ = meta[_UNRECORDED]
    if store.ledger.head().position:
        meta[_NUMBERS] = True
        place.note([_NUMBERS])


def _end_unrecorded() -> None:
    """Forget the answer of `_unrecorded`, because the command now begins a ledger."""
    meta = click.get_current_context().find_root().meta
    if _UNRECORDED in meta:
        meta.pop(_UNRECORDED)[1].close()


@contextmanager
def _aside() -> Iterator[Ledger]:
    """Open a ledger in memory, with a temporary folder for all other facts."""
    with TemporaryDirectory() as folder, Ledger.open("sqlite://") as ledger:
        locate.stand_in = f"{folder}/.local/share/reflector/ledgers"
        try:
            yield ledger
        finally:
            locate.stand_in = ""


def _bring_up_to_date(place: Place) -> str:
    """Record the new changes; return the reason why that failed, or ""."""
    from reflector.sessions.memory_drain import bring_up_to_date

    project = place.project()
    is_begun = not project.has_ledger()
    if project.config.memory == "off" or (is_begun and not _may_have_changes(project)):
        return ""
    try:
        with place.changing(begins=True) as ledger:
            place.note(bring_up_to_date(project, ledger))
        if is_begun:
            started = "reflector started a ledger for the history of memory files"
            place.note([f"{started}: {project.ledger_file}"])
    except (OSError, LedgerError) as error:
        return str(error)
    return ""


def _may_have_changes(project: Project) -> bool:
    """Return whether a project without a ledger may have a change of a watched file to record."""
    root = project.root
    is_users_watched = "user" in scopes_of(project)
    return is_users_watched or (root / ".git").exists() or bool(Table(root, "project").files)
