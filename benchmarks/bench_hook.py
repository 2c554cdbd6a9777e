"""The time for which the agent's user waits: the hook as a process, against the bare start of its
interpreter.

The hook runs in the present interpreter. The installed form is the command that `reflector install`
writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Row, Side, paired_ratio, timed
from benchmarks.process import environ
from reflector.handover import PLACES, state_at
from reflector.hooks.install import SCRIPT
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import dump
from reflector.playbook.names import SECTIONS

BARE = [sys.executable, "-I", "-S", "-c", "pass"]
INSTALLED = [sys.executable, "-I", "-S", SCRIPT]
#: The file bin/reflector, as pip writes it.
WRAPPER = """\
import re
import sys
from reflector.__main__ import main
if __name__ == '__main__':
    sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])
    sys.exit(main())
"""
#: The work of a hook of the ACE tools for Claude Code before it asks a model, written here again.
#: It imports the SDK. At a session's start it reads and prints the playbook. At its end it reads
#: the transcript and writes the playbook in place.
_ACE_START = """\
import json, sys
import anthropic
json.load(sys.stdin)
sections = json.load(open(".claude/playbook.json"))["sections"]
for bullet in (bullet for section in sections.values() for bullet in section):
    counters = f"helpful={bullet['helpful']} harmful={bullet['harmful']}"
    print(f"[{bullet['name']}] {counters} :: {bullet['text']}")
"""
_ACE_END = """\
import json, sys
import anthropic
messages = [json.loads(line) for line in open(json.load(sys.stdin)["transcript_path"])]
playbook = json.load(open(".claude/playbook.json"))
json.dump(playbook, open(".claude/playbook-in-place.json", "w"), indent=2)
"""


def rows(quick: bool) -> list[Row]:
    """Measure injection and the spool record. Measure both by the console script, eight at once,
    and with the drain's start.
    """
    pairs = 30 if quick else 100
    with tempfile.TemporaryDirectory() as folder:
        return _Bench(Path(folder), pairs).rows()


class _Bench:
    def __init__(self, folder: Path, pairs: int) -> None:
        self.folder, self.pairs = folder, pairs
        self.project = folder / "project"
        (self.project / ".claude").mkdir(parents=True)
        slugs = list(SECTIONS)
        bullets = [
            Bullet(
                f"{slugs[n % 5]}-{n:03d}",
                slugs[n % 5],
                f"Prefer the plain way in case {n}, it held up",
                n % 9,
                n % 4,
            )
            for n in range(100)
        ]
        (self.project / ".claude/playbook.json").write_bytes(dump(bullets, None))
        transcript = folder / "transcript.jsonl"
        transcript.write_text('{"type":"user"}\n' * 1000)
        common = {
            "session_id": "00000000-0000-4000-8000-000000000000",
            "transcript_path": str(transcript),
        }
        self.start = self._payload(
            "start", common | {"hook_event_name": "SessionStart", "source": "startup"}
        )
        self.end = self._payload(
            "end", common | {"hook_event_name": "SessionEnd", "reason": "other"}
        )
        wrapper = folder / "reflector"
        wrapper.write_text(WRAPPER)
        self.script = [sys.executable, str(wrapper), "hook"]
        # A checkout on PYTHONPATH is found like an installed package, but -I ignores the variable.
        self.environ = environ(folder) | {"CLAUDE_PROJECT_DIR": str(self.project)}
        # rendered from here on
        assert self._output(INSTALLED, self.start).count(b"] helpful=") == 100
        assert self._output(self.script, self.start).count(b"] helpful=") == 100

    def rows(self) -> list[Row]:
        bare, venv = self._side(BARE), self._side([sys.executable, "-c", "pass"])
        drain = self.environ | {"REFLECTOR_NO_SPAWN": ""}
        return [
            self._row(
                ("installed hook, inject 100 bullets"), bare, self._side(INSTALLED, self.start), 1.6
            ),
            self._row(
                "installed hook, one durable spool record",
                bare,
                self._side(INSTALLED, self.end),
                1.9,
            ),
            self._row(
                "installed hook, spool record and start of the drain",
                bare,
                self._side(INSTALLED, self.end, environ=drain, after=_settle),
                1.9,
                "until the hook is back; the drain runs on by itself",
                pairs=30,
            ),
            self._row(
                "installed hook, 8 spool records at once",
                self._side(BARE, times=8),
                self._side(INSTALLED, self.end, times=8),
                1.9,
                "until the last of 8 is back",
            ),
            self._row(
                "`reflector hook`, inject 100 bullets",
                venv,
                self._side(self.script, self.start),
                2.0,
            ),
            self._row(
                "`reflector hook`, one durable spool record",
                venv,
                self._side(self.script, self.end),
                2.0,
            ),
            *self._beside_ace(),
            self._with_memory(),
            self._row(
                "installed hook, inject while a trial runs",
                bare,
                self._side(INSTALLED, self._with_trial()),
                1.6,
            ),
        ]

    def _with_memory(self) -> Row:
        """Measure a start that compares the states of 50 watched files, beside one that compares
        none.
        """
        (own,) = self.folder.glob(".local/share/reflector/ledgers/*/")
        files = [self.project / f".claude/rules/rule-{number}.md" for number in range(50)]
        files[0].parent.mkdir(exist_ok=True)
        for file in files:
            file.write_text("- Prefer the plain way.\n")
        states = "".join(f"{state_at(str(file))}\t{file}\n" for file in files)
        start = self._side(INSTALLED, self.start)

        def side(text: str) -> Side:
            def run() -> float:
                (own / PLACES).write_text(text)
                return start()

            return run

        return self._row(
            "installed hook, inject beside 50 watched files",
            side("off\n"),
            side(f"project\n{states}"),
            1.05,
        )

    def _with_trial(self) -> Path:
        """Write the files for the hook of a trial that withholds from no session. Return the
        payload of a start.
        """
        (own,) = self.folder.glob(".local/share/reflector/ledgers/*/")
        (own / "trial.txt").write_text(f"pl1:{'0' * 64} 1 {2**62} *\n")
        return self.start

    def _beside_ace(self) -> list[Row]:
        note = (
            "floor: the work of an ACE tool's hook: interpreter, `import anthropic`, {}; no "
            "model asked"
        )
        return [
            self._row(
                f"installed hook, {part}, beside an ACE tool's",
                self._side([sys.executable, "-c", theirs], payload, folder=self.project),
                self._side(INSTALLED, payload),
                1.0,
                note.format(what),
                pairs=10,
            )
            for part, theirs, payload, what in (
                ("session start", _ACE_START, self.start, "playbook read and printed"),
                ("session end", _ACE_END, self.end, "transcript read, playbook written in place"),
            )
        ]

    def _row(
        self,
        part: str,
        floor: Side,
        ours: Side,
        goal: float,
        note: str = "",
        pairs: int | None = None,
    ) -> Row:
        return Row(part, *paired_ratio(floor, ours, pairs or self.pairs), goal, note)

    def _payload(self, name: str, payload: dict[str, str]) -> Path:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(payload | {"cwd": str(self.project)}))
        return path

    def _output(self, command: list[str], payload: Path) -> bytes:
        with payload.open("rb") as stdin:
            done = subprocess.run(
                command, stdin=stdin, stdout=subprocess.PIPE, env=self.environ, check=True
            )
        return done.stdout

    def _side(
        self,
        command: list[str],
        payload: Path | None = None,
        *,
        times: int = 1,
        environ: dict[str, str] | None = None,
        folder: Path | None = None,
        after: Callable[[], None] | None = None,
    ) -> Side:
        def run() -> None:
            running = []
            for _ in range(times):
                with open(payload or os.devnull, "rb") as stdin:
                    running.append(
                        subprocess.Popen(
                            command,
                            stdin=stdin,
                            stdout=subprocess.PIPE,
                            env=environ or self.environ,
                            cwd=folder,
                        )
                    )
            for process in running:
                process.communicate()
                assert process.returncode == 0

        side = timed(run)
        if after is None:
            return side

        def then() -> float:
            took = side()
            after()
            return took

        return then


def _settle() -> None:
    """Let a started drain end, so that it does not run beside the next floor."""
    time.sleep(0.25)
