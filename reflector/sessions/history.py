"""The transcripts that agents still keep: found, recorded one after the other, or one by one and
each asked about some lines.

Invariant: the project of a transcript is what its records say. The folder's name is the path with
everything but letters and digits replaced, so several projects share one name, and a session can be
moved to another.

A history is recorded oldest first, each file to its last event before the next begins, so an import
that is stopped goes on where it ended. A check begins with the newest. A session is recorded before
it is asked about, in a transaction of its own, and no lock is held while a judge is asked but the
model's. Whoever is stopped goes on with the first window that lacks an answer; a transcript that
has not grown since is not opened. A check writes no file of the project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from reflector.curator.listening import learned_words, propose_learned
from reflector.events import event as ev
from reflector.judges.protocol import Asks, Backend, BackendError
from reflector.ledger.store import Ledger
from reflector.playbook_files.watching import Line, watch, watching
from reflector.reflection.checking import Checker, Todo, todo
from reflector.reflection.gate import Gate
from reflector.reflection.window import transcript_of
from reflector.sessions import locks
from reflector.sessions.drain import Pipeline, ask_model, open_pipeline
from reflector.sessions.intake import Source
from reflector.text.words import SPACED, grams
from reflector.transcripts.building import plain_text
from reflector.transcripts.message import Tally
from reflector.transcripts.readers import folder_named_in, readers
from reflector.transcripts.reading import UnknownTranscript, scan
from reflector.transcripts.records import parse_line, read_lines
from reflector.trials.trial import lacking

if TYPE_CHECKING:
    from reflector.project import Project

#: Files of a history that are recorded before the project's lock is given to whoever waits for it.
_AT_ONCE = 25
#: The file in the state folder of transcripts in which nothing was new: no event names them.
_COPIES = "copies"
#: A word, a path or a command with what may follow it; of scripts without spaces none.
_WORD = rf"(?:{SPACED}|[./-])+"
_LEAST_WORD = 4
_CHUNK = 8 << 20
#: Words by which no line is recognised.
_COMMON = frozenset(
    "always never when before after with from that this these those them they must should shall "
    "only make sure "
    "write keep each every into your have does don use used using instead prefer avoid where "
    "which what also than "
    "then there will would please ensure without over under here just more most other some such "
    "very".split()
)
#: Particles and endings are written in it.
_HIRAGANA = "[\u3041-\u3096]"
_COMMON_UNSPACED = """
    必须 务必 不要 不得 不能 不可 禁止 请勿 使用 应该 应当 需要 始终 总是 所有 全部
    每个 之前 之后 以前 以后 必須 應該 總是 一个 这个 那个 我们 你们 可以 如果 或者 以及 時候 时候
    場合 必ず 常に 使う 使い 全て
    ต้อง จะต้อง ห้าม อย่า ควร เสมอ ทุกครั้ง ทั้งหมด ก่อน หลัง และ หรือ ให้ การ ความ เป็น ไม่ ใช้ ของ ที่ ว่า จาก กับ
    ຕ້ອງ ຫ້າມ ຢ່າ ຄວນ ສະເໝີ ທຸກຄັ້ງ ກ່ອນ ຫຼັງ ແລະ ໃຫ້ ການ ຄວາມ ເປັນ ບໍ່ ໃຊ້ ຂອງ ທີ່ ຈາກ ກັບ
    ត្រូវ កុំ ហាម គួរ ជានិច្ច មុន ក្រោយ និង ការ ជា មិន ប្រើ របស់ ដែល ពី នៅ
"""
#: How far into a file its folder and its first time are looked for. A first prompt with images has
#: megabytes.
_HEAD_BYTES = 8 * 1024 * 1024
_HEAD_LINES = 200
_MOST_DOCUMENT = 64 * 1024 * 1024
_COMPRESSED = frozenset((".zst", ".gz", ".xz", ".bz2", ".zip", ".lz4", ".br"))
#: Files beside the transcripts that are none.
_OTHERS = frozenset({"journal.jsonl", "history.jsonl"})


@dataclass(frozen=True, slots=True)
class Found:
    """A transcript as its head tells.

    cwd         the folder the agent worked in, "" where no record says
    started_at  the first time in the file, ISO 8601 as written, "" where there is none
    bytes       size of the file
    """

    path: Path
    cwd: str
    started_at: str
    bytes: int


def find_transcripts(
    folder: Path,
    pattern: str = "*.jsonl",
    known: Mapping[tuple[str, int], str] = MappingProxyType({}),
) -> Iterator[Found]:
    """Yield the transcripts below a folder, subagents' as well, in no order. What cannot be read is
    passed over.

    known  the folder that the agent worked in, by the path and the bytes of a file: such a one is
           not opened
    """
    for path in sorted(folder.rglob(pattern)):
        if path.name in _OTHERS or not path.is_file():
            continue
        with suppress(OSError):
            size = path.stat().st_size
            cwd = known.get((str(path), size)) if known else None
            yield look_at(path) if cwd is None else Found(path, cwd, "", size)


def compressed(folders: Iterable[Path]) -> list[Path]:
    """Return the compressed transcripts below some folders, which nobody reads: of any project."""
    found = (path for folder in folders if folder.is_dir() for path in folder.rglob("*"))
    return sorted(
        path
        for path in found
        if path.suffix in _COMPRESSED and ".json" in path.name and path.is_file()
    )


def look_at(path: Path) -> Found:
    """Return what the head of one file tells. Raises OSError."""
    cwd = started_at = ""
    tally = Tally()
    if path.suffix == ".json":
        return Found(path, _of_document(path), "", path.stat().st_size)
    with path.open("rb", buffering=256 * 1024) as file:
        for line in read_lines(file, _HEAD_BYTES, tally):
            for record, _ in parse_line(line.text, tally):
                cwd = cwd or _folder(record)
                started_at = started_at or plain_text(record.get("timestamp"))
            if (cwd and started_at) or tally.lines >= _HEAD_LINES:
                break
    return Found(path, cwd, started_at, path.stat().st_size)


def _of_document(path: Path) -> str:
    """Return the folder that a document names. Raises OSError."""
    try:
        record = json.loads(path.read_bytes()) if path.stat().st_size <= _MOST_DOCUMENT else {}
    except (ValueError, RecursionError):
        return ""
    return _folder(record) if isinstance(record, dict) else ""


def project_hash(root: Path) -> str:
    """Return how Gemini CLI names a project in its chats."""
    return sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()


def _folder(record: dict[str, Any]) -> str:
    """Return the folder that a record names; a chat of Gemini CLI has a hash of it."""
    return folder_named_in(record, readers())


@dataclass(slots=True)
class Imported:
    """A project's result.

    taken     how many files had something new, and `records` how many records that were
    cited     how many bullets their sessions cite
    wishes    how many changes people asked for in them
    is_empty  whether the playbook has no bullet
    failed    each failed file's error
    """

    taken: int = 0
    records: int = 0
    cited: int = 0
    wishes: int = 0
    is_empty: bool = False
    failed: list[tuple[Path, OSError | ValueError]] = field(default_factory=list)


def record_history(
    project: Project, files: Sequence[Found], advance: Callable[[Found], object]
) -> Imported:
    """Record a project's transcripts in their order; `advance` is called with each finished file.
    Raises as `drain` does, after what was recorded until then.
    """
    done = Imported()
    is_model = False
    for start in range(0, len(files), _AT_ONCE):
        with _pipeline(project, write=True) as pipeline:
            is_model, before = pipeline.runner.backend.is_model, pipeline.ledger.head().position
            for one in files[start : start + _AT_ONCE]:
                pipeline.heard.clear()
                try:
                    taken = pipeline.take(Source(one.path, "ingest", limit=one.bytes))
                    pipeline.finish()
                    done.taken += taken.event_id is not None
                    done.records += taken.records
                    done.cited += len(taken.cited)
                except (OSError, ValueError) as error:
                    done.failed.append((one.path, error))
                advance(one)
            pipeline.ledger.append(
                [came for _, came in lacking(pipeline.ledger)] if not start else []
            )
            done.wishes += sum(
                1 for _ in pipeline.ledger.events(types=[ev.CHANGE_PROPOSED], after=before)
            )
            pipeline.write()
            done.is_empty = not pipeline.ledger.rows()
    if is_model:
        ask_model(project, retry="left", confirmed=len(files))
    return done


def news(project: Project, files: Sequence[Found]) -> Iterator[tuple[int, int]]:
    """Yield for each file with records that no window of the project has about how many bytes are
    new, and how many bullets they cite. Records nothing; a file that cannot be read is left out.
    Raises LedgerError.
    """
    with project.open_ledger() if project.has_ledger() else nullcontext() as ledger:
        for one in files:
            with suppress(OSError, ValueError):
                found = scan(one.path, one.bytes)
                seen = ledger.seen(found.keys) if ledger is not None else set()
                if new := len(found.keys) - len(seen):
                    cites = {
                        name for key, names in found.cited if key not in seen for name in names
                    }
                    yield one.bytes * new // len(found.keys), len(cites)


@dataclass(slots=True)
class Ran:
    """What a check did: `asked` windows, of which `answered` had an answer, and USD `spent` as far
    as prices are known; `failed` are those without one, by why.
    """

    asked: int = 0
    answered: int = 0
    spent: Decimal = Decimal(0)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def recorded(project: Project, ledger: Ledger) -> dict[tuple[str, int], str]:
    """Return the session of each transcript that was recorded to its end, by its path and its
    bytes; "" for a copy of others, which left no event.
    """
    found: dict[str, tuple[int, str]] = {}
    with suppress(OSError, ValueError):
        lines = (project.state_dir / _COPIES).read_text("utf-8").splitlines()
        found = {path: (int(size), "") for size, _, path in (line.partition(" ") for line in lines)}
    for window in ledger.events(types=[ev.SESSION_RECORDED]):
        with suppress(UnknownTranscript):
            of = transcript_of(window)
            found[of["path"]] = of["bytes"], window.session_id or ""
    return {(path, size): session for path, (size, session) in found.items()}


def sessions_of(
    root: Path,
    folders: Iterable[tuple[Path, str]],
    known: Mapping[tuple[str, int], str],
    since: float,
    each: Callable[[Iterable[Found]], Iterable[Found]] = iter,
) -> list[Found]:
    """Return the transcripts in the agents' folders, newest first.

    folders  with the pattern of the files in it; `known` as for `find_transcripts`
    since    a time before which a file was not written any more
    each     passes on what is found, and may say how much that is
    The files of subagents are left out: their sessions tell what they were for.
    """
    hashes = {project_hash(root): str(root)}
    found: list[tuple[float, Found]] = []
    there = ((folder, pattern) for folder, pattern in folders if folder.is_dir())
    for one in each(
        one for folder, pattern in there for one in find_transcripts(folder, pattern, known)
    ):
        with suppress(OSError):
            at = one.path.stat().st_mtime
            if (
                at >= since
                and not one.path.name.startswith("agent-")
                and one.path.parent.name != "subagents"
            ):
                found.append((at, replace(one, cwd=hashes.get(one.cwd, one.cwd))))
    return [one for _, one in sorted(found, key=lambda pair: (-pair[0], str(pair[1].path)))]


def unmentioned(texts: Iterable[str], files: Iterable[Path], root: Path) -> set[str]:
    """Return the texts of which no word, path or command stands in any of these files; each record
    names the project's folder, which says nothing. A file that cannot be read counts as empty.
    """
    own, left = str(root).lower().encode(), dict[str, set[bytes]]()
    for text in texts:
        left[text] = {form for word in _telling(text) for form in _forms(word)}
    for path in files:
        with suppress(OSError), path.open("rb") as file:
            before = b""
            while left and (chunk := file.read(_CHUNK)):
                read = (before + chunk.lower()).replace(own, b"")
                left = {
                    text: said
                    for text, said in left.items()
                    if not any(word in read for word in said)
                }
                before = read[-200:]
    return set(left)


def _telling(text: str) -> set[str]:
    """Return the words by which a text is recognised: the longer and rarer ones, if it has any."""
    of_spaces = {word.rstrip("./-") for word in re.findall(_WORD, text.lower())} - {""}
    of_none = {gram for gram in grams(text) if len(gram) > 1 and not re.match(_HIRAGANA, gram)}
    longer = {word for word in of_spaces if len(word) >= _LEAST_WORD} | of_none
    return longer - _COMMON - _common_grams() or longer or of_spaces | grams(text)


@cache
def _common_grams() -> frozenset[str]:
    """Return the grams by which no line is recognised."""
    return frozenset(gram for word in _COMMON_UNSPACED.split() for gram in grams(word))


def _forms(word: str) -> Iterator[bytes]:
    """Yield how a record may hold a word of lower case, if only its ASCII is in lower case: as
    it is, or escaped.
    """
    if word.isascii():
        yield word.encode()
        return
    for form in {word, word.capitalize(), word.upper()}:
        yield form.encode("utf-8", "replace").lower()
        yield json.dumps(form)[1:-1].encode().lower()


def questions(
    ledger: Ledger,
    files: Sequence[Found],
    names: Sequence[str],
    known: Mapping[tuple[str, int], str],
    judge: Callable[[str], str],
    *,
    again: bool = False,
) -> list[tuple[Found, int]]:
    """Return (transcript, how many questions about it are left) for those that are to be asked
    about; `judge` and `again` as for `todo`.
    """
    left = []
    for one in files:
        session = known.get((str(one.path), one.bytes))
        count = (
            1
            if session is None
            else sum(1 for _ in todo(ledger, session, names, judge, again=again))
        )
        if count:
            left.append((one, count))
    return left


def check(
    project: Project,
    judge: Backend,
    files: Sequence[Found],
    lines: Sequence[Line],
    *,
    learns: bool,
    most: int,
    advance: Callable[[Decimal], object],
    again: bool = False,
) -> Ran:
    """Record the lines, which are watched from then on, and the transcripts, in their order, and
    ask about each.

    At most so many questions; `advance` is called after each transcript, `again` is as for `todo`.
    Raises as `drain` does.
    """
    ran, away = Ran(), set[str]()
    with _pipeline(project) as pipeline:
        found = watching(pipeline.ledger, lines, first=project.first_number)
        watch(pipeline.ledger, found)
        known, names = recorded(project, pipeline.ledger), list(found.lines)
    for one in files:
        try:
            with _pipeline(project) as pipeline:
                session = known.get((str(one.path), one.bytes))
                if session is None:
                    taken = pipeline.take(Source(one.path, "ingest", limit=one.bytes))
                    session = taken.session_id
                    if taken.event_id is None:
                        with (project.state_dir / _COPIES).open("a", encoding="utf-8") as file:
                            file.write(f"{one.bytes} {one.path}\n")
                pipeline.finish()
        except (OSError, ValueError) as error:
            ran.failed.append(f"{one.path}: {error}")
            advance(ran.spent)
            continue
        with (
            locks.held(project.make_state_dir(), "model.lock", wait=True),
            project.open_ledger() as ledger,
        ):
            gate = Gate(project.config, project.root)
            gate.confirmed = most - ran.asked
            checker = Checker(ledger, judge, gate, learns=learns)
            left = list(todo(ledger, session, names, checker.judge, again=again))
            goes_on = _ask(checker, left, ran, away)
            if not left and any(
                row.state in ("pending", "failed") for row in ledger.windows(session)
            ):
                ran.notes.append(
                    f"session {session[:8]} waits for the verdicts on what it cites; "
                    "then it is checked"
                )
        ran.spent += checker.spent
        advance(ran.spent)
        if not goes_on or ran.asked >= most:
            break
    if learns:
        with _pipeline(project) as pipeline:
            ran.notes.append(learned_words(propose_learned(pipeline.ledger), ran.answered))
    return ran


@contextmanager
def _pipeline(project: Project, *, write: bool = False) -> Iterator[Pipeline]:
    with open_pipeline(project, write=write) as pipeline:
        assert pipeline is not None  # it waited
        yield pipeline


def _ask(checker: Checker, windows: Sequence[Todo], ran: Ran, away: set[str]) -> bool:
    """Ask about windows; return whether more can be asked."""
    for one in windows:
        judge = checker.backend
        who = (
            judge.who(str((one.window.data or {}).get("agent") or ""))
            if isinstance(judge, Asks)
            else ""
        )
        if who in away and one.answer is None:
            continue
        try:
            ran.asked += one.answer is None
            if why := checker.ask(one):
                ran.failed.append(f"session {(one.window.session_id or '')[:8]}: {why}")
            ran.answered += not why
        except BackendError as error:
            if error.stage == "budget":
                ran.asked -= 1
                ran.notes.append(str(error))
                return False
            away.add(who)
            ran.failed.append(str(error))
    return True
