"""Whatever triggers come in whatever order, each record is in one window and each verdict counts once."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from reflector.events.event import Event
from reflector.events.fields import unpack_keys
from reflector.ledger.store import Ledger
from tests.conftest import examples
from tests.road.agent import Agent
from tests.road.clients import ByProcesses, InProcess
from tests.road.oracle import Delivered, Oracle
from tests.road.sessions import Session
from tests.road.written import Lineage, Transcript

#: Each is cited once by a session and its copies, so that it is known exactly what counts.
ONCE = [f"pat-{number:03}" for number in range(1, 9)]
#: Cited again and again: a window makes one tag of it, so there are only bounds.
AGAIN = "mis-001"
#: A window without citations is not worth asking about.
JUDGED = ("reflection.completed", "reflection.skipped")
MOST_SESSIONS = 5
LONG = 2 * 3_600_000_000_000
REASONS = ("clear", "resume", "logout", "prompt_input_exit", "other")
SOURCES = ("startup", "resume", "clear", "compact")

Action = tuple[Any, ...]

which = st.integers(0, 9)
#: Nothing is written, so many records and perhaps half of the next, or everything.
lag = st.sampled_from([None, None, None, 0, 1, 2, -1])
verdict = st.sampled_from(["helpful", "harmful"])
twice = st.sampled_from([False, False, False, True])

words = st.one_of(
    st.tuples(st.just("cite"), which, which, lag),
    st.tuples(st.just("judge"), which, verdict, lag),
    st.tuples(st.just("advise"), which, which, verdict, lag),
    st.tuples(st.just("advise again"), which, verdict, lag),
    st.tuples(st.just("ask"), which, lag),
    st.tuples(st.just("flush"), which, lag),
    st.tuples(st.just("subagent"), which, which, lag),
)
triggers = st.one_of(
    st.tuples(st.just("PreCompact"), which, st.sampled_from(["auto", "manual"]), twice),
    st.tuples(st.just("Stop"), which, twice),
    st.tuples(st.just("SubagentStop"), which, which, twice),
    st.tuples(st.just("SessionEnd"), which, st.sampled_from(REASONS), twice),
    st.tuples(st.just("SessionStart"), which, st.sampled_from(SOURCES), twice),
    st.tuples(st.just("idle"), which),
    st.tuples(st.just("again"), which),
)
others = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(["project", "project", "worktree", "gone"])),
    st.tuples(st.just("clear"), which),
    st.tuples(st.just("fork"), which),
    st.tuples(st.just("drain")),
    st.tuples(st.just("drain")),
    st.tuples(st.just("kill"), st.integers(1, 120)),
    st.tuples(st.just("ingest"), which),
    st.tuples(st.just("import history")),
)
sequences = st.tuples(
    st.lists(st.one_of(words, words, triggers, triggers, others), min_size=8, max_size=30),
    st.sets(which, max_size=10),
)


class World:
    """Sessions of one project, what the client does with them, and what must come of it."""

    def __init__(self, folder: Path, client: InProcess | ByProcesses) -> None:
        self.folder = folder
        self.client = client
        self.agent = client.agent
        self.oracle = Oracle()
        self.sessions: list[Transcript] = []
        self.subagents: list[Transcript] = []
        self.hooks: list[dict[str, Any]] = []
        self.received = 0
        self.start("project")

    @property
    def transcripts(self) -> list[Transcript]:
        return [*self.sessions, *self.subagents]

    def do(self, action: Action) -> None:
        name, *about = action
        if name == "start":
            self.start(*about)
        elif name == "drain":
            self.client.drain()
            self.oracle.drain()
        elif name == "kill":
            self.kill(*about)
        elif name == "ingest":
            self.ingest([_pick(self.transcripts, *about)])
        elif name == "import history":
            self.import_history()
        elif name == "flush":
            _write(_pick(self.transcripts, about[0]), about[1])
        elif name == "again":
            if self.hooks:
                self.hook(_pick(self.hooks, *about))
        else:
            getattr(self, name.replace(" ", "_").lower())(_pick(self.sessions, about[0]), *about[1:])

    def start(self, where: str) -> None:
        """A new session, in the project, in a worktree elsewhere, or in a folder that is deleted under it."""
        if len(self.sessions) < MOST_SESSIONS:
            id = f"s-{len(self.sessions) + 1}"
            cwd = {"project": self.agent.project, "worktree": self.folder / "tree", "gone": self.agent.project / "gone"}
            path = self.folder / "transcripts" / f"{id}.jsonl"
            self.sessions.append(Transcript(Session(id), path, str(cwd[where])))

    def clear(self, session: Transcript) -> None:
        self.sessionend(session, "clear", False)
        self.start("project")

    def fork(self, session: Transcript) -> None:
        if len(self.sessions) < MOST_SESSIONS and session.session.records:
            self.sessions.append(session.fork(f"s-{len(self.sessions) + 1}"))
            self.sessions[-1].flush()

    def cite(self, session: Transcript, number: int, lag: int | None) -> None:
        if name := _fresh(session.lineage, number):
            session.cite(name)
            _write(session, lag)

    def judge(self, session: Transcript, verdict: str, lag: int | None) -> None:
        session.judge(verdict)
        _write(session, lag)

    def advise(self, session: Transcript, number: int, verdict: str, lag: int | None) -> None:
        if name := _fresh(session.lineage, number):
            session.cite(name)
            session.judge(verdict)
            _write(session, lag)

    def advise_again(self, session: Transcript, verdict: str, lag: int | None) -> None:
        session.cite(AGAIN)
        session.judge(verdict)
        _write(session, lag)

    def ask(self, session: Transcript, lag: int | None) -> None:
        session.ask(len(session.session.records))
        _write(session, lag)

    def subagent(self, session: Transcript, number: int, lag: int | None) -> None:
        """A subagent that cites, of which nothing may be written yet."""
        agent_id = f"a-{len(self.subagents) + 1}"
        path = self.folder / "transcripts" / session.id / "subagents" / f"agent-{agent_id}.jsonl"
        new = Transcript(Session(session.id, agent_id=agent_id), path, session.cwd)
        self.subagents.append(new)
        new.cite(ONCE[number % len(ONCE)])
        if number % 3:
            new.prove()
        _write(new, lag)

    def precompact(self, session: Transcript, trigger: str, twice: bool) -> None:
        self.hook(_about(session, "PreCompact", trigger=trigger), twice)

    def stop(self, session: Transcript, twice: bool) -> None:
        self.hook(_about(session, "Stop"), twice)

    def sessionend(self, session: Transcript, reason: str, twice: bool) -> None:
        self.hook(_about(session, "SessionEnd", reason=reason), twice)

    def sessionstart(self, session: Transcript, source: str, twice: bool) -> None:
        self.hook(_about(session, "SessionStart", source=source), twice)

    def subagentstop(self, session: Transcript, number: int, twice: bool) -> None:
        """Of one of its subagents, or of the client's own summariser, whose transcript never exists."""
        own = [one for one in self.subagents if one.id == session.id]
        path, agent_id = session.path.with_name("never.jsonl"), "a-0"
        if own and number:
            path, agent_id = _pick(own, number).path, str(_pick(own, number).agent_id)
        self.hook(_about(session, "SubagentStop", agent_id=agent_id, agent_transcript_path=str(path)), twice)

    def hook(self, payload: dict[str, Any], twice: bool = False) -> None:
        """Run a hook, by settings and plugin twice."""
        if payload not in self.hooks:
            self.hooks.append(payload)
        for _ in range(1 + twice):
            self.received += 1
            event = payload["hook_event_name"]
            asked = getattr(self.client, "asked", None)
            self.client.hook({**payload, "prompt_id": f"d-{self.received}"})
            if event != "SessionStart":
                key = "agent_transcript_path" if event == "SubagentStop" else "transcript_path"
                about = next((one for one in self.transcripts if str(one.path) == payload[key]), None)
                size = about.written or None if about else None
                self.oracle.deliver(
                    Delivered(
                        self.received,
                        event,
                        payload["session_id"],
                        payload.get("agent_id"),
                        about,
                        size,
                        self.received,
                    )
                )
            if asked is not None:
                drains = self.oracle.has_work() if event == "SessionStart" else event != "Stop"
                assert self.client.asked == asked + drains  # type: ignore[union-attr]

    def idle(self, session: Transcript) -> None:
        """Hours go by in which nothing is heard of a session."""
        path = self.agent.spool / "waiting" / f"{session.id}.json"
        if path.exists():
            record = json.loads(path.read_bytes())
            record["received_at_ns"] -= LONG
            path.write_text(json.dumps(record))
        self.oracle.idle(session.id, LONG)

    def kill(self, step: int) -> None:
        self.client.kill_drain(step)
        self.oracle.resume(self.places(), len(self.windows()))

    def ingest(self, transcripts: Iterable[Transcript]) -> None:
        chosen = [one for one in transcripts if one.written]
        if chosen:
            self.agent.call("ingest", *(one.path for one in chosen))
            for one in chosen:
                self.oracle.take(one, "ingest")

    def import_history(self) -> None:
        """Of this project alone: what was done in a worktree elsewhere is not in it."""
        own = [one for one in self.transcripts if one.written and one.cwd.startswith(str(self.agent.project))]
        folder = self.folder / "transcripts"
        if folder.exists():
            self.agent.call("import-history", "--folder", folder)
        for one in sorted(own, key=lambda one: str(one.path)):
            self.oracle.take(one, "ingest")

    def places(self) -> dict[str, str]:
        """Where each delivery lies that is in the spool."""
        found = {}
        for path in self.agent.spool.rglob("*.json"):
            place = path.parent.name if path.parent != self.agent.spool else "pending"
            found[json.loads(path.read_bytes())["payload"]["prompt_id"]] = place
        return found

    def events(self) -> list[Event]:
        with Ledger.open_file(self.agent.ledger) as ledger:
            return list(ledger.events())

    def windows(self) -> list[Event]:
        return [event for event in self.events() if event.type == "session.recorded"]

    def check(self) -> None:
        """What is in the ledger is what must have come of it."""
        assert self.places() == self.oracle.places
        events = self.events()
        told = [event for event in events if event.type == "session.recorded"]
        assert [_window(event) for event in told] == [
            (one.session_id, one.agent_id, one.trigger, [_key(uuid) for uuid in one.records])
            for one in self.oracle.windows
        ]
        reflected = Counter(event.target_id for event in events if event.type in JUDGED)
        assert all(count == 1 for count in reflected.values())
        assert set(reflected) == {event.event_id for event in told}
        assert not [event for event in events if event.type == "reflection.failed"]
        self.check_counts()

    def check_counts(self) -> None:
        expected = self.oracle.counts(ONCE.__contains__, self.transcripts)
        most = self.oracle.counts([AGAIN].__contains__, self.transcripts).get(AGAIN, Counter())
        counters = self.agent.counters()
        for name in ONCE:
            counts = expected.get(name, Counter())
            assert counters[name] == (counts["helpful"], counts["harmful"]), name
        assert counters[AGAIN] <= (most["helpful"], most["harmful"])
        assert counters[AGAIN][1] <= most["harmful"]

    def finish(self, ended: set[int]) -> None:
        """Everything is written; some sessions end, of the others nothing more is heard."""
        for transcript in self.transcripts:
            transcript.flush()
        for number, session in enumerate(self.sessions):
            if number in ended:
                self.sessionend(session, "other", False)
            else:
                self.idle(session)
        self.client.drain("--retry-failed")
        self.oracle.drain(retry=True)
        self.check()
        self.ingest(self.transcripts)
        self.check()
        assert {uuid for one in self.transcripts for uuid in one.uuids} == self.oracle.owner.keys()

    def check_again(self) -> None:
        """Everything comes once more, and nothing comes of it."""
        before, playbook = self.events(), self.agent.playbook.read_bytes()
        for payload in list(self.hooks):
            self.hook(payload)
        for session in self.sessions:
            self.idle(session)
        self.client.drain("--retry-failed")
        self.ingest(self.transcripts)
        self.import_history()
        assert self.events() == before
        assert self.agent.playbook.read_bytes() == playbook
        assert self.agent.call("verify").out == self.agent.call("rebuild", "--check").out == ""


def _pick(choice: list[Any], number: int) -> Any:
    return choice[number % len(choice)]


def _fresh(lineage: Lineage, number: int) -> str | None:
    """A bullet that neither the session nor a copy of it has cited yet."""
    rotated = [ONCE[(number + shift) % len(ONCE)] for shift in range(len(ONCE))]
    return next((name for name in rotated if not lineage.cites(name)), None)


def _write(transcript: Transcript, lag: int | None) -> None:
    if transcript.session.records and lag != 0:
        transcript.flush(abs(lag) if lag else None, cut=lag == -1)


def _about(session: Transcript, event: str, **more: str) -> dict[str, Any]:
    about = {"session_id": session.id, "transcript_path": str(session.path), "cwd": session.cwd}
    return {"hook_event_name": event, **about, **more}


def _key(uuid: str) -> int:
    return int.from_bytes(sha256(uuid.encode()).digest()[:8], "big", signed=True)


def _window(event: Event) -> tuple[str | None, str | None, str, list[int]]:
    assert event.data is not None
    return (
        event.session_id,
        event.data["agent_id"],
        event.data["trigger"],
        list(unpack_keys(event.data["window"]["keys"])),
    )


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a playbook and a new ledger, to be copied."""
    folder = tmp_path_factory.mktemp("prepared")
    bullet = {"text": "Keep it simple.", "helpful": 0, "harmful": 0}
    sections = {
        "PATTERNS & APPROACHES": [{"name": name, **bullet, "text": f"Advice {name}."} for name in ONCE],
        "MISTAKES TO AVOID": [{"name": AGAIN, **bullet}],
    }
    Agent.in_folder(folder, sections).call("drain")
    return folder


def play(prepared: Path, sequence: tuple[list[Action], set[int]], client: Callable[[Agent], Any]) -> None:
    """A world of its own, in which everything happens and is then looked at."""
    actions, ended = sequence
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="oracle-", dir=memory if os.access(memory, os.W_OK) else None) as name:
        folder = Path(name).resolve()
        shutil.copytree(prepared, folder, dirs_exist_ok=True)
        world = World(folder, client(Agent(folder / "project", folder / "home")))
        for action in actions:
            world.do(action)
        world.finish(ended)
        world.check_again()


GENERATED = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@settings(GENERATED, max_examples=examples(30))
@given(sequence=sequences)
def test_of_any_row_of_triggers_each_verdict_counts_once(
    prepared: Path, sequence: tuple[list[Action], set[int]]
) -> None:
    play(prepared, sequence, InProcess)


@pytest.mark.parametrize("verdict", ["helpful", "harmful"])
def test_what_is_said_of_advice_that_a_copy_took_in_is_not_said_of_older_advice(prepared: Path, verdict: str) -> None:
    older, newer = ("cite", 0, 0, None), ("cite", 0, 1, None)
    compacts, said = ("PreCompact", 0, "auto", False), ("judge", 0, verdict, None)
    copied = [("fork", 0), ("SessionEnd", 1, "other", False), ("drain",)]
    play(prepared, ([older, compacts, ("drain",), newer, *copied, said, compacts, ("drain",)], {0}), InProcess)


#: REFLECTOR_TEST_ORACLE_ROWS=2000 plays the full number; CI plays fewer.
_ROWS = int(os.environ.get("REFLECTOR_TEST_ORACLE_ROWS", "160"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("quarter", range(4))
def test_of_many_rows_of_triggers_each_verdict_counts_once(prepared: Path, quarter: int) -> None:
    @seed(quarter)
    @settings(GENERATED, max_examples=_ROWS // 4, database=None)
    @given(sequence=sequences)
    def hold(sequence: tuple[list[Action], set[int]]) -> None:
        play(prepared, sequence, InProcess)

    hold()


@pytest.mark.slow
@pytest.mark.timeout(900)
@settings(GENERATED, max_examples=5, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(sequence=sequences)
def test_with_real_hooks_and_drains_each_verdict_counts_once(
    prepared: Path, sequence: tuple[list[Action], set[int]]
) -> None:
    play(prepared, sequence, ByProcesses)
