"""playbook.json: what the ledger says, written where agents and people read it, and taken back when
they edit it; and other playbook files, adopted with their counters as the baseline that a ledger's
counting goes on from.

Invariant: the file is never overwritten while it says something that the ledger does not know, and
nothing in it that its ledger's person did not write becomes an event by `human`. What a file is to
a ledger, `look` decides in one place. A file is adopted whole or refused with each entry that keeps
it out, and no name comes to mean two bullets. A copy that is kept aside is readable by its owner
alone.

A file of ours is known by itself: `last_updated` is the time of one event, and the playbook folded
up to that event gives the file's bytes. So an older export that came back (another branch checked
out, a backup, a colleague's machine, a write that was killed) is not mistaken for an edit by hand,
and an edit is compared with the very state that was edited. The digest of the last write is kept
only to save that fold. A question takes an edit in and leaves the file, so it keeps a copy: what is
edited next was edited from that. A file that names a moment which this ledger does not know is
another ledger's, or this one's before an older copy of it came back.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from reflector.changes.apply import advice_fault, is_taken
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.registry import ADVICE, fold
from reflector.events.state import REDACTED
from reflector.files import Changed, absolute, private_folder, read_ours, replace_file, replace_read
from reflector.ledger.store import BulletRow, Ledger
from reflector.mistakes import Finding
from reflector.playbook.admissible import hidden_fault, same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import CORRECT, MAX_BYTES, REBUILD, Loaded, dump, dump_shared, load
from reflector.playbook_files.edits import (
    Base,
    has_blob,
    in_git,
    in_names_of,
    is_shared,
    renamed,
    take_in_turn,
    take_version,
)
from reflector.project import Project
from reflector.text.secrets import quote

#: Checkpoints of a ledger: the file as it was last written or adopted; the `last_updated` of the
#: adopted one, which stands in it until it is written; and the version in git that was recorded
#: last.
WRITTEN = "playbook.json"
_STAMP = "playbook.json adopted"
_IN_GIT = "playbook.json in git"
#: Events after which a file that is shared without counters says something else.
_ADVICE = (ADVICE - {ev.BULLET_RECOUNTED}) | {ev.EVENT_REDACTED}

#: What a playbook.json is to a ledger:
#: missing     there is none
#: written     as it was last written
#: ours        an export of this ledger, at some position, that may have been edited since
#: shared      came through git, where it holds no time and no counts, and may have been edited
#:             since
#: baseline    of no ledger, or of another one while this one never had a bullet: it is adopted with
#:             its counters
#: another's   of another ledger, or of a later state that this one lost
#: foreign     another tool's: it has no playbook's shape, and this ledger never wrote it; it is
#:             left alone
#: unreadable  cannot be recorded, for a comma too many or a counter below 0; nothing but a rebuild
#:             overwrites it
Kind = Literal[
    "missing", "written", "ours", "shared", "baseline", "another's", "foreign", "unreadable"
]

_NOTHING = Loaded("sections")
#: How the copies of playbook files in the folder `kept` begin: an adopted one or one that a rebuild
#: replaced, and one that another ledger wrote.
ADOPTED = "playbook"
ANOTHERS = "another-ledger"
FOREIGN = (
    "{path} is not a playbook but another tool's file, so it is left alone; bullets that you add "
    "are kept in the "
    "ledger, and agents are told them"
)
#: The copy of an edited file that a question read and left to be written; a later edit is compared
#: with it.
_EDITED = "edited.json"


class PlaybookRefused(Exception):
    """A playbook file that cannot be imported; it was left as it is. `problems` names each
    entry.
    """

    def __init__(self, path: Path, problems: Sequence[Finding]) -> None:
        self.problems = tuple(problems)
        # No ledger can write this file again: it holds none of these bullets yet.
        lines = [f"  {problem}".replace(REBUILD, CORRECT) for problem in self.problems[:20]]
        more = len(self.problems) - len(lines)
        if more > 0:
            lines.append(f"  … and {more} more")
        super().__init__("\n".join([f"{path} cannot be imported and is left as it is:", *lines]))


class Found(NamedTuple):
    """What a playbook.json is to a ledger; of one of ours, the position at which it was written."""

    kind: Kind
    raw: bytes = b""
    loaded: Loaded = _NOTHING
    position: int = 0


class Synced(NamedTuple):
    """What a synchronisation found: the copy of a file that another ledger wrote, the problems that
    make the file unreadable, the names that it gave to bullets of the file, by those in the file,
    and whether it is another tool's.
    """

    of_another: Path | None = None
    problems: tuple[Finding, ...] = ()
    renamed: Mapping[str, str] = MappingProxyType({})
    is_foreign: bool = False


class Known(NamedTuple):
    """What a ledger knows: its bullets, the names of removed ones, and what playbook.json is to
    it.
    """

    bullets: Sequence[Bullet]
    removed: Collection[str]
    found: Found


def sync(ledger: Ledger, project: Project, *, write: bool = True, later: bool = False) -> Synced:
    """Record what changed in playbook.json, then write what the ledger says, unless a question only
    wants to know, or the same process writes `later`. Raises OSError, LedgerError, and
    PlaybookRefused where the ledger has no bullets either.
    """
    found = look(ledger, project)
    if found.kind == "unreadable":
        return Synced(problems=found.loaded.problems)
    if found.kind == "foreign":
        return Synced(is_foreign=True)
    edits, is_edited = 0, False
    kept: Path | None = None
    stays = is_shared(project.root) and _may_stay(ledger, project, found)
    if found.kind == "another's":
        kept = keep(project, found.raw, ANOTHERS)
    elif found.kind == "baseline":
        import_bullets(ledger, project, found.loaded, found.raw)
        if ledger.rows():
            _remember(ledger, project, found)
    elif found.kind == "ours":
        copy = _edited(ledger, project)
        if copy is not None and _was_left(project, copy):
            copy = None
        edits = _take_edits(ledger, project, found, copy)
        # An edit that says what the ledger says already takes no event, but it is read: read again,
        # it would be news.
        is_edited = found.raw != dumped(
            project, _bullets_at(ledger, found.position), found.loaded.last_updated
        )
    elif found.kind == "shared":
        edits, is_gits = _take_shared(ledger, project, found)
        stays = stays and is_gits
        if stays:
            _saw(ledger, project, ledger.head().position, found.raw)
    elif found.kind == "written" and _last(ledger, project)[1] != digest(found.raw):
        # The file says what the ledger says, after git had shown another one: that one would be
        # news again.
        _saw(ledger, project, ledger.head().position, found.raw)
    raw = None if found.kind == "missing" else found.raw
    is_written = write and not stays and _write(ledger, project, raw)
    if (edits or is_edited) and not (is_written or stays or later):
        replace_file(_kept(project) / _EDITED, found.raw, 0o600)
        _saw(ledger, project, ledger.head().position, found.raw)
    return Synced(kept, (), renamed(ledger, found.loaded) if edits else {})


def look(ledger: Ledger, project: Project) -> Found:
    """Decide what playbook.json is to a ledger. Raises OSError, LedgerError, and PlaybookRefused
    for a file that cannot be taken in where the ledger has no bullets either.
    """
    found = _look(ledger, project)
    if found.kind not in ("ours", "shared"):
        return found
    then = {bullet.name: bullet.text for bullet in _bullets_at(ledger, found.position)}
    # An erased text that an older export brings back is not a new one; `take_edits` knows it.
    new = [
        b
        for b in found.loaded.bullets
        if then.get(b.name) not in (b.text, REDACTED) and b.text not in then.values()
    ]
    problems = unfit(new, advice_fault)
    return (
        Found("unreadable", found.raw, replace(found.loaded, problems=problems))
        if problems
        else found
    )


def _look(ledger: Ledger, project: Project) -> Found:
    raw = read(project.playbook_json)
    if raw is None:
        return Found("missing")
    last, seen = _last(ledger, project)
    if raw == render(ledger, project) or seen == digest(raw):
        return Found("written", raw)
    rows = ledger.rows()
    loaded = _load(ledger, project, raw)
    if loaded.format == "foreign" and not seen:
        return Found("foreign", raw, loaded)
    if loaded.problems and rows:
        return Found("unreadable", raw, loaded)
    if loaded.problems:
        raise PlaybookRefused(project.playbook_json, loaded.problems)
    if loaded.last_updated is None:
        position = (
            _edited_at(ledger, project, loaded, last)
            if seen and not is_shared(project.root)
            else None
        )
        if seen and position is None:
            return Found("shared", raw, loaded, last)
    else:
        position = _exported_at(ledger, project, loaded.last_updated)
        if position is None and rows and not _is_adopted(ledger, digest(raw)):
            return Found("another's", raw, loaded)
    if position is not None:
        return Found("ours", raw, loaded, position)
    taken = names_taken(rows, loaded) or unfit(loaded.bullets, hidden_fault)
    if taken and not rows:
        raise PlaybookRefused(project.playbook_json, taken)
    return (
        Found("unreadable", raw, replace(loaded, problems=taken))
        if taken
        else Found("baseline", raw, loaded)
    )


def known(ledger: Ledger, project: Project) -> Known:
    """Return what a session gets: the ledger's bullets, and what playbook.json is. Raises as
    `look` does.
    """
    rows = ledger.rows()
    live = [row.bullet for row in rows if row.status == "live"]
    return Known(live, {row.name for row in rows if row.status != "live"}, look(ledger, project))


def render(ledger: Ledger, project: Project) -> bytes:
    """playbook.json as the ledger says: the same bytes for the same ledger, `last_updated`
    included.
    """
    return dumped(project, ledger.bullets(), ledger.updated_at())


def dumped(project: Project, bullets: Sequence[Bullet], updated_at: str | None) -> bytes:
    """Return a playbook's bullets in the form that the project's playbook.json has."""
    return dump_shared(bullets) if is_shared(project.root) else dump(bullets, updated_at)


def set_aside(project: Project) -> tuple[Path, str] | None:
    """Keep a copy of playbook.json and return its path and digest; None if there is no such
    file. Raises OSError.
    """
    raw = read(project.playbook_json)
    return (
        None if raw is None or load(raw).format == "foreign" else (keep(project, raw), digest(raw))
    )


def settle(ledger: Ledger, project: Project) -> Path | None:
    """Hold playbook.json against a history that was put in place as a whole. Raises LedgerError,
    OSError.

    A file of that history is one of ours, and what a person changed in it is recorded as usual. Any
    other is not an edit of it: it is kept aside, and the next `sync` writes the file. Returns the
    copy, None if nothing had to be kept.
    """
    raw = read(project.playbook_json)
    if raw is None or raw == render(ledger, project) or look(ledger, project).kind == "foreign":
        return None
    is_ours = _exported_at(ledger, project, load(raw).last_updated) is not None
    return None if is_ours else _give_up(ledger, project, raw)


def mend(ledger: Ledger, project: Project) -> Path | None:
    """Keep an unreadable playbook.json aside; the next `sync` writes the file.

    Returns where it is kept; None for any other file, and where the ledger has no bullet that could
    be written. Raises PlaybookRefused, LedgerError, OSError.
    """
    found = look(ledger, project)
    return _give_up(ledger, project, found.raw) if found.kind == "unreadable" else None


def _give_up(ledger: Ledger, project: Project, raw: bytes) -> Path:
    # As if written before all events: a shared file that was written since the last advice would be
    # left as it is.
    ledger.set_checkpoint(checkpoint_of(project), 0, digest(raw))
    return keep(project, raw)


def untaken(ledger: Ledger, project: Project) -> tuple[Finding, ...]:
    """Return the problems that make playbook.json unreadable. Raises LedgerError."""
    try:
        found = look(ledger, project)
    except PlaybookRefused as error:
        return error.problems
    except OSError:  # it has no entries to be named
        return ()
    return found.loaded.problems if found.kind == "unreadable" else ()


def checkpoint_of(project: Project, what: str = WRITTEN) -> str:
    """The name under which a ledger remembers a project's file. One that is not the project's own
    may serve several projects and clones, on several machines, and what one of them wrote says
    nothing of another's file.
    """
    if not project.config.ledger_url:
        return what
    import platform

    return f"{what} of {digest(f'{platform.node()}:{project.root.resolve()}')[:16]}"


def _exported_at(ledger: Ledger, project: Project, last_updated: str | None) -> int | None:
    """The position whose export names this moment, or that of the file which was adopted with
    it; None for neither.
    """
    if last_updated is None:
        return None
    position = ledger.position_at(last_updated)
    events = ledger.at([position])
    if events and events[0].recorded_at == last_updated:
        return position
    position, adopted = _last(ledger, project, _STAMP)
    return position if adopted == digest(last_updated) else None


def _edited_at(ledger: Ledger, project: Project, loaded: Loaded, written: int) -> int:
    """The position of what a person edited, whose file says no time: of what was written last, of
    what git checked out and of what was adopted, that from which the file differs least.
    """
    version = in_git(project.root)
    checked_out = (
        _exported_at(ledger, project, load(version.content).last_updated)
        if version is not None
        else None
    )
    adopted = [event.position for event in ledger.events(types=[ev.PLAYBOOK_IMPORTED])]
    positions = [at for at in (written, checked_out, *adopted) if at is not None]
    return min(positions, key=lambda position: len(loaded.edits_of(_bullets_at(ledger, position))))


def _bullets_at(ledger: Ledger, position: int) -> Sequence[Bullet]:
    return fold(ledger.history(upto=position)).bullets()


def _load(ledger: Ledger, project: Project, raw: bytes, beside: Iterable[Bullet] = ()) -> Loaded:
    """Read a file; what it does not name gets a name that neither the ledger has nor one of the
    bullets `beside` it.
    """
    taken = [row.name for row in (*ledger.rows(), *beside)]
    return load(raw, taken=taken, first=project.first_number)


def _is_adopted(ledger: Ledger, content: str) -> bool:
    """Return whether a process imported a file of this digest, and was killed before it
    remembered the file.
    """
    return any(
        (event.data or {}).get("sha256") == content
        for event in ledger.events(types=[ev.PLAYBOOK_IMPORTED])
    )


def _remember(ledger: Ledger, project: Project, adopted: Found) -> None:
    """Know a file that was adopted for ours until it is written, which a question does not do."""
    position = ledger.head().position
    _saw(ledger, project, position, adopted.raw)
    if adopted.loaded.last_updated is not None:
        ledger.set_checkpoint(
            checkpoint_of(project, _STAMP), position, digest(adopted.loaded.last_updated)
        )


def _write(ledger: Ledger, project: Project, raw: bytes | None) -> bool:
    """Write the file if it says something else than the ledger. False: somebody saved it since,
    which comes first.
    """
    if raw is None and not ledger.rows():
        return True
    position = ledger.head().position
    content = render(ledger, project)
    if raw != content:
        try:
            replace_read(project.playbook_json, raw, content)
        except Changed:
            return False
    if _last(ledger, project)[1] != digest(content):
        _saw(ledger, project, position, content)
    return True


def _last(ledger: Ledger, project: Project, what: str = WRITTEN) -> tuple[int, str]:
    """Return the position and the digest that a ledger remembers of a project's file; 0 and ""
    for none.
    """
    return ledger.checkpoint(checkpoint_of(project, what)) or (0, "")


def _saw(ledger: Ledger, project: Project, position: int, content: bytes) -> None:
    """Remember what the file says, and which version of it git has meanwhile."""
    ledger.set_checkpoint(checkpoint_of(project), position, digest(content))
    if is_shared(project.root) and (version := in_git(project.root)) is not None:
        ledger.set_checkpoint(checkpoint_of(project, _IN_GIT), position, digest(version.blob))


def _edited(ledger: Ledger, project: Project) -> bytes | None:
    """Return the edited file that a question took in, if nothing was written since."""
    copy = read(project.state_dir / "kept" / _EDITED)
    return copy if copy is not None and _last(ledger, project)[1] == digest(copy) else None


def _was_left(project: Project, copy: bytes) -> bool:
    """Return whether git has an edited file in its store and another version checked out: that
    one came from git.
    """
    version = in_git(project.root)
    return version is not None and version.content != copy and has_blob(project.root, copy)


def _take_edits(ledger: Ledger, project: Project, found: Found, copy: bytes | None) -> int:
    """Append what a person changed in a file since it was written, or since a question read this
    copy of it.
    """
    base, loaded = Base(_bullets_at(ledger, found.position), found.position), found.loaded
    version = in_git(project.root)
    by_git = None
    if (
        copy is None
        and version is not None
        and version.content != dumped(project, base.bullets, loaded.last_updated)
    ):
        of_git = _load(ledger, project, version.content)
        # Of another state of the playbook, this version says nothing of who changed what in this
        # one.
        by_git = (
            of_git if of_git.last_updated == loaded.last_updated and not of_git.problems else None
        )
    if copy is not None:
        bullets, loaded = in_names_of(ledger, _load(ledger, project, copy, loaded.bullets), loaded)
        base = Base(bullets, _last(ledger, project)[0])
    return take_in_turn(ledger, base, by_git, loaded, digest(found.raw), project)


def _take_shared(ledger: Ledger, project: Project, found: Found) -> tuple[int, bool]:
    """Record what git brought, credited to it, and then what a person changed in that; how many
    events both gave, and whether the file is as git brought it and the ledger has all of its names.
    """
    version = in_git(project.root)
    copy = _edited(ledger, project)
    edits, base = 0, None
    came = version is not None and (
        _last(ledger, project, _IN_GIT)[1] != digest(version.blob)
        # What we wrote was committed or stashed since, and this is what git had before.
        or has_blob(project.root, copy or dump_shared(_bullets_at(ledger, found.position)))
    )
    if version is not None and (came or _last(ledger, project)[1] == digest(version.content)):
        theirs = _load(ledger, project, version.content)
        if came and not theirs.problems:
            edits = take_version(ledger, project, theirs, digest(version.content))
        names = {row.name for row in ledger.rows()}
        base = Base([bullet for bullet in theirs.bullets if bullet.name in names], found.position)
    if version is None or not came or found.raw != version.content:
        if base is None:
            return edits + _take_edits(ledger, project, found, copy), False
        return edits + take_in_turn(
            ledger, base, None, found.loaded, digest(found.raw), project
        ), False
    rows = {row.name: row for row in ledger.rows()}
    said = {(row.section, row.text) for row in rows.values() if row.status == "live"}
    named = [(rows.get(bullet.name), bullet) for bullet in found.loaded.bullets]
    return edits, not found.loaded.named_here and all(
        row is not None
        and (
            row.status == "live"
            or (row.text == bullet.text and (row.section, row.text) not in said)
        )
        for row, bullet in named
    )


def _may_stay(ledger: Ledger, project: Project, found: Found) -> bool:
    """True for a shared file that need not be written: what it says was not changed in the ledger
    since. It may be that of another branch, which has less of the ledger's advice, and goes back to
    git as it came.
    """
    if found.kind == "written":
        position, seen = _last(ledger, project)
        position = position if seen == digest(found.raw) else ledger.head().position
        loaded = load(found.raw)
        if loaded.last_updated is not None or len(loaded.uncounted) < len(loaded.bullets):
            return False  # it was written before it was shared
        if _edited(ledger, project) is not None:
            return False  # a question read it, and left it to be written
    elif found.kind == "shared":
        position = found.position
    else:
        return False
    return next(ledger.events(after=position, types=_ADVICE), None) is None


def import_bullets(
    ledger: Ledger,
    project: Project,
    loaded: Loaded,
    raw: bytes,
    path: Path | None = None,
    tx: str | None = None,
) -> None:
    """Adopt a playbook file's bullets with their counters as the baseline.

    `path` names the file where it is not the project's own playbook.json, and `tx` the command that
    a person gave.

    Bullets that the ledger has with the same section and text are left out; raises PlaybookRefused
    when a name of the file means another bullet in the ledger. The original file is kept in the
    state folder.
    """
    new = new_bullets(ledger, loaded, path or project.playbook_json)
    if not new:
        return
    keep(project, raw)
    ledger.append([_adoption(loaded, raw, new)], tx=tx)


@contextmanager
def adopted_in_memory(project: Project) -> Iterator[Ledger]:
    """A ledger in memory with the bullets of a playbook.json whose project can only be read. Raises
    PlaybookRefused, OSError, LedgerError.
    """
    with Ledger.open("sqlite://", project.config.playbook) as ledger:
        found = look(ledger, project)
        if found.kind == "baseline":
            ledger.append([_adoption(found.loaded, found.raw, found.loaded.bullets)])
        yield ledger


def _adoption(loaded: Loaded, raw: bytes, bullets: Sequence[Bullet]) -> NewEvent:
    whole = digest(raw)
    event_id = identity(ev.PLAYBOOK_IMPORTED, whole, *(bullet.name for bullet in bullets))
    data = {
        "sha256": whole,
        "format": loaded.format,
        "bullets": [asdict(bullet) for bullet in bullets],
    }
    return NewEvent(ev.PLAYBOOK_IMPORTED, event_id, data, actor="import")


def new_bullets(ledger: Ledger, loaded: Loaded, path: Path) -> list[Bullet]:
    """Return the bullets of a file that the ledger lacks. Raises PlaybookRefused as
    `import_bullets` does.
    """
    rows = {row.name: row for row in ledger.rows()}
    if problems := names_taken(rows.values(), loaded) or unfit(loaded.bullets, hidden_fault):
        raise PlaybookRefused(path, problems)
    # Entries without a name are known by what they say, or a second import would add them once
    # more.
    said = {(row.section, row.text) for row in rows.values() if row.status == "live"}
    return [
        b
        for b in loaded.bullets
        if b.name not in rows and not (b.name in loaded.named_here and (b.section, b.text) in said)
    ]


def without_known(ledger: Ledger, loaded: Loaded) -> tuple[Loaded, list[str]]:
    """Return a file without the new bullets whose text a live one has, in any section, and a
    line for each of them.
    """
    rows = ledger.rows()
    known = {row.name for row in rows}
    saying = {same_words(row.text): row.name for row in reversed(rows) if row.status == "live"}
    says = {b.name: saying.get(same_words(b.text)) for b in loaded.bullets if b.name not in known}
    kept = tuple(b for b in loaded.bullets if says.get(b.name) is None)
    lines = [
        f"{loaded.places[name]}: {other} says this already"
        for name, other in says.items()
        if other is not None
    ]
    return replace(loaded, bullets=kept), lines


def unfit(bullets: Iterable[Bullet], fault: Callable[[str], str | None]) -> tuple[Finding, ...]:
    """Return the bullets of a file whose text cannot be new advice, as `fault` says of it."""
    remedy = "correct the text; nothing of the file is imported until then"
    return tuple(
        Finding("playbook", f"bullet {bullet.name}", what, remedy, quote(bullet.text, 60))
        for bullet in bullets
        if (what := fault(bullet.text))
    )


def names_taken(rows: Iterable[BulletRow], loaded: Loaded) -> tuple[Finding, ...]:
    """Return the names of a file that mean another bullet in the ledger."""
    known = {row.name: row for row in rows}
    found: list[Finding] = []
    for b in loaded.bullets:
        if b.name in known and is_taken(known[b.name], b):
            is_live = known[b.name].status == "live"
            what = (
                "the name means another bullet in this ledger"
                if is_live
                else "the name was retired in this ledger"
            )
            way = (
                f"names are never reused: see `reflector show {b.name}`, and remove the name to "
                "be given a new one"
            )
            way += ", as `import --rename` does"
            found.append(Finding("playbook", f"bullet {b.name}", what, way, b.text[:60]))
    return tuple(found)


def read(path: Path) -> bytes | None:
    """Return a playbook file's bytes; None if there is no file. Raises OSError."""
    try:
        return read_ours(path, MAX_BYTES)
    except FileNotFoundError:
        return None


def digest(content: bytes | str) -> str:
    """Return what a content is known by."""
    return sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def keep(project: Project, raw: bytes, kind: str = ADOPTED) -> Path:
    """Return a copy of a file's bytes in the state folder, named by their digest. Raises
    OSError, LedgerUnavailable.
    """
    path = _kept(project) / f"{kind}-{digest(raw)[:12]}.json"
    replace_file(path, raw, 0o600)
    return path


def _kept(project: Project) -> Path:
    return Path(private_folder(absolute(project.make_state_dir() / "kept")))


def kept_of_others(project: Project) -> list[Path]:
    """The copies of playbook.json that another ledger had written; they lie there until their
    owner removes them.
    """
    return sorted((project.state_dir / "kept").glob(f"{ANOTHERS}-*.json"))


def is_foreign(ledger: Ledger, project: Project) -> bool:
    """Return whether playbook.json is another tool's. Raises LedgerError, OSError."""
    try:
        return look(ledger, project).kind == "foreign"
    except PlaybookRefused:
        return False


def foreign_note(project: Project) -> str:
    """Return the note about a playbook.json of another tool, "" where there is none; asks no
    ledger.
    """
    try:
        raw = read(project.playbook_json)
    except OSError:
        return ""
    return (
        FOREIGN.format(path=project.playbook_json)
        if raw is not None and load(raw).format == "foreign"
        else ""
    )


def drop_known(ledger: Ledger, project: Project) -> None:
    """Remove the copies of playbook.json that an earlier history of this ledger had written, if it
    has all of their bullets by now. Raises OSError, LedgerError.
    """
    texts = {row.text for row in ledger.rows()}
    for kept in kept_of_others(project):
        loaded = load(read_ours(kept, MAX_BYTES))
        if not loaded.problems and texts.issuperset(bullet.text for bullet in loaded.bullets):
            kept.unlink()


def of_another(path: Path, kept: Path) -> str:
    """Return the note about a file that another ledger wrote."""
    return (
        f"{path} was written by another ledger, or by this one before an older copy of it came "
        "back. Nothing of it was "
        f"counted; it is kept as {kept}. Put the newest backup in place with `reflector ledger "
        "restore`, or count the "
        "sessions again with `reflector import-history` or `reflector ingest`; after that, "
        f"`reflector import --rename {shlex.quote(str(kept))}` adds the bullets that only this "
        "file has. Remove it "
        "when you are done. Clones that share a playbook stay in step after `reflector install "
        "--git` in each"
    )
