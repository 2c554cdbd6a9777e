"""The ledgers that are a person's: which file lies in each of their projects, and a copy of its events.

Invariant: no file decides by itself that it is this person's ledger. One is, where we made it, where it goes on from a
history that this person has a copy of, where it knows one of their transcripts by its hash, where their own settings
list the project, or where they said so. Any other is looked at, bounded and without writing, and opened for nothing
else. A ledger that is gone from a project comes back from its copy, where the project is the same one; where that
cannot be known, a person is asked.

Each project has a folder outside of itself (`locate.own_folder`), with `entry.json` and `events.ndjson`: the lines of
an export without their header. The lines are appended when a process closes the ledger that it wrote, so a process
that is killed leaves the copy behind by what it wrote, for the next one to add. The copy is not synced: what a crash of
the system takes from its end is written again, too. A redaction writes it anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from shutil import copyfileobj, rmtree
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import reflector.ledger as ledgers
from reflector.events.event import EVENT_REDACTED, SESSION_RECORDED
from reflector.files import error_words, folder_of, lock, read_bounded, write_durably
from reflector.git import git_says, repository
from reflector.handover import open_own
from reflector.ledger.errors import LedgerError, LedgerGone, LedgerUnavailable
from reflector.ledger.rows import object_in
from reflector.ledger.sqlite_file import refuse_journal, sqlite_module
from reflector.locate import agent_folders, own_folder, person_folder
from reflector.mistakes import Finding

if TYPE_CHECKING:
    from reflector.exchange.transfer import Header
    from reflector.ledger.store import Ledger

_ENTRY: Final = "entry.json"
_COPY: Final = "events.ndjson"
#: Where a ledger lies that is being made.
_NOWHERE: Final = (0, 0)
#: What SQLite may do while a strange file is looked at: some seconds of work.
_MOST_STEPS: Final = 2_000
_STEP: Final = 100_000
#: SQLite's codes of what the disk, its permissions or another process is to blame for, not the file.
_OF_THE_DISK: Final = frozenset((3, 5, 6, 7, 8, 10, 13, 14))
_CHAIN_AT: Final = "SELECT chain FROM event WHERE playbook_id = ? AND position = ?"
#: Of how many sessions, the newest first, the transcript is looked for.
_MOST_SESSIONS: Final = 50
_MOST_ENTRY: Final = 1 << 20


class Entry(NamedTuple):
    """A ledger of a person: where it lies, whose history it has, and the first commits of the project's repository.

    file  (device, inode) of the ledger's file
    """

    root: str
    playbook: str
    origin: str
    commits: tuple[str, ...]
    file: tuple[int, int]


class Place(NamedTuple):
    """Where a project's ledger lies; `is_listed` says that the person's own settings name the project."""

    root: Path
    file: Path
    playbook: str
    is_listed: bool


class End(NamedTuple):
    """The last event of a copy, 0 and "" for none, and the bytes of its whole lines."""

    position: int = 0
    chain: str = ""
    size: int = 0
    event_id: str = ""
    source: str = ""


class Seen(NamedTuple):
    """What a file says of itself that was only looked at."""

    origin: str
    position: int
    chain: str
    first: str
    last: str
    chains: Mapping[int, str]
    sessions: tuple[Mapping[str, Any], ...]


def entry_of(root: Path) -> Entry | None:
    """Return what is known of a project's ledger; None for nothing, or without a home."""
    return _read(Path(own_folder(str(root)), _ENTRY))


def entries() -> list[Entry]:
    """Return every ledger of this person, by the path of its project."""
    folder = person_folder()
    found = map(_read, Path(folder).glob(f"*/{_ENTRY}")) if folder else ()
    return sorted(filter(None, found), key=lambda one: one.root)


def copied(root: Path, name: str = _COPY) -> End:
    """Return the last whole line of the copy of a project's ledger: what a killed process left behind it is not one."""
    tail = b""
    with suppress(OSError), Path(own_folder(str(root)), name).open("rb") as file:
        at = file.seek(0, os.SEEK_END)
        while at:
            step = min(at, max(4096, len(tail)))
            at = file.seek(at - step)
            tail = file.read(step) + tail
            # The first one begins before what was read.
            start, stop = tail.find(b"\n") + 1 if at else 0, tail.rfind(b"\n") + 1
            while stop > start:
                begin = tail.rfind(b"\n", 0, stop - 1) + 1
                with suppress(ValueError, LookupError, TypeError):
                    line = json.loads(tail[begin:stop])
                    return End(int(line["position"]), str(line["chain"]), at + stop, line["id"], line["source"])
                stop = begin
    return End()


def way_back(root: Path, file: Path) -> str:
    """Return how the events of a damaged ledger come back from their copy; "" without one."""
    upto, away = copied(root).position, f"move {quote(str(file))}* away, and the next command puts them back"
    return f"its events up to position {upto} are copied: {away}" if upto else ""


def forget(root: Path) -> None:
    """Remove what is known of a project's ledger, its copy included. Raises OSError."""
    rmtree(own_folder(str(root)))


def admit(place: Place) -> None:
    """Let a project's ledger be opened, and put one back that is gone. Raises LedgerUnavailable for a file that is not
    known, LedgerGone for one that cannot be put back, LedgerError."""
    if not own_folder(str(place.root)) or _is_noted(place, entry_of(place.root)):
        return
    with _locked(place.root):
        there, entry = _identity(place.file), entry_of(place.root)
        if _is_noted(place, entry):  # another process put it back meanwhile
            return
        if there == _NOWHERE and entry is not None and copied(place.root).position:
            _restored(place, entry)
        elif there == _NOWHERE and entry is None:  # one that is killed while it makes the ledger leaves no strange one
            _note(place, "")
        elif there != _NOWHERE and os.path.getsize(place.file):  # noqa: PTH202 - of an empty file `claim_file` tells
            refuse_journal(place.file)
            if not _is_known(place, entry):
                seen = look(place.file, place.playbook)
                raise LedgerUnavailable(
                    f"the ledger {place.file}, of {seen.position:,} events from {seen.first[:10]} to {seen.last[:10]}, "
                    "is not known to be yours: it came with the project, or from before this was asked; run `reflector "
                    "ledger take` to use it, or move it away to begin your own"
                )


def _is_known(place: Place, entry: Entry | None) -> bool:
    """Return whether a file is this person's ledger; one that lies in the place of theirs gives way to it."""
    if entry is not None and entry.file == _NOWHERE:  # whoever made it may have been killed before it had a table
        return True
    known = sorted(entries(), key=lambda one: one != entry)
    ends = {one.root: copied(Path(one.root)) for one in known}
    seen = look(place.file, place.playbook, {end.position for end in ends.values()})
    original = next((one for one in known if _goes_on(seen, one, ends[one.root])), None)
    # A copy of the project that went on by itself has its origin, and may come in its place.
    if entry is not None and ends[entry.root].position and (original is None or original.origin != entry.origin):
        aside = place.file.with_name(f"another-{seen.origin[:12]}.db")
        _restored(place, entry, aside)
        ledgers.tell(f"another ledger lay in its place, and is kept as {aside}")
        return True
    if original is None:
        return place.is_listed or any(map(_is_vouched, seen.sessions))
    if entry is None and _identity(Path(original.root) / place.file.relative_to(place.root)) != original.file:
        with suppress(OSError):  # it was moved
            rmtree(own_folder(str(place.root)), ignore_errors=True)
            os.rename(own_folder(original.root), own_folder(str(place.root)))  # noqa: PTH104
            _note(place, seen.origin)
    return True


def _is_noted(place: Place, entry: Entry | None) -> bool:
    """Return whether the file that was noted is there, and has its history: a file system gives the number of a file
    that is gone to the next one. Of one that is damaged or lost its playbook, whoever opens it says so."""
    if entry is None or entry.file == _NOWHERE or _identity(place.file) != entry.file:
        return False
    try:
        with _looking(place.file, entry.playbook) as (connection, id, origin, position, _):
            end = copied(place.root)
            if not origin:
                known = "SELECT 1 FROM event WHERE position = ? AND chain = ?"
                return connection.execute(known, end[:2]).fetchone() is not None
            at = connection.execute(_CHAIN_AT, (id, end.position)).fetchone()
            return origin == entry.origin and (at == (end.chain,) or position < end.position or not end.position)
    except LedgerUnavailable as error:
        return error.__cause__ is not None


def _goes_on(seen: Seen, entry: Entry, end: End) -> bool:
    """Return whether a file goes on from the history of an entry's copy, or is an earlier state of it."""
    if entry.origin != seen.origin or not end.position or not seen.position:
        return False
    if end.position <= seen.position:
        return seen.chains.get(end.position) == end.chain
    with suppress(OSError), Path(own_folder(entry.root), _COPY).open("rb") as lines:
        for line in lines:
            with suppress(ValueError, LookupError, TypeError):
                if json.loads(line)["chain"] == seen.chain:
                    return True
    return False


def _is_vouched(data: Mapping[str, Any]) -> bool:
    """Return whether the transcript of a session lies in an agent's folder of this person, with the recorded hash."""
    transcript = data.get("transcript")
    if not isinstance(transcript, dict):
        return False
    path, size, since = (transcript.get(key) for key in ("path", "bytes", "since"))
    if not (isinstance(path, str) and isinstance(size, int)) or "\0" in path:
        return False
    real = os.path.realpath(path)
    if not any(real.startswith(f"{os.path.realpath(folder)}/") for folder in agent_folders()):
        return False
    begin = since if isinstance(since, int) and 0 <= since <= size else 0
    from hashlib import sha256  # OpenSSL's library, which most questions need not load

    try:
        with open(real, "rb") as file:
            file.seek(begin)
            digest, left = sha256(), size - begin
            while left > 0 and (part := file.read(min(left, 1 << 20))):
                digest.update(part)
                left -= len(part)
    except OSError:
        return False
    return left == 0 and digest.hexdigest() == transcript.get("sha256")


@contextmanager
def _looking(file: Path, playbook: str) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    """A connection that trusts nothing of a file, and the id, origin, position and chain of a playbook there: no view
    and no trigger of it runs, nothing is written, and the time is bounded. Raises LedgerUnavailable."""
    module = sqlite_module()
    steps = iter(range(_MOST_STEPS))
    # Without a -wal nobody has the ledger open. A connection that only reads would make one and a -shm, and leave both.
    unused = "" if os.path.lexists(f"{file}-wal") else "&immutable=1"
    try:
        with closing(module.connect(f"{file.absolute().as_uri()}?mode=ro{unused}", uri=True)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.set_progress_handler(lambda: next(steps, None) is None, _STEP)
            kinds = dict(connection.execute("SELECT name, type FROM sqlite_master WHERE name IN ('event', 'playbook')"))
            if kinds != {"event": "table", "playbook": "table"}:
                raise LedgerUnavailable(f"{file} is not a ledger of reflector; move it away to begin one")
            of = "SELECT id, origin, position, chain FROM playbook WHERE name = ?"
            id, origin, position, chain = connection.execute(of, (playbook,)).fetchone() or (0, "", 0, "")
            yield connection, id, str(origin), int(position), str(chain)
    except (module.Error, ValueError, TypeError, OverflowError) as error:  # what a damaged or a forged file says
        if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _OF_THE_DISK:
            raise LedgerUnavailable(
                f"{file} cannot be read now ({error}); check the space on its disk, its permissions and who uses it, "
                "then run the same command again"
            ) from error
        raise LedgerUnavailable(
            f"{file} cannot be looked at ({error}); move it away: your own ledger comes back from its copy where there "
            "is one, and else a new one begins"
        ) from error


def look(file: Path, playbook: str, positions: set[int] | None = None) -> Seen:
    """Return what a file says of itself, only looked at. Raises LedgerUnavailable for one that is no ledger of ours."""
    with _looking(file, playbook) as (connection, id, origin, position, chain):
        mine = "FROM event WHERE playbook_id = ?"
        first, last = connection.execute(f"SELECT min(recorded_at), max(recorded_at) {mine}", (id,)).fetchone()
        asked = ((one, connection.execute(_CHAIN_AT, (id, one)).fetchone()) for one in positions or ())
        chains = {one: row[0] for one, row in asked if row}
        newest = f"SELECT data {mine} AND type = ? ORDER BY position DESC LIMIT {_MOST_SESSIONS}"
        texts = connection.execute(newest, (id, SESSION_RECORDED)).fetchall()
        sessions = tuple(object_in(text)[0] for (text,) in texts if isinstance(text, str))
        return Seen(origin, position, chain, str(first or ""), str(last or ""), chains, sessions)


def take(place: Place) -> None:
    """Note that a file is this person's ledger, because they say so. Raises OSError."""
    seen = look(place.file, place.playbook)
    _note(place, seen.origin)


def keep(ledger: Ledger, place: Place) -> None:
    """Note a project's ledger, and bring its copy up to date. Raises OSError, LedgerError."""
    there = _identity(place.file)
    if there == _NOWHERE or not own_folder(str(place.root)):
        return
    head, entry = ledger.head(), entry_of(place.root)
    if entry is not None and entry.file == there and copied(place.root)[:2] == (head.position, head.chain):
        return
    from reflector.exchange.transfer import Header, exported  # what most questions need not load

    with _locked(place.root):
        entry = entry_of(place.root)
        if entry is not None and entry.file == there and entry.playbook != head.playbook:
            return  # another playbook in the same file
        is_noted = entry is not None and (entry.file, entry.origin) == (there, head.origin)
        # A repository may have had no commit yet.
        if entry is None or not is_noted or (not entry.commits and repository(place.root)[1] is not None):
            _note(place, head.origin)
        copy = Path(own_folder(str(place.root)), _COPY)
        end = copied(place.root)
        if end.position and all(one.chain != end.chain for one in ledger.at([end.position])):
            _keep_aside(copy, Header(head.playbook, entry.origin if entry else head.origin, end.position, end.chain))
            end = End()
        if next(ledger.events(types=[EVENT_REDACTED], after=end.position), None) is not None:
            end = End()
        target = copy if end.position else copy.with_name(f".{_COPY}.tmp")
        with os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600), "r+b") as file:
            file.truncate(end.size)
            file.seek(end.size)
            file.writelines(f"{line}\n".encode() for line in exported(ledger, after=end.position))
        target.rename(copy)


def _keep_aside(copy: Path, header: Header) -> None:
    """Keep a copy whose end its ledger does not have as an export, and say so. Raises OSError."""
    from reflector.exchange.transfer import header_line

    aside = copy.with_name(f"events-{header.position}-{header.chain[-12:]}.ndjson")
    target = aside.with_name(f".{aside.name}.tmp")
    with copy.open("rb") as lines, os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as to:
        to.writelines(chain([f"{header_line(header)}\n".encode()], islice(lines, header.position)))
    target.rename(aside)
    ledgers.tell("{0.message}; {0.remedy}".format(_missing(aside, header.position)))


def _missing(aside: Path, position: int) -> Finding:
    what = f"the ledger lacks events that it had before, up to position {position}"
    return Finding("head", None, what, f"`reflector import {quote(str(aside))}` brings them back; then remove it")


def kept(root: Path) -> list[Path]:
    """Return the exports of what a project's ledger had before an older state or another ledger came in its place."""
    return sorted(Path(own_folder(str(root))).glob("events-*.ndjson"))


def lacking(root: Path, ledger: Ledger) -> Finding | None:
    """Return what is wrong where an older state of a project's ledger was put in its place. Raises LedgerError."""
    origin = ledger.head().origin
    for aside in kept(root):
        end = copied(root, aside.name)
        if end.source.endswith(origin) and not ledger.having([end.event_id]):
            return _missing(aside, end.position)
    return None


def _note(place: Place, origin: str) -> None:
    entry = Entry(str(place.root), place.playbook, origin, _commits(place.root), _identity(place.file))
    if entry_of(place.root) != entry:
        write_durably(open_own(str(place.root)), json.dumps(entry._asdict()).encode(), _ENTRY)


def _restored(place: Place, entry: Entry, aside: Path | None = None) -> None:
    """Put a ledger back from its copy, and say so. Raises LedgerGone, LedgerError."""
    end = copied(place.root)
    is_same = bool({*_commits(place.root)} & {*entry.commits})
    try:
        is_back = put_back(place, entry, aside, sure=is_same)
    except LedgerUnavailable:
        raise
    except LedgerError as error:
        raise LedgerGone(
            f"the ledger {place.file} is gone, and its copy {own_folder(entry.root)}/{_COPY} is damaged ({error}); put "
            f"a backup in its place with `reflector ledger restore`, or `reflector ledger forget {quote(entry.root)}` "
            "removes the copy, so that a new ledger can begin"
        ) from error
    if not is_back:
        raise LedgerGone(
            f"the ledger {place.file} is gone, and nothing shows that {place.root} still is the project that it was "
            f"of. A copy of its {end.position:,} events is kept: `reflector ledger take` puts it back, "
            f"`reflector ledger forget {quote(str(place.root))}` removes it, so that a new ledger can begin"
        )
    ledgers.tell(
        f"{place.file} was gone; its {end.position:,} events are back from the copy in {own_folder(entry.root)}"
    )


def put_back(place: Place, entry: Entry, aside: Path | None = None, *, sure: bool = True) -> bool:
    """Write a ledger from its copy: beside its place, then under its name, where what lay there goes `aside`.

    Where nobody is `sure` that the project is the same, only if playbook.json says so; returns whether it was written.
    Raises LedgerError, OSError.
    """
    from tempfile import TemporaryDirectory

    from reflector.exchange.transfer import Header, header_line, load
    from reflector.ledger.store import Ledger

    end, own = copied(place.root), Path(own_folder(str(place.root)))
    with TemporaryDirectory(dir=own) as folder:
        staged = Path(folder, "ledger.db")
        with Ledger.open_file(staged, entry.playbook) as ledger, (own / _COPY).open("rb") as lines:
            head = Header(entry.playbook, entry.origin, end.position, end.chain)
            load(ledger, chain([header_line(head).encode()], islice(lines, end.position)))
            if not sure and not _wrote(ledger, place.root / ".claude" / "playbook.json"):
                return False
        _put(staged, place.file, aside)
    _note(place, entry.origin)
    return True


def _put(staged: Path, file: Path, aside: Path | None) -> None:
    """Put a file in a ledger's place, through its folder: no link below a `.claude` leads elsewhere."""
    beside = f".{file.name}.restored"
    try:
        with folder_of(file) as folder:
            fd = folder.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            with staged.open("rb") as source, os.fdopen(fd, "wb") as target:
                copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())
            if aside is not None:
                folder.replace(file.name, aside.name)
            for suffix in ("-wal", "-shm"):
                folder.remove(f"{file.name}{suffix}", missing_ok=True)
            folder.replace(beside, file.name)
    except OSError as error:
        raise LedgerUnavailable(f"{file} cannot be put back ({error_words(error)}); check its folder") from error


def _wrote(ledger: Ledger, file: Path) -> bool:
    """Return whether a playbook.json has the bytes that the ledger wrote at some moment: what shows that a folder
    without commits is the same project."""
    from reflector.ledger.as_of import Past
    from reflector.playbook.document import MAX_BYTES, dump, load

    try:
        raw = read_bounded(file, MAX_BYTES)
    except OSError:
        return False
    moment = load(raw).last_updated
    return moment is not None and raw == dump(Past(ledger, ledger.position_at(moment)).bullets(), moment)


def _commits(root: Path) -> tuple[str, ...]:
    """Return the first commits of the history that a folder has checked out; () where git knows none."""
    found = git_says(root, "rev-list", "--max-parents=0", "HEAD")
    return tuple((found or b"").decode("ascii", "replace").split())


def _read(file: Path) -> Entry | None:
    try:
        found = json.loads(read_bounded(file, _MOST_ENTRY))
        return Entry(found["root"], found["playbook"], found["origin"], tuple(found["commits"]), tuple(found["file"]))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _identity(file: Path) -> tuple[int, int]:
    try:
        found = os.lstat(file)
    except OSError:
        return _NOWHERE
    return found.st_dev, found.st_ino


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Keep other processes of this person from a project's entry; without a home there is none."""
    try:
        fd = os.open(f"{open_own(str(root))}/lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        lock(fd, wait=True)
        yield
    finally:
        os.close(fd)
