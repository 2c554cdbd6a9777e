"""SIGKILL at random moments while several processes record sessions, and at each step of one
drain.
"""

import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest

from reflector.cli.app import run
from reflector.files import open_state
from reflector.handover import keep, record
from reflector.ledger.store import Ledger
from reflector.sessions import spool
from tests.kills import die_before
from tests.road.agent import Agent
from tests.road.sessions import Session

_CONTEXT = multiprocessing.get_context("forkserver")
# Without preloading, nearly every kill would hit an import or the compilation of an expression.
_CONTEXT.set_forkserver_preload(["tests.road.test_kills", "tests.road.loaded"])

WORKERS = 3


@pytest.mark.parametrize(
    ("kills", "sessions"),
    [
        pytest.param(3, 20, id="3 kills", marks=pytest.mark.slow),
        pytest.param(200, 900, id="200 kills", marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
    ],
)
def test_no_kill_loses_what_was_acknowledged(
    agent: Agent, tmp_path: Path, kills: int, sessions: int
) -> None:
    transcripts, told = tmp_path / "transcripts", tmp_path / "told"
    for n in range(sessions):
        Session(f"s-{n}").cites("pat-001").write(transcripts / f"s-{n}.jsonl")
    campaign(agent, transcripts, told, kills)
    acknowledged = [json.loads(line) for line in told.read_bytes().splitlines()]

    agent.run("drain")

    assert not agent.deliveries()
    chains = [event["chain"] for event in agent.events()]
    recorded = {event["session_id"] for event in agent.events("session.recorded")}
    assert {
        a[how] for a in acknowledged for how in ("ingested", "delivered") if how in a
    } <= recorded
    for position, _, chain in (a["head"].partition(":") for a in acknowledged if "head" in a):
        assert chains[int(position) - 1] == chain
    assert not agent.json("status")["failures"]
    agent.run("verify")
    assert agent.counters()["pat-001"] == (len(recorded), 0)

    agent.call("ingest", *transcripts.iterdir())
    assert agent.counters() == {"pat-001": (sessions, 0), "pat-002": (3, 1), "mis-001": (0, 0)}
    assert (
        len(agent.events("session.recorded"))
        == len(agent.events("reflection.completed"))
        == sessions
    )
    assert {path.name for path in agent.claude.iterdir()} == {"playbook.json", "reflector"}


def campaign(agent: Agent, transcripts: Path, told: Path, kills: int) -> None:
    """Keep `WORKERS` processes at work, and kill one of them at random moments. The playbook must
    be complete each time.
    """
    chance = random.Random(kills)

    def start() -> multiprocessing.process.BaseProcess:
        arguments = (agent.project, transcripts, told, agent.env(), chance.randrange(1 << 30))
        process = _CONTEXT.Process(target=work, args=arguments)
        process.start()
        return process

    workers = [start() for _ in range(WORKERS)]
    agent.wait_until(lambda: told.is_file() and told.stat().st_size > 0)
    for _ in range(kills):
        index = chance.randrange(WORKERS)
        workers[index].join(chance.uniform(0.01, 0.2))
        assert all(worker.exitcode is None for worker in workers), "a worker ended by itself"
        workers[index].kill()
        workers[index].join()
        assert "pat-001" in agent.counters()
        workers[index] = start()
    for worker in workers:
        worker.kill()
        worker.join()


EXPECTED = {"pat-001": (1, 0), "pat-002": (3, 2), "mis-001": (1, 0), "pat-003": (0, 0)}


def prepared(folder: Path) -> Agent:
    """Return a project with everything that a drain may find: a compaction, a fork that continues,
    a delivery that fails, an edit.
    """
    agent = Agent.in_folder(folder)
    agent.call("drain")
    session = Session("s-1").cites("pat-001").cites("pat-002", "harmful")
    agent.hands("PreCompact", session.write(folder / "1.jsonl"))
    agent.hands("SessionEnd", session.fork("s-2").cites("mis-001").write(folder / "2.jsonl"))
    (folder / "3.jsonl").write_bytes(b"\x00 no transcript \x00\n")
    agent.hands("SessionEnd", folder / "3.jsonl")
    agent.playbook.write_text(
        agent.playbook.read_text().replace(
            '"PATTERNS & APPROACHES": [',
            (
                '"PATTERNS & APPROACHES": [{"name": "pat-003", "text": "By hand.", "helpful": 0, '
                '"harmful": 0},'
            ),
        )
    )
    return agent


@pytest.mark.parametrize(
    "stride",
    [
        pytest.param(151, id="some steps", marks=pytest.mark.slow),
        pytest.param(4, id="every fourth step", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_drain_after_a_kill_counts_each_citation_once(tmp_path: Path, stride: int) -> None:
    (tmp_path / "made").mkdir()
    prepared(tmp_path / "made")
    for step in count(1, stride):
        project = tmp_path / f"{step}" / "project"
        shutil.copytree(tmp_path / "made", project.parent)
        agent = Agent(project, project.parent / "home")
        process = _CONTEXT.Process(target=drain_until, args=(project, agent.env(), step))
        process.start()
        process.join(60)
        assert process.exitcode in (0, -signal.SIGKILL)
        assert set(agent.counters()) == set(EXPECTED), f"killed at step {step}"
        if process.exitcode == 0:
            break
        agent.call("drain", code=None)
        assert_finished(agent, f"after a kill at step {step}")
        shutil.rmtree(project.parent)
    assert_finished(agent, "without a kill")
    assert step > 2 * stride


def assert_finished(agent: Agent, when: str) -> None:
    assert agent.counters() == EXPECTED, when
    assert [name.partition("/")[0] for name in agent.deliveries()] == ["failed"], when
    assert len(agent.events("session.recorded")) == 2, when
    assert agent.call("verify").out == "", when
    assert agent.call("rebuild", "--check").out == "", when
    with patch.object(spool, "LEFT_BEHIND_SECONDS", -1):
        spool.sweep_spool(agent.spool)
    assert list(agent.claude.rglob("*.tmp")) == [], when


def work(project: Path, transcripts: Path, told: Path, environ: dict[str, str], seed: int) -> None:
    """Ingest, deliver and drain at random. Append each acknowledgement to `told`, one JSON object a
    line.
    """
    os.environ.clear()
    os.environ.update(environ)
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(quiet, fd)
    chance = random.Random(seed)
    paths = sorted(transcripts.iterdir())
    with told.open("ab", buffering=0) as log:
        while True:
            path = chance.choice(paths)
            if chance.random() < 0.3:
                payload = {
                    "hook_event_name": "SessionEnd",
                    "session_id": path.stem,
                    "transcript_path": str(path),
                }
                keep(
                    open_state(str(project)),
                    payload,
                    record(str(project), payload, json.dumps(payload)),
                )
                log.write(_line(delivered=path.stem))
                # Exits at once if another drain is at work, as drains that hooks start do.
                run(["--project", str(project), "drain"])
            elif run(["--project", str(project), "ingest", str(path)]) == 0:
                log.write(_line(ingested=path.stem, head=_head(project)))


def drain_until(project: Path, environ: dict[str, str], step: int) -> None:
    """Drain in a process that is killed right before the `step`th call that could leave a trace,
    counted from 1.
    """
    os.environ.clear()
    os.environ.update(environ)
    die_before(step)
    run(["--project", str(project), "drain"])
    sys.setprofile(None)


def _head(project: Path) -> str:
    with Ledger.open_file(project / ".claude/reflector/ledger.db") as ledger:
        head = ledger.head()
    return f"{head.position}:{head.chain}"


def _line(**values: str) -> bytes:
    return json.dumps(values).encode() + b"\n"
