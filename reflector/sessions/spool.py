"""The reading side of the spool: the deliveries of hooks, each recorded once.

Invariant: a delivery is in exactly one place. It is pending, waiting, unanswered, failed or broken.
Every move between these is one synced rename, and only `settle_delivery` ends it. So a drain can be
killed at any point: an unsettled delivery is still there, and recording it again adds nothing to
the ledger. Only a delivery with the seal of the user's own hooks is recorded, because a repository
can contain files like these.

`reflector.hooks.fast` fills the state folder, `<project>/.claude/reflector/` (0700, files 0600):

    .gitignore              `*`: nothing in this folder belongs in a repository
    begun/                  a file with the id of each session that started and has not ended
    fired/<event>           an empty file; its time of change is the last run of that event's hook
    drain.lock              held by the process that records the spool
    model.lock, away.lock   held by the process that asks a model, and by the one that waits for the
                            ledger's server
    spool/<name>.json       one delivery each, oldest first by name: `<time_ns>-<pid>-<n>`
    spool/waiting/          the newest Stop of each session; a stop is not an end
    spool/unanswered/       stops and ends whose last answer their transcript lacks; the next drain
                            completes it
    spool/broken/           unreadable payloads, verbatim
    spool/silent/           ends of sessions without a transcript: opened and closed without a
                            word
    spool/failed/           unrecorded deliveries; `<same name>.error` has the reason
                            and the number of attempts

A delivery in `failed/` becomes pending again after a growing pause, at most `MOST_ATTEMPTS` times.
A time in the future is not a reason to wait, so a clock that was ahead and was corrected delays
nothing.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector import __version__, files
from reflector.git import repository
from reflector.handover import MAX_PAYLOAD, file_name, is_sealed, sealed, state_at, words
from reflector.locate import AGENT_FILES, own_folder
from reflector.sessions.locks import is_of, stand_ins

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.project import Project

#: The file in the state folder with the state that the last answer to a question depended on.
_SEEN = "seen"
#: Characters that a path cannot have: NUL, and half a surrogate pair, except those that represent
#: bytes that are not UTF-8.
_NO_PATH = re.compile("[\0\ud800-\udc7f\udd00-\udfff]")
#: The number of automatic attempts to record a delivery. With their pauses they take at least a
#: month.
MOST_ATTEMPTS = 40
_FIRST_PAUSE_NS = 60 * 1_000_000_000
_LONGEST_PAUSE_NS = 24 * 3600 * 1_000_000_000
#: A temporary file of this age belongs to a killed hook, because a hook runs for milliseconds.
LEFT_BEHIND_SECONDS = 3600.0
#: The number of kept ends of sessions without a word; more of them would show nothing new.
MOST_SILENT = 100
#: The keys of a payload that recording a delivery needs.
_NEEDED = (
    "hook_event_name",
    "session_id",
    "transcript_path",
    "agent_id",
    "agent_transcript_path",
    "reason",
    "trigger",
)
#: The error text for a file in `broken/`.
NOT_A_PAYLOAD = "no hook wrote this file; it stays in the folder broken/ until you remove it"
#: The hook adds much less than 64 KiB to a payload.
MAX_RECORD = MAX_PAYLOAD + 64 * 1024
_MAX_ID_BYTES = 1024


class Delivery(NamedTuple):
    """One delivery of a hook. A value is None if the client omitted it or got it wrong.

    path              the file that contains it
    received_at_ns    when the hook received it, nanoseconds since the epoch
    project           the project's folder, absolute
    transcript_path   its transcript: for SubagentStop the subagent's, never its parent's
    transcript_bytes  that file's size when the hook ran; None if the file was missing
    event             hook_event_name, as the client wrote it
    agent_id          its subagent, None for the main session
    reason            why a session ended, or the trigger of its compaction
    payload           the hook's stdin, parsed
    """

    path: Path
    received_at_ns: int
    project: str | None
    transcript_path: str | None
    transcript_bytes: int | None
    session_id: str | None
    agent_id: str | None
    event: str
    reason: str | None
    payload: Mapping[str, Any]


# Not frozen: a frozen class takes three times as long to define at each start.
@dataclass
class Failure:
    """A delivery that could not be recorded. After it is `given_up`, only your command tries it
    again.
    """

    delivery: str
    error: str
    attempts: int
    given_up: bool
    path: Path = field(repr=False)
    failed_at_ns: int = field(repr=False)


@dataclass
class Spool:
    """The deliveries of hooks: pending and waiting ones, and those that cannot be recorded or read.

    waiting     for their session's end
    unanswered  recorded without their last answer, which the next drain adds
    silent      sessions that ended without a word or a transcript
    broken      the payloads that cannot be read: their names, or their paths in the user's folder
    elsewhere   kept with the user because the project could not be written
    """

    pending: int
    waiting: int
    unanswered: int
    silent: int
    failed: list[Failure]
    broken: list[str]
    elsewhere: int
    oldest_ns: int | None = field(repr=False)


@dataclass
class Failed:
    """A delivery that could not be recorded, and the reason."""

    delivery: str
    error: str


def pending_for(project: Path, part: str = "", aside: list[Failed] | None = None) -> list[Delivery]:
    """Return a project's pending deliveries, its own and those kept with the user, oldest first.

    The part "waiting" has the newest Stop of each session that has not ended; `claim` makes one
    pending. With `aside`, under `drain.lock`, a record that cannot be read is moved and noted
    there.
    """
    deliveries = pending(Path(files.state_folder(str(project))) / "spool", part, aside)
    for spool_dir in stand_in_spools():
        elsewhere = pending(spool_dir, part, aside)
        deliveries += [delivery for delivery in elsewhere if is_of(project, delivery.project)]
    return sorted(deliveries, key=lambda delivery: delivery.received_at_ns)


def has_pending(project: Path) -> bool:
    """Return whether a project's spool has a pending file, even one that cannot be read, or a
    delivery of the project is kept with the user.
    """
    own = Path(files.state_folder(str(project))) / "spool"
    return bool(_records(own) or pending_for(project))


def failed_deliveries(spool_dir: Path) -> list[Failure]:
    """Return the deliveries that could not be recorded, oldest first."""
    return [_failure(path) for path in _records(spool_dir / "failed")]


def look_into(spool_dir: Path) -> Spool:
    """Return the deliveries of a spool, and the time of the oldest pending one. Moves no file."""
    names = [path.name for path in _records(spool_dir)]
    times = [int(name[:20]) for name in names if name[:20].isdecimal()]
    parts = ("", "waiting", "unanswered", "failed")
    stand_ins = [*stand_in_spools()]
    elsewhere = [_records(folder / part) for folder in stand_ins for part in parts]
    broken = [path.name for path in _records(spool_dir / "broken")]
    broken += [str(path) for folder in stand_ins for path in _records(folder / "broken")]
    return Spool(
        pending=len(names),
        waiting=len(_records(spool_dir / "waiting")),
        unanswered=len(_records(spool_dir / "unanswered")),
        silent=len(_records(spool_dir / "silent")),
        failed=failed_deliveries(spool_dir),
        broken=broken,
        elsewhere=sum(map(len, elsewhere)),
        oldest_ns=min(times, default=None),
    )


def claim(delivery: Delivery) -> Delivery | None:
    """Make a waiting delivery, or a newer one in its place, pending and return it; None if gone."""
    name = f"{delivery.received_at_ns:020d}-{delivery.path.stem[:40]}.json"
    moved = _move(delivery.path, delivery.path.parent.parent, name)
    return _read_delivery(moved) if moved else None


def settle_delivery(delivery: Delivery) -> None:
    """End a recorded delivery. The end of a session also settles its older Stop."""
    spool_dir = delivery.path.parent
    delivery.path.unlink(missing_ok=True)
    (spool_dir / "failed" / delivery.path.name).with_suffix(".error").unlink(missing_ok=True)
    files.sync_folder(str(spool_dir))
    if delivery.event == "SessionEnd" and delivery.session_id:
        end(delivery.session_id, spool_dir, delivery.received_at_ns)
        stop = stop_of(delivery)
        if stop is None or stop.received_at_ns >= delivery.received_at_ns:
            return
        # A newer Stop may have taken its place meanwhile; it is then pending instead.
        claimed = claim(stop)
        if claimed is not None and claimed.received_at_ns == stop.received_at_ns:
            settle_delivery(claimed)


def end(session_id: str, spool_dir: Path, received_at_ns: int) -> None:
    """Forget that a session began, unless it was resumed after its end was received."""
    begun = spool_dir.parent / "begun" / file_name(session_id)
    with suppress(FileNotFoundError, NotADirectoryError):
        if begun.lstat().st_mtime_ns <= received_at_ns:
            begun.unlink()


def begun(project: Path) -> dict[str, int]:
    """Return the time, in nanoseconds since the epoch, at which each session began that has not
    ended, by its id.
    """
    began_ns: dict[str, int] = {}
    for path in _records(Path(files.state_folder(str(project))) / "begun"):
        with suppress(OSError, ValueError):
            session_id = files.read_file(str(path), _MAX_ID_BYTES).decode()
            began_ns[session_id] = path.lstat().st_mtime_ns
    return began_ns


def stop_of(delivery: Delivery) -> Delivery | None:
    """Return the waiting Stop of a pending delivery's session; None without one."""
    try:
        return _read_delivery(
            delivery.path.parent / "waiting" / file_name(delivery.session_id or "")
        )
    except (OSError, ValueError):
        return None


def keep_unanswered(delivery: Delivery) -> None:
    """Set a delivery aside whose last answer its transcript lacks."""
    spool_dir = delivery.path.parent
    spool_dir = spool_dir.parent if spool_dir.name == "waiting" else spool_dir
    _move(
        delivery.path,
        spool_dir / "unanswered",
        f"{delivery.received_at_ns:020d}-{delivery.path.stem[:100]}.json",
    )


def fail(path: Path, spool_dir: Path, error: Exception) -> Path:
    """Set a delivery aside with the reason why it could not be recorded; return its new place."""
    folder = Path(files.private_folder(str(spool_dir / "failed")))
    target = folder / path.name
    note = {
        "error": files.error_words(error)[:4000],
        "attempts": _failure(target).attempts + 1,
        "failed_at_ns": time.time_ns(),
    }
    reason = target.with_suffix(".error")
    if reason.is_dir():  # it is not ours, and it would block all other deliveries
        reason.rename(reason.with_name(f"{reason.name}.{time.time_ns()}"))
    # The reason is written first: a crash between the two leaves the delivery pending, never a
    # failure without a reason.
    files.write_durably(str(folder), json.dumps(note).encode(), reason.name)
    return _move(path, folder) or target


def keep_silent(delivery: Delivery) -> None:
    """End a delivery that seems to have nothing to record, and keep the newest ones in
    `silent/`.
    """
    silent = delivery.path.parent / "silent"
    _move(delivery.path, silent)
    for old in _records(silent)[:-MOST_SILENT]:
        old.unlink(missing_ok=True)


def tidy(project: Path, *, everything: bool) -> None:
    """Sweep the records that killed hooks of a project left, and `retry` its deliveries in every
    spool.
    """
    own = Path(files.state_folder(str(project))) / "spool"
    sweep_spool(own)
    for spool_dir in (own, *stand_in_spools()):
        retry(spool_dir, everything=everything)


def retry(spool_dir: Path, *, everything: bool = False) -> None:
    """Make failed deliveries pending again: those whose pause is over, or with `everything` every
    failed and silent one. Their notes stay, to count the attempts.
    """
    for failure in failed_deliveries(spool_dir):
        if everything or is_over(failure.attempts, failure.failed_at_ns):
            _move(failure.path, spool_dir)
    if everything:
        for path in _records(spool_dir / "silent"):
            _move(path, spool_dir)


def sweep_spool(spool_dir: Path) -> None:
    """Sweep the records that killed hooks left more than an hour ago. The hook never acknowledged
    such a delivery. A complete record becomes pending, because its event happened; an incomplete
    one is removed.
    """
    oldest = time.time() - LEFT_BEHIND_SECONDS
    recovered = False
    parts = ("", "waiting", "unanswered", "broken", "failed")
    for folder in (spool_dir.parent, *(spool_dir / part for part in parts)):
        if folder.is_symlink():
            continue
        for path in folder.glob(".[0-9]*-*.json.tmp"):
            try:
                if path.lstat().st_mtime > oldest:
                    continue
                if folder in (spool_dir, spool_dir / "waiting") and _is_whole(path):
                    path.rename(spool_dir / path.name[1:].removesuffix(".tmp"))
                    recovered = True
                else:
                    path.unlink()
            except FileNotFoundError:  # its hook was still alive, or another sweep was faster
                continue
    if recovered:
        files.sync_folder(str(spool_dir))


def drop_words(path: Path) -> None:
    """Remove from a delivery the values that recording it does not need. A file that cannot be read
    as a delivery stays as it is.

    Raises:
        OSError: the file cannot be read or written
    """
    with suppress(ValueError):
        payload = _read_delivery(path).payload
        record = json.loads(files.read_file(str(path), MAX_RECORD))
        record["payload"] = {key: payload[key] for key in _NEEDED if key in payload}
        del record["v"], record["seal"]
        facts = json.dumps(record).removeprefix("{") + "\n"
        files.write_durably(str(path.parent), sealed(facts.encode()), path.name)


def _records(folder: Path) -> list[Path]:
    """Return the visible files of one part of a spool, by name; [] if it is missing or is not a
    folder of ours.
    """
    if folder.is_symlink():
        return []
    try:
        paths = [path for path in folder.iterdir() if path.suffix == ".json"]
        return sorted(path for path in paths if path.name[0] != ".")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_whole(path: Path) -> bool:
    with suppress(OSError, ValueError):
        return bool(_read_delivery(path))
    return False


def pending(spool_dir: Path, part: str = "", aside: list[Failed] | None = None) -> list[Delivery]:
    """Return the deliveries of one part of a spool, oldest first, as `pending_for` does. Without
    `aside`, nothing is moved.
    """
    deliveries = []
    for path in _records(spool_dir / part):
        try:
            deliveries.append(_read_delivery(path))
        except FileNotFoundError:  # settled meanwhile
            continue
        except (_Newer, _Foreign, OSError) as error:  # it must not block others
            if aside is not None:
                moved = fail(path, spool_dir, error)
                aside.append(Failed(str(moved), files.error_words(error)))
        except ValueError:
            name = f"{time.time_ns():020d}-{path.name}"
            if aside is not None and (broken := _move(path, spool_dir / "broken", name)):
                aside.append(Failed(str(broken), NOT_A_PAYLOAD))
    return sorted(deliveries, key=lambda delivery: delivery.received_at_ns)


class _Newer(ValueError):
    """A record with a form that only a newer reflector can read."""


class _Foreign(ValueError):
    """A record without the seal of this home's hooks. If it has that of another home of the user, a
    drain there records it later.
    """


def _read_delivery(path: Path) -> Delivery:
    """Return the delivery of one record.

    Raises:
        _Newer: only a newer reflector can read the record's form
        _Foreign: a repository may have brought the record
        ValueError: the file was not written by a hook
        OSError: the file cannot be read
    """
    record = _read_record(path)
    payload = record["payload"]
    event = words(payload, "hook_event_name")
    transcript = "agent_transcript_path" if event == "SubagentStop" else "transcript_path"
    return Delivery(
        path=path,
        received_at_ns=_natural(record.get("received_at_ns")) or 0,
        project=_words_or_none(record, "project"),
        transcript_path=_path_from(words(record, "cwd"), words(payload, transcript)),
        transcript_bytes=_natural(record.get("transcript_bytes")),
        event=event,
        payload=payload,
        session_id=_words_or_none(payload, "session_id"),
        agent_id=_words_or_none(payload, "agent_id"),
        reason=_words_or_none(payload, "reason") or _words_or_none(payload, "trigger"),
    )


def _read_record(path: Path) -> dict[str, Any]:
    """Return a record of version 1 with its payload.

    Raises: as `_read_delivery` does.
    """
    raw = files.read_file(str(path), MAX_RECORD + 1)
    try:
        record: Any = json.loads(raw) if len(raw) <= MAX_RECORD else None
    except RecursionError as error:
        raise ValueError(str(error)) from None
    version = record.get("v") if isinstance(record, dict) else None
    if type(version) is int and version > 1:
        raise _Newer(f"a newer reflector wrote this file (form {version}); upgrade reflector")
    if version != 1 or not isinstance(record.get("payload"), dict):
        raise ValueError(f"reflector's hook did not write {path}")
    if not is_sealed(raw):
        raise _Foreign(
            "your hooks did not write this file, because their seal is missing; if the file came "
            "with a repository, remove the file"
        )
    return dict(record)


def _words_or_none(record: dict[str, Any], key: str) -> str | None:
    return words(record, key) or None


def _natural(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _path_from(folder: str, path: str) -> str | None:
    """Return a path of a payload; a relative one begins in the folder in which the hook ran."""
    if not path or _NO_PATH.search(folder + path):
        return None
    return str(Path(folder) / path)


def _failure(path: Path) -> Failure:
    failure = Failure(path.name, "", 0, False, path, 0)
    with suppress(OSError, ValueError, KeyError, TypeError):
        note = json.loads(files.read_file(str(path.with_suffix(".error")), 64 * 1024))
        failure = replace(
            failure,
            error=str(note["error"]),
            attempts=int(note["attempts"]),
            failed_at_ns=int(note["failed_at_ns"]),
        )
    return replace(failure, given_up=failure.attempts >= MOST_ATTEMPTS)


def _move(path: Path, folder: Path, name: str = "") -> Path | None:
    """Rename a file into a folder of its spool, synced when this returns; None if another process
    moved it first.
    """
    target = Path(files.private_folder(str(folder))) / (name or path.name)
    try:
        path.rename(target)
    except FileNotFoundError:
        return None
    for changed in (folder, path.parent):
        files.sync_folder(str(changed))
    return target


def is_over(attempts: int, failed_at_ns: int) -> bool:
    """Return whether the pause after a failed attempt is over: 1, 2, 4 … minutes, at most a day.
    False after the last attempt.
    """
    pause = min(_FIRST_PAUSE_NS << max(attempts - 1, 0), _LONGEST_PAUSE_NS)
    return attempts < MOST_ATTEMPTS and not 0 <= time.time_ns() - failed_at_ns < pause


def stand_in_spools() -> list[Path]:
    """Return the spools that replace those of folders that are gone or cannot be written."""
    return [state / "spool" for state in stand_ins()]


def is_untouched(project: Project) -> bool:
    """Return whether a project has neither ledger, playbook nor delivery, so that a question has
    nothing to read. A playbook.json of another tool is not a playbook.
    """
    if project.has_ledger() or _has_playbook(project):
        return False
    if any(_records(project.spool_dir / part) for part in ("", "waiting", "failed", "silent")):
        return False
    return not any(pending_for(project.root, part) for part in ("", "waiting"))


def _has_playbook(project: Project) -> bool:
    from reflector.playbook.document import MAX_BYTES, load

    try:
        raw = files.read_ours(project.playbook_json, MAX_BYTES)
    except FileNotFoundError:
        return False
    except OSError:  # the command that reads it reports the reason
        return True
    return load(raw).format != "foreign"


def current_state(project: Project, ledger: Ledger) -> bytes | None:
    """Return the state that an answer depends on, as bytes; None if a delivery is
    pending.

    If the bytes are the same as before, `refresh` would change nothing and print nothing. They are
    not hashed, because importing a hash function takes longer, and nothing in them is secret.

    Raises:
        LedgerError: the ledger cannot be read
    """
    if any(map(_records, [project.spool_dir, *stand_in_spools()])):
        return None
    head = ledger.head()
    root = project.root
    # A URL may contain a password.
    settings = repr(replace(project.config, ledger_url="", base_url=""))
    names = (".claude/playbook.json", ".claude/.gitattributes", *AGENT_FILES)
    places = [*(root / name for name in names), project.state_dir / "prompts" / "playbook.txt"]
    if (git := repository(root)[1]) is not None:
        places += [git / "HEAD", git / "index"]
    is_rendered = Path(own_folder(os.fspath(root)), "injection.txt").exists()
    parts = [
        __version__,
        ledger.engine.url.place,
        settings,
        head.chain,
        str(ledger.updated_at()),
        str(is_rendered),
    ]
    return "\n".join([*parts, *map(state_at, map(str, places))]).encode("utf-8", "surrogatepass")


def was_seen(project: Project, state: bytes | None) -> bool:
    """Return whether the last question left this state."""
    try:
        path = f"{project.state_dir}/{_SEEN}"
        return state is not None and files.read_file(path, 1 << 20) == state
    except (OSError, ValueError):
        return False


def keep_seen(project: Project, state: bytes) -> None:
    """Keep the state for the next question, if the state folder can be written."""
    with suppress(OSError, ValueError):
        files.write_durably(files.open_state(os.fspath(project.root)), state, _SEEN)
