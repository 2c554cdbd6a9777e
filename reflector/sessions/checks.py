"""A check: the sessions that agents still keep, recorded one by one, and each asked about some
lines of the files that agents read.

Invariant: a session is asked about if its agent did anything, about the lines that it started with,
and in a few sessions of each line about those that it started without. A check begins with the
newest session that started with a line. A session is recorded before it is asked about,
in a transaction of its own, and no lock is held while a judge is asked but the model's. A check
that is stopped goes on with the first window that lacks an answer; a transcript that has not grown
since is not opened. A check writes no file of the project. `reflector check` uses it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reflector.curator.listening import learned_words, propose_learned
from reflector.events import event as ev
from reflector.events.event import time_of
from reflector.judges.protocol import Asks, Backend, BackendError
from reflector.ledger.store import Ledger
from reflector.playbook_files.births import Births, Standing
from reflector.playbook_files.watching import Line, watch, watching
from reflector.reflection.checking import Checker, Todo, session_starts, todo
from reflector.reflection.gate import Gate
from reflector.reflection.window import transcript_of
from reflector.sessions import locks
from reflector.sessions.drain import waiting_pipeline
from reflector.sessions.history import FoundTranscript, find_transcripts, is_in_project
from reflector.sessions.intake import Source
from reflector.text.words import SPACED, grams
from reflector.transcripts.readers import Reader, stores
from reflector.transcripts.reading import UnknownTranscript, read_messages

if TYPE_CHECKING:
    from reflector.project import Project

#: The sessions of transcripts by path and size in bytes; "" for a copy of others.
Recorded = Mapping[tuple[str, int], str]

#: In how many sessions that started without a line the judge is asked about it.
_MOST_BEFORE = 10
#: The file in the state folder of transcripts in which nothing was new: no event names them.
_COPIES = "copies"
#: A word, a path or a command with what may follow it; of scripts without spaces none.
_WORD = rf"(?:{SPACED}|[./-])+"
_MIN_WORD_CHARACTERS = 4
_CHUNK_BYTES = 8 << 20
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
    ต้อง จะต้อง ห้าม อย่า ควร เสมอ ทุกครั้ง ทั้งหมด ก่อน หลัง และ หรือ
    ให้ การ ความ เป็น ไม่ ใช้ ของ ที่ ว่า จาก กับ
    ຕ້ອງ ຫ້າມ ຢ່າ ຄວນ ສະເໝີ ທຸກຄັ້ງ ກ່ອນ ຫຼັງ ແລະ ໃຫ້ ການ ຄວາມ ເປັນ ບໍ່ ໃຊ້ ຂອງ ທີ່ ຈາກ ກັບ
    ត្រូវ កុំ ហាម គួរ ជានិច្ច មុន ក្រោយ និង ការ ជា មិន ប្រើ របស់ ដែល ពី នៅ
"""


@dataclass(slots=True)
class Ran:
    """The work of a check: `asked` windows, of which `answered` had an answer, and USD `spent` as
    far as prices are known; `failed` are the reasons of those without one.
    """

    asked: int = 0
    answered: int = 0
    spent: Decimal = Decimal(0)
    failed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def recorded_files(project: Project, ledger: Ledger) -> Recorded:
    """Return the transcripts that were recorded to their end; a copy of others left no event."""
    sessions: dict[str, tuple[int, str]] = {}
    with suppress(OSError, ValueError):
        for line in (project.state_dir / _COPIES).read_text("utf-8").splitlines():
            size, _, path = line.partition(" ")
            sessions[path] = (int(size), "")
    for window in ledger.events(types=[ev.SESSION_RECORDED]):
        with suppress(UnknownTranscript):
            transcript = transcript_of(window)
            sessions[transcript["path"]] = transcript["bytes"], window.session_id or ""
    return {(path, size): session_id for path, (size, session_id) in sessions.items()}


def sessions_of(
    root: Path,
    folders: Iterable[tuple[Path, str]],
    known: Recorded,
    since: float,
    each: Callable[[Iterable[FoundTranscript]], Iterable[FoundTranscript]] = iter,
) -> list[FoundTranscript]:
    """Return a project's transcripts in the agents' folders, newest first.

    folders  with the pattern of the files in it; `known` as for `find_transcripts`
    since    a time: a file that was written before is left out
    each     passes on the transcripts, and may show how many they are

    The files of subagents are left out: their sessions show what they were for.
    """
    dated: list[tuple[float, str, FoundTranscript]] = []
    for file in each(_transcripts_in(folders, known)):
        is_subagents = file.path.name.startswith("agent-") or file.path.parent.name == "subagents"
        with suppress(OSError):
            written = file.path.stat().st_mtime
            if written >= since and not is_subagents and is_in_project(root, file):
                dated.append((-written, str(file.path), file))
    return [file for _, _, file in sorted(dated, key=lambda row: row[:2])]


def project_sessions(
    project: Project,
    known: Recorded,
    *,
    most: int,
    since: float,
    each: Callable[[Iterable[FoundTranscript]], Iterable[FoundTranscript]],
) -> list[FoundTranscript]:
    """Return the newest transcripts that agents keep of a project, as `sessions_of` finds them."""
    folders = [(store.kept.folder, store.kept.pattern) for store in stores()]
    of_project = dict.fromkeys(known, str(project.root))
    return sessions_of(project.root, folders, of_project, since, each)[:most]


def reader_of(file: FoundTranscript) -> Reader:
    """Return the reader of the agent in whose folder a transcript is."""
    return next(store.reader for store in stores() if file.path.is_relative_to(store.kept.folder))


def _transcripts_in(
    folders: Iterable[tuple[Path, str]], known: Recorded
) -> Iterator[FoundTranscript]:
    for folder, pattern in folders:
        if folder.is_dir():
            yield from find_transcripts(folder, pattern, known)


def unmentioned(texts: Iterable[str], files: Iterable[Path], root: Path) -> set[str]:
    """Return the texts of which no word, path or command is in any of these files; each record
    names the project's folder, which does not count. A file that cannot be read counts as empty.
    """
    own = str(root).lower().encode()
    forms = {text: set(chain.from_iterable(map(_forms, _rare_words(text)))) for text in texts}
    for path in files:
        with suppress(OSError), path.open("rb") as file:
            before = b""
            while forms and (chunk := file.read(_CHUNK_BYTES)):
                part = (before + chunk.lower()).replace(own, b"")
                for text in [*forms]:
                    if any(word in part for word in forms[text]):
                        del forms[text]
                before = part[-200:]
    return set(forms)


def _rare_words(text: str) -> set[str]:
    """Return the words by which a text is recognised: the longer and rarer ones, if it has any."""
    words = {word.rstrip("./-") for word in re.findall(_WORD, text.lower())} - {""}
    parts = grams(text)
    longer = {word for word in words if len(word) >= _MIN_WORD_CHARACTERS}
    longer |= {part for part in parts if len(part) > 1 and not re.match(_HIRAGANA, part)}
    return longer - _COMMON - _common_grams() or longer or words | parts


@cache
def _common_grams() -> frozenset[str]:
    """Return the grams by which no line is recognised."""
    return frozenset(chain.from_iterable(map(grams, _COMMON_UNSPACED.split())))


def _forms(word: str) -> Iterator[bytes]:
    """Yield the forms that a word of lower case may have in a record of which only the ASCII is in
    lower case: as it is, or escaped.
    """
    if word.isascii():
        yield word.encode()
        return
    for form in {word, word.capitalize(), word.upper()}:
        yield form.encode("utf-8", "replace").lower()
        yield json.dumps(form)[1:-1].encode().lower()


class Asked(NamedTuple):
    """A transcript with the names of the lines that its judge is asked about."""

    file: FoundTranscript
    names: Sequence[str]


def asked_sessions(
    ledger: Ledger,
    files: Iterable[FoundTranscript],
    known: Recorded,
    lines: Mapping[str, Line],
    births: Births,
) -> list[Asked]:
    """Return the transcripts that are asked about: those with lines that they started with, then
    the others, each in their order.

    lines  by the names of their bullets
    """
    starts = session_starts(ledger)
    answers = ledger.events(types=[ev.REFLECTION_ANSWERED])
    answered = {answer.session_id for answer in answers}
    left = Counter(dict.fromkeys(lines, _MOST_BEFORE))
    current: list[Asked] = []
    earlier: list[Asked] = []
    for file in files:
        session_id = known.get((str(file.path), file.bytes), "")
        if session_id not in answered and not _has_step(file):
            continue
        started = starts.get(session_id) or time_of(file.started_at)
        standings = {name: births.standing(line, started) for name, line in lines.items()}
        since = [name for name in lines if standings[name] is Standing.SINCE]
        before = [name for name in lines if standings[name] is Standing.BEFORE and left[name] > 0]
        left.subtract(before)
        if since or before:
            (current if since else earlier).append(Asked(file, [*since, *before]))
    return current + earlier


def _has_step(file: FoundTranscript) -> bool:
    """Return whether the agent did anything in a session; True if that cannot be read."""
    with suppress(OSError, UnknownTranscript):
        return any(message.origin == "model" for message in read_messages(file.path))
    return True


def questions(
    ledger: Ledger,
    sessions: Sequence[Asked],
    known: Recorded,
    judge: Callable[[str], str],
    *,
    again: bool = False,
) -> list[tuple[FoundTranscript, int]]:
    """Return the transcripts that are to be asked about, each with the number of questions that
    are left; `judge` and `again` as for `todo`.
    """
    asked = []
    for file, names in sessions:
        session_id = known.get((str(file.path), file.bytes))
        count = 1
        if session_id is not None:
            count = len(list(todo(ledger, session_id, names, judge, again=again)))
        if count:
            asked.append((file, count))
    return asked


def check_sessions(
    project: Project,
    judge: Backend,
    files: Sequence[FoundTranscript],
    lines: Sequence[Line],
    births: Births,
    *,
    learns: bool,
    most: int,
    advance: Callable[[Decimal], object],
    again: bool = False,
) -> Ran:
    """Record the lines, which are watched from then on, and the transcripts of `asked_sessions`,
    and ask at most `most` questions about them.

    `advance` is called after each transcript, `again` is as for `todo`. Raises as `drain_project`
    does.
    """
    ran = Ran()
    away = set[str]()
    with waiting_pipeline(project, write=False) as pipeline:
        watched = watching(pipeline.ledger, lines, first=project.first_number)
        watch(pipeline.ledger, watched)
        known = recorded_files(project, pipeline.ledger)
        sessions = asked_sessions(pipeline.ledger, files, known, watched.lines, births)
    for file, names in sessions:
        try:
            session_id = _recorded_session(project, file, known)
        except (OSError, ValueError) as error:
            ran.failed.append(f"{file.path}: {error}")
            advance(ran.spent)
            continue
        with (
            locks.held(project.make_state_dir(), "model.lock", wait=True),
            project.open_ledger() as ledger,
        ):
            gate = Gate(project.config, project.root)
            gate.confirmed = most - ran.asked
            checker = Checker(ledger, judge, gate, learns=learns)
            windows = list(todo(ledger, session_id, names, checker.judge, again=again))
            goes_on = _ask(checker, windows, ran, away)
            if not windows and _waits(ledger, session_id):
                ran.notes.append(
                    f"session {session_id[:8]} waits for the verdicts on what it cites; "
                    "then it is checked"
                )
        ran.spent += checker.spent
        advance(ran.spent)
        if not goes_on or ran.asked >= most:
            break
    if learns:
        with waiting_pipeline(project, write=False) as pipeline:
            ran.notes.append(learned_words(propose_learned(pipeline.ledger), ran.answered))
    return ran


def _recorded_session(project: Project, file: FoundTranscript, known: Recorded) -> str:
    """Record a transcript that is new or has grown, and return its session."""
    with waiting_pipeline(project, write=False) as pipeline:
        session_id = known.get((str(file.path), file.bytes))
        if session_id is None:
            taken = pipeline.take(Source(file.path, "ingest", limit=file.bytes))
            session_id = taken.session_id
            if taken.event_id is None:
                with (project.state_dir / _COPIES).open("a", encoding="utf-8") as copies:
                    copies.write(f"{file.bytes} {file.path}\n")
        pipeline.finish()
    return session_id


def _waits(ledger: Ledger, session_id: str) -> bool:
    return any(window.state in ("pending", "failed") for window in ledger.windows(session_id))


def _ask(checker: Checker, windows: Sequence[Todo], ran: Ran, away: set[str]) -> bool:
    """Ask about windows; return whether more can be asked."""
    judge = checker.backend
    for question in windows:
        window = question.window
        is_new = question.answer is None
        agent = str(window.facts.get("agent") or "")
        asked = judge.who(agent) if isinstance(judge, Asks) else ""
        if asked in away and is_new:
            continue
        try:
            ran.asked += is_new
            reason = checker.ask(question)
        except BackendError as error:
            if error.stage == "budget":
                ran.asked -= 1
                ran.notes.append(str(error))
                return False
            away.add(asked)
            ran.failed.append(str(error))
            continue
        if reason:
            ran.failed.append(f"session {(window.session_id or '')[:8]}: {reason}")
        ran.answered += not reason
    return True
