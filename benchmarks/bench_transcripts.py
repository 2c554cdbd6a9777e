"""From a transcript's bytes to its record in the ledger, on sessions of up to half a gigabyte.

Every floor reads the same file at the same time, as a whole process if ours is one: `sha256sum`,
`grep -c`, and `json.loads` of every line.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from io import BufferedReader, FileIO
from pathlib import Path
from unittest.mock import patch

from benchmarks import process
from benchmarks.harness import Row, Side, paired_ratio, timed
from benchmarks.made_transcript import write_transcript
from benchmarks.process import environ
from reflector.files import open_state
from reflector.handover import keep, record
from reflector.locate import own_folder
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import dump
from reflector.sessions import spool
from reflector.transcripts.reading import read_messages, scan

_MB = 1024 * 1024
#: Runs the command line, and then prints its peak memory in kilobytes, because the system forgets
#: it with the process.
_PEAK = """\
import os, resource, sys
from reflector.cli import main
code = main()
try:
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
except OSError:
    unit = 1024 if sys.platform == "darwin" else 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
print("peak", peak)
sys.exit(code)
"""
#: The goal for 1 MB more, compared with 1 MB in all.
_MORE = 1.5
_BARE = [sys.executable, "-I", "-S", "-c", "pass"]
_CITES = r"\[(pat|mis|pref|ctx|oth)-[0-9]+\]"
#: The modules that every command has to load.
_LOADED = [sys.executable, "-c", "import click, pysqlite3"]
_PARSE = (
    "import json, sys\nfor path in sys.argv[1:]:\n    for line in open(path, 'rb', 1 << 20):\n    "
    "    json.loads(line)"
)


def rows(quick: bool, *, big: bool = False) -> list[Row]:
    """Measure windows, session ends and history: half a gigabyte if not quick, and a gigabyte of
    history if big.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = folder / "50.jsonl"
        write_transcript(session, 50 * _MB)
        found = _reading(session, 3 if quick else 11)
        ends = _Ends(folder)
        found += ends.rows([20] if quick else [20, 500], 3 if quick else 11)
        found += ends.first_citation(5 if quick else 15)
        session.unlink()
        found += ends.history(20, 50, 1) if big else ends.history(4, 20, 3)
    return found


def _reading(session: Path, pairs: int) -> list[Row]:
    window = paired_ratio(
        timed(lambda: _parse_all(session)),
        timed(lambda: sum(1 for _ in read_messages(session))),
        pairs,
    )
    seen = frozenset(scan(session).keys[:-200])
    tail = paired_ratio(
        timed(lambda: _parse_all(session)),
        timed(lambda: sum(message.key not in seen for message in read_messages(session))),
        pairs,
    )
    scanned = paired_ratio(timed(lambda: _parse_all(session)), timed(lambda: scan(session)), pairs)
    return [
        Row("a window with all signals, 50 MB", *window, None, "floor: `json.loads` of every line"),
        Row("a window of 200 records at the end of 50 MB", *tail, None, "same floor"),
        Row("scan of 50 MB: keys, citations, SHA-256", *scanned, None, "same floor"),
    ]


def _parse_all(session: Path) -> None:
    with BufferedReader(FileIO(session), _MB) as file:
        for line in file:
            json.loads(line)


class _Ends:
    """The drain that a hook starts for one SessionEnd, in a project with a playbook and a
    ledger.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.environ = environ(folder)
        self.command = [sys.executable, "-m", "reflector", "--project"]
        #: A made session cites nothing of the first playbook. All of its citations are in the
        #: second one.
        self.uncited, self.cited = self._template("uncited", 100), self._template("cited", 0)

    def _template(self, name: str, first: int) -> Path:
        """Return a project whose playbook was adopted, because the benchmark measures a session's
        end and not the very first one.
        """
        project = self.folder / name
        (project / ".claude").mkdir(parents=True)
        names = [f"pat-{first + n:03d}" for n in range(100)]
        bullets = [
            Bullet(bullet, "pat", (f"Prefer the plain way in case {bullet}"), 3, 1)
            for bullet in names
        ]
        (project / ".claude/playbook.json").write_bytes(dump(bullets, None))
        self._run([*self.command, str(project), "drain"])
        return project

    def rows(self, sizes: list[int], pairs: int) -> list[Row]:
        """Measure complete drains: of a new transcript, and of a transcript with 1 MB more."""
        small = self.folder / "end-1.jsonl"
        write_transcript(small, _MB)
        loaded = paired_ratio(_process(_LOADED), lambda: self._end(small), pairs)
        found = [
            Row(
                "session end, 1 MB in all",
                *loaded,
                None,
                ('floor: `python -c "import click, pysqlite3"`'),
            )
        ]
        peaks: dict[int, int] = {1: self._peak(small)}
        for size in sizes:
            session = self.folder / f"end-{size}.jsonl"
            write_transcript(session, size * _MB, session=size)
            n = pairs if size < 500 else max(3, pairs // 3)
            floor = _sum(
                _process(["sha256sum", str(session)]),
                _process(["grep", "-cE", _CITES, str(session)]),
            )
            first = paired_ratio(floor, partial(self._end, session), n)
            note = "floor: `sha256sum` + `grep -c` of it"
            found.append(Row(f"first reading of a transcript, {size} MB", *first, None, note))
            for template, told in (
                (self.uncited, ""),
                (self.cited, (", every citation judged by `rules`")),
            ):
                more = self._more(session, small, template, n)
                note = "floor: the drain of 1 MB in all"
                found.append(Row(f"session end, {size} MB with 1 MB new{told}", *more, _MORE, note))
            peaks[size] = self._peak(session)
            session.unlink()
        found += self._beside_memory(small, pairs)
        large = max(peaks)
        part = f"its peak memory, {large} MB beside 1 MB"
        found.append(
            Row(part, peaks[1] / 1024, peaks[large] / 1024, peaks[large] / peaks[1], None, "", "MB")
        )
        return found

    def _beside_memory(self, small: Path, pairs: int) -> list[Row]:
        """Measure the CPU of the drain of 1 MB beside 50 unchanged watched files, and beside 50
        files of which one changed. The floor is the same with `memory = off`.
        """
        rules = self.uncited / ".claude/rules"
        rules.mkdir()
        for number in range(50):
            (rules / f"rule-{number}.md").write_text("- Prefer the plain way.\n")

        def end(memory: str, change: str = "") -> float:
            self.environ["REFLECTOR_MEMORY"] = memory
            self._begin(self.uncited)
            time.sleep(2.1)  # a file that was written later is read again
            self._run([*self.command, str(self.project), "drain"])
            with (self.project / ".claude/rules/rule-7.md").open("a") as file:
                file.write(change)
            self._keep_end(small)
            command = [*self.command, str(self.project), "drain", "--background"]
            took = process.run(command, self.environ).seconds
            del self.environ["REFLECTOR_MEMORY"]
            return took

        part = "session end, CPU of the drain, 1 MB beside 50 watched files"
        note = "floor: the same with `memory = off`"
        unchanged = paired_ratio(partial(end, "off"), partial(end, "on"), pairs)
        line = "- Prefer the short way.\n"
        changed = paired_ratio(partial(end, "off", line), partial(end, "on", line), pairs)
        shutil.rmtree(rules)
        return [
            Row(part, *unchanged, 1.05, note),
            Row(f"{part}, one of them changed", *changed, 1.05, note),
        ]

    def _more(
        self, session: Path, small: Path, template: Path, pairs: int
    ) -> tuple[float, float, float]:
        """Measure a drain after 1 MB was appended to a drained transcript, beside one of 1 MB in
        all.
        """
        size, known, fresh = (
            session.stat().st_size,
            self.folder / "known",
            self.folder / "fresh.jsonl",
        )
        write_transcript(fresh, _MB, session=9999)
        self._end(session, template)
        self._remove(known)
        shutil.copytree(self.project, known)
        # The copy's ledger is noted while its original is, or it would be a stranger's.
        self._run([*self.command, str(known), "drain"])

        def more() -> float:
            with session.open("ab") as file:
                file.write(fresh.read_bytes())
            took = self._end(session, known)
            os.truncate(session, size)
            return took

        return paired_ratio(lambda: self._end(small, template), more, pairs)

    def first_citation(self, pairs: int) -> list[Row]:
        """Measure the drain of a short session whose only citation is not judged, and judged."""
        session = self.folder / "short.jsonl"
        write_transcript(session, _MB // 2, session=2)
        bare, note = _process(_BARE), "a drain as a process; floor: bare python"
        without = paired_ratio(bare, lambda: self._end(session), pairs)
        judged = paired_ratio(bare, lambda: self._end(session, self.cited), pairs)
        return [
            Row("session end, 0.5 MB, nothing judged", *without, None, note),
            Row("the same with its first citation judged", *judged, None, note),
        ]

    def history(self, sessions: int, megabytes: int, pairs: int) -> list[Row]:
        """Measure `reflector history` of many sessions, once with no cited bullets and once with
        all.
        """
        files = [
            self.folder / ".claude" / "projects" / "x" / f"{number}.jsonl"
            for number in range(sessions)
        ]
        files[0].parent.mkdir(parents=True)
        for number, path in enumerate(files):
            write_transcript(path, megabytes * _MB, session=1000 + number, cwd=str(self.project))
        command = [sys.executable, "-c", _PEAK, "--project", str(self.project), "history"]
        shown = b""

        def imported(template: Path) -> float:
            nonlocal shown
            self._begin(template)
            begun = time.perf_counter()
            shown = self._run(command)
            return time.perf_counter() - begun

        size = f"{sessions * megabytes / 1000:g} GB"
        floor = timed(lambda: _parse_in_two_processes(files))
        found: list[Row] = []
        for template, part, told in (
            (self.uncited, f"{size} of history without citations", "read"),
            (
                self.cited,
                f"{size} of history with citations",
                "read, a citation in each 300 kB judged",
            ),
        ):
            took = paired_ratio(floor, partial(imported, template), pairs)
            peak = int(shown.rsplit(b"peak ", 1)[1]) / 1024
            note = (
                f"`history` with `rules`: {sessions} sessions {told}; peak memory of the "
                "process that writes "
                f"{peak:.0f} MB; floor: `json.loads` of their lines in two processes"
            )
            found.append(Row(part, *took, None, note))
        shutil.rmtree(self.folder / ".claude")
        return found

    def _end(self, session: Path, template: Path | None = None) -> float:
        self._deliver(session, template or self.uncited)
        took = timed(
            lambda: self._run([*self.command, str(self.project), "drain", "--background"])
        )()
        assert not spool.pending_for(self.project)
        return took

    def _peak(self, session: Path) -> int:
        """Return the peak memory in kilobytes."""
        self._deliver(session, self.uncited)
        shown = self._run([sys.executable, "-c", _PEAK, "--project", str(self.project), "drain"])
        return int(shown.rsplit(b"peak ", 1)[1])

    def _begin(self, template: Path) -> None:
        """Put a copy of a project in its place."""
        self._remove(self.project)
        shutil.copytree(template, self.project)

    def _remove(self, project: Path) -> None:
        """Remove a project, and the entries about it from the user's own folder."""
        with patch.dict(os.environ, self.environ):
            own = own_folder(str(project))
        for gone in (project, own):
            shutil.rmtree(gone, ignore_errors=True)

    def _deliver(self, session: Path, template: Path) -> None:
        self._begin(template)
        self._keep_end(session)

    def _keep_end(self, session: Path) -> None:
        payload: dict[str, object] = {
            "session_id": "00000000-0000-4000-8000-000000000000",
            "transcript_path": str(session),
            "cwd": str(self.project),
            "hook_event_name": "SessionEnd",
            "reason": "other",
        }
        project = str(self.project)
        with patch.dict(os.environ, self.environ):  # the key of the seal is in the home folder
            keep(open_state(project), payload, record(project, payload, json.dumps(payload)))

    def _run(self, command: list[str]) -> bytes:
        return subprocess.run(command, env=self.environ, stdout=subprocess.PIPE, check=True).stdout


def _parse_in_two_processes(files: list[Path]) -> None:
    halves = [
        subprocess.Popen([sys.executable, "-I", "-S", "-c", _PARSE, *files[start::2]])
        for start in (0, 1)
    ]
    for half in halves:
        assert half.wait() == 0


def _process(command: list[str]) -> Side:
    # Through a pipe, because grep ends at its first match if it writes into /dev/null.
    return timed(lambda: subprocess.run(command, stdout=subprocess.PIPE, check=True))


def _sum(*sides: Side) -> Side:
    return lambda: sum(side() for side in sides)
