"""Whether the fast suite notices small defects: `make mutations`, or `python -m tests.mutations [WORD…]`.

Each mutation of the table below is made alone, in a copy of the checkout, and the fast tests that cover its module run
there until the first one fails. A WORD chooses the mutations that hold it in their file, old or new text. The command
lists what nobody noticed, and its exit code is 1 if there is anything. The tests' own processes of `reflector` run the
code that is installed, so a mutation has to be noticed by a test that calls the code in its own process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[1]
JOBS = 2
COPIED = ("reflector", "migrations", "prompts", "tests", "docs", "README.md", "Makefile", "pyproject.toml")

FOLD = ("tests/events/test_fold.py", "tests/ledger/test_counting.py", "tests/curation/test_counts.py")
APPEND = ("tests/ledger/test_append.py", "tests/ledger/test_admission.py", "tests/ledger/test_redaction.py")
TABLES = ("tests/ledger/test_counting.py", "tests/ledger/test_append.py", "tests/ledger/test_rebuilding.py")
MERGED = ("tests/curation/test_merges.py",)
SPOOL = ("tests/sessions/test_spool.py", "tests/hooks/test_deliveries.py")
INTAKE = ("tests/sessions/test_intake.py", "tests/road/test_drain.py")
PIPELINE = ("tests/road/test_drain.py", "tests/cli/test_trouble.py")
GATED = tuple(f"tests/gating/test_{name}.py" for name in ("step", "config", "entries", "log", "measure"))
VERIFY = ("tests/proof/test_verify.py", "tests/proof/test_tampering.py")


class Mutation(NamedTuple):
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


STATE, EFFECTS, BULLETS = (f"reflector/events/{name}.py" for name in ("state", "effects", "bullets"))
STORE, APPENDING, ADMISSION, PROJECTION, COUNTERS, AS_OF = (
    f"reflector/ledger/{name}.py" for name in ("store", "appending", "admission", "projection", "counters", "as_of")
)
SPOOLED, TAKEN, PIPED = (f"reflector/sessions/{name}.py" for name in ("spool", "intake", "deliveries"))
ROWS = "reflector/ledger/rows.py"
RECONCILED = "reflector/exchange/reconcile.py"
WALK, COMPARED, PROVEN = (f"reflector/proof/{name}.py" for name in ("event_check", "tables_check", "verify"))
GATE, SETTINGS, STEP, CUT, KEPT, LOGGED = (
    f"reflector/gating/{name}.py" for name in ("bundle", "config", "step", "budget", "entries", "log")
)

MUTATIONS = [
    # The fold.
    Mutation(STATE, "if tag[0] > entry.recounted_at]", "if tag[0] > entry.recounted_at + 1]", FOLD),
    Mutation(STATE, "tags[0][0] <= entry.recounted_at", "tags[0][0] < 0", FOLD),
    Mutation(STATE, "active = not active", "active = False", FOLD),
    Mutation(STATE, "(event_id, *completed[1:]) if on)", "(event_id, completed[1]) if on)", FOLD),
    Mutation(STATE, "position <= completed[0] + MAX_TAGS", "position <= completed[0] + 1", FOLD),
    Mutation(STATE, "            if name not in self.entries:\n", "            if True:\n", FOLD),
    Mutation(STATE, 'if entry.status == "live")', "if entry.name)", FOLD),
    Mutation(STATE, "counting or self.counting or self.adopted", "counting or self.adopted", FOLD),
    Mutation(STATE, 'data.get("disposition") != "counted" or not', "not", FOLD),
    Mutation(EFFECTS, "take_tag(judged[0], tag, event.recorded_at)", "take_tag(judged[0], tag, '')", FOLD),
    Mutation(BULLETS, '"recounted_at": event.position}', '"recounted_at": event.position + 1}', FOLD),
    Mutation(BULLETS, '"removed_into": data.get("into")', '"removed_into": None', FOLD),
    # The append: the store, what it admits, and the tables.
    Mutation(APPENDING, "later_than(writing.recorded_at)", "writing.recorded_at[:-1] + '0Z'", APPEND),
    Mutation(APPENDING, "if first[1] != item.data_hash:", "if False:", APPEND),
    Mutation(APPENDING, "known[event.event_id] = (position, item.data_hash)", "pass", APPEND),
    Mutation(APPENDING, "event.occurred_at or recorded_at", "recorded_at", APPEND),
    Mutation(APPENDING, "taken[name] = event.position", "pass", APPEND),
    Mutation(
        APPENDING, "writing.position, writing.chain, writing.recorded_at = position, chain, recorded_at", "pass", APPEND
    ),
    Mutation(STORE, "                rebuild(writing.sql)\n", "                pass\n", APPEND),
    Mutation(ADMISSION, "one.target.required and event.target_id is None", "False", APPEND),
    Mutation(ADMISSION, "isprintable() and 0 < len(value)", "isprintable() and 0 <= len(value)", APPEND),
    Mutation(ADMISSION, "event.reflection_id is None or event.event_id != wanted", "False", APPEND),
    Mutation(ADMISSION, "if foreign or one.checked:", "if foreign:", APPEND),
    Mutation(ADMISSION, "return one.misshapen(facts) if type_ != ev.BULLET_TAGGED else None", "return None", APPEND),
    Mutation(ROWS, "(fault := one.misshapen(data))", "(fault := None)", ("tests/proof/test_forged_answers.py",)),
    Mutation(PROJECTION, "start < event.position <= start + MAX_TAGS", "False", TABLES),
    Mutation(PROJECTION, " AND state <> 'completed'", "", TABLES),
    Mutation(COUNTERS, 'if self.counting() != "as_applied":', "if False:", TABLES),
    Mutation(PROJECTION, "active = 1 - active", "active = 0", TABLES),
    Mutation(PROJECTION, "position > recounted_at\n", "position >= 0\n", TABLES),
    Mutation(PROJECTION, "                self._uncount(name)\n", "                pass\n", TABLES),
    Mutation(PROJECTION, "        self._covers.clear()\n", "", TABLES),
    # Bullets merged by reference.
    Mutation(STATE, 'and self.entries[one].status == "live"]', "]", MERGED),
    Mutation(STATE, "if self.entries[name].recounted_at > after", "if True", MERGED),
    Mutation(STATE, "                if position > after:\n", "                if True:\n", MERGED),
    Mutation(
        COUNTERS, "            for one in (name, *families.heirs(name)):\n", "            for one in (name,):\n", MERGED
    ),
    Mutation(COUNTERS, "{one for name in names for one in (name, *families.heirs(name))}", "set(names)", MERGED),
    Mutation(PROJECTION, "*([old.heir] if old.heir else [])", "", MERGED),
    Mutation(AS_OF, "max(at, book.entries[name].recounted_at)", "at", MERGED),
    Mutation(RECONCILED, "for name in differing for one in (name, *heirs[name])", "for one in differing", MERGED),
    Mutation(RECONCILED, 'removed["follows"] = entry.heir is not None', "pass", MERGED),
    # The intake: the spool, what is taken in of a transcript, the pipeline.
    Mutation(SPOOLED, "if stop.received_at_ns < pulled.received_at_ns:", "if True:", SPOOL),
    Mutation(
        SPOOLED,
        "key=lambda delivery: delivery.received_at_ns)\n\n\ndef failed",
        "key=lambda _: 0)\n\n\ndef failed",
        SPOOL,
    ),
    Mutation(SPOOLED, "_failure(target).attempts + 1", "1", SPOOL),
    Mutation(SPOOLED, "claimed.received_at_ns == delivery.received_at_ns", "True", SPOOL),
    Mutation(SPOOLED, "[:-MOST_SILENT]", "[: -MOST_SILENT * 2]", SPOOL),
    Mutation(SPOOLED, "type(version) is int and version > 1", "False", SPOOL),
    Mutation(SPOOLED, 'if event == "SubagentStop" else "transcript_path"', "if False else 'transcript_path'", SPOOL),
    Mutation(TAKEN, 'if seen and window == "new"', 'if window == "new" and False', INTAKE),
    Mutation(TAKEN, "limit=None if ended else delivery.transcript_bytes", "limit=None", INTAKE),
    Mutation(TAKEN, "session_id, agent_id or", "session_id, ''  or", INTAKE),
    Mutation(TAKEN, "frozenset(keys))\n    earlier", "frozenset(found.keys))\n    earlier", INTAKE),
    Mutation(TAKEN, "[name for name in _cited_names(found, keys) if name in cited]", "[]", INTAKE),
    Mutation(TAKEN, "if name in rows and rows[name].counts]", "if name in rows]", INTAKE),
    Mutation(PIPED, "aside[spool.fail(delivery, error)] = said", "spool.settle(delivery)", PIPELINE),
    Mutation(
        "reflector/sessions/pipeline.py", "again = bool(spool.ready_for(project.root))", "again = False", PIPELINE
    ),
    Mutation(
        PIPED,
        "        taken = pipeline.take(source)\n",
        "        spool.settle(delivery)\n        taken = pipeline.take(source)\n",
        PIPELINE,
    ),
    Mutation(PIPED, "if delivery.transcript_bytes is not None:\n", "if False:\n", PIPELINE),
    Mutation(PIPED, "delivery.received_at_ns) <= oldest:", "delivery.received_at_ns) >= oldest:", PIPELINE),
    Mutation(PIPED, "not spool.has_stop(delivery) and not", "not", PIPELINE),
    # Verify.
    Mutation(WALK, "(_digest_of_tag(data) if is_tag else digest(data)) != of", "False", VERIFY),
    Mutation(WALK, ' or "" in (session_id, reflection_id, target_id)', "", VERIFY),
    Mutation(WALK, "if recorded_at < last:", "if False:", VERIFY),
    Mutation(WALK, "if position != end[0]:", "if position < end[0]:", VERIFY),
    Mutation(WALK, "(position and last != end[2])", "False", VERIFY),
    Mutation(WALK, "if anchor not in there:", "if anchor.position > position:", VERIFY),
    Mutation(WALK, "elif event_id not in erased:", "elif False:", VERIFY),
    Mutation(WALK, "and self.since != start:", "and self.since.position != start.position:", VERIFY),
    Mutation(COMPARED, '"tag", "session_id", "reflection_id"', '"tag", "session_id"', VERIFY),
    Mutation(COMPARED, '"reflection_id", "active")', '"reflection_id")', VERIFY),
    Mutation(COMPARED, 'yield position, f"{name} is missing in the table"', "pass", VERIFY),
    Mutation(COMPARED, '"state", "attempts", "changed_at"', '"state", "changed_at"', VERIFY),
    Mutation(COMPARED, 'yield position, f"{name} is in the table, and the events have none there"', "pass", VERIFY),
    Mutation(COMPARED, "if got == wanted:", "if got and wanted and got[:key] == wanted[:key]:", VERIFY),
    Mutation(COMPARED, "if tuple(row) == wanted:", "if True:", VERIFY),
    Mutation(PROJECTION, "position > recounted_at\n", "position > 0\n", TABLES),
    Mutation(PROJECTION, "                    and not self._covered([event_id])\n", "", TABLES),
    Mutation(PROVEN, '                if line != "ok":', "                if False:", VERIFY),
    # The gated step.
    Mutation(GATE, "if not config.allow_reflection or dry_run:", "if dry_run:", GATED),
    Mutation(GATE, "not config.allow_reflection or dry_run", "not config.allow_reflection", GATED),
    Mutation(GATE, 'or _asks(state, "_planner_reflection_flag")', "", GATED),
    Mutation(GATE, 'prompt.replace("\\r\\n", "\\n")', "prompt", GATED),
    Mutation(GATE, "redact(str(text)).split()", "str(text).split()", GATED),
    Mutation(SETTINGS, "if found[0] <= 2]", "if found[0] <= 1]", GATED),
    Mutation(SETTINGS, "if own or len(word) > 4]", "]", GATED),
    Mutation(SETTINGS, "isinstance(value, float) and value < least", "False", GATED),
    Mutation(STEP, "if ms > config.time_ms_reflection:", "if ms >= config.time_ms_reflection:", GATED),
    Mutation(STEP, "if report.reason and not result.reason:", "if False:", GATED),
    Mutation(STEP, "ops_written=report.written", "ops_written=len(result.memory_entries)", GATED),
    Mutation(CUT, "        free.release()\n        raise", "        raise", GATED),
    Mutation(KEPT, "entries[:ops_cap]", "entries", GATED),
    Mutation(KEPT, "        return False", "        raise", GATED),
    Mutation(KEPT, "redact(text).strip()", "text.strip()", GATED),
    Mutation(LOGGED, "in sorted(held or ())", "in held or ()", GATED),
    Mutation(LOGGED, '.lower() == "true"', "", GATED),
]


def main(words: list[str]) -> int:
    chosen = [m for m in MUTATIONS if not words or any(word in text for word in words for text in m[:3])]
    if wrong := misplaced(chosen):
        sys.exit("\n".join(wrong))
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(JOBS):
            copies.put(copied(Path(folder) / str(number)))
        clean = copies.get()
        for tests in dict.fromkeys(m.tests for m in chosen):
            if (code := run(clean, tests)) != 0:
                sys.exit(f"{' '.join(tests)} fail without any mutation (exit code {code}); mend them first")
        copies.put(clean)
        with ThreadPoolExecutor(JOBS) as pool:
            noticed = list(pool.map(lambda numbered: tried(*numbered, copies), enumerate(chosen, 1)))
    print(f"{sum(noticed)} of {len(chosen)} mutations were noticed")
    return 0 if all(noticed) else 1


def misplaced(mutations: Sequence[Mutation]) -> list[str]:
    """What is to be mended in the table: the old text of a mutation is in its file once."""
    found = [(m, (CHECKOUT / m.file).read_text("utf-8").count(m.old)) for m in mutations]
    return [
        f"{m.file} holds {m.old!r} {times} times; a mutation's old text is there once"
        for m, times in found
        if times != 1
    ]


def copied(folder: Path) -> Path:
    """A copy of what the tests need of the checkout."""
    folder.mkdir()
    for name in COPIED:
        path = CHECKOUT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / name)
    return folder


def tried(number: int, mutation: Mutation, copies: SimpleQueue[Path]) -> bool:
    """Whether a test fails on the mutation; says so."""
    copy = copies.get()
    path = copy / mutation.file
    whole = path.read_text("utf-8")
    changed = int(path.stat().st_mtime)
    begun = time.monotonic()
    try:
        path.write_text(whole.replace(mutation.old, mutation.new), "utf-8")
        # Compiled code is known by its source's second: each mutation has another, and the original its own again.
        os.utime(path, (changed + number, changed + number))
        code = run(copy, mutation.tests)
    finally:
        path.write_text(whole, "utf-8")
        os.utime(path, (changed, changed))
        copies.put(copy)
    if code not in (0, 1):
        sys.exit(f"the tests did not run with {mutation.new!r} in {mutation.file} (exit code {code})")
    said = "noticed " if code else "SURVIVED"
    print(f"{said} {time.monotonic() - begun:4.0f} s  {mutation.file}: {mutation.new.strip()!r}", flush=True)
    return code == 1


def run(copy: Path, tests: tuple[str, ...]) -> int:
    """The exit code of the fast tests in some modules, which stop at the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-m", "not slow and not client and not scale and not postgres", *tests]
    # As CI does, with the same examples each time.
    env = {**os.environ, "CI": "true", "PYTHONPATH": str(copy)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(command, cwd=copy, env=env, stdout=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
