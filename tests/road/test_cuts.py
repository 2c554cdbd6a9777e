"""Where a session is cut changes nothing: its windows count what the whole file counts, read once.

Hypothesis plays sessions of every kind of evidence. Real transcripts are not part of the project; see
test_real_transcripts.py for where they are looked for. Beside them may lie a set of judged ones, with citations.
"""

from __future__ import annotations

import lzma
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflector.events import event as ev
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import load
from reflector.proof.verify import verify
from tests.conftest import OpenLedger, examples
from tests.road.agent import Agent
from tests.road.cuts import Cut, Yard, added, at_random, ends, judge, outcome, take
from tests.road.sessions import Session
from tests.road.test_real_transcripts import FILES, SHARED, rewritten

JUDGED = SHARED.parent / "judged"
BULLETS = (
    Bullet("pat-001", "pat", "Change how the cart adds up its total.", 0, 0),
    Bullet("pat-002", "pat", "Run the tests of the cart before saying that it works.", 0, 0),
    Bullet("mis-001", "mis", "Mocking the database hides broken migrations.", 0, 0),
)

Step = Callable[[Session], object]


def compaction(session: Session) -> None:
    session.user("This session is continued from an earlier one: the cart's total was changed.")
    session.records[-1]["isCompactSummary"] = True


def subagent(session: Session) -> None:
    """Words on a sidechain, as version 1 wrote them into the session's own file."""
    session.user("Look at the cart.").agent("As [pat-001] says, I look at the total.").agent("Done.")
    for record in session.records[-3:]:
        record["isSidechain"] = True


CITES = [
    "As [{}] says, I change how the cart adds up its total.",
    "I keep [{}] in mind.",
    "Now I run the tests of the cart, as [{}] advises.",
]
SAYS = [
    "Perfect, that works. Thanks!",
    "No, that is wrong. Please don't change the total there, revert it.",
    "Why is the total still wrong?",
    "Thanks. Now write the release notes.",
    "Go on.",
    "The total is wrong when a coupon is applied. Please fix it.",
    "Great, the total is right now!",
]
ANSWERS = ["You are right, I take it back.", "Glad to hear it.", "I look into it.", "Shall I go on?"]
RUNS = [
    ("pytest tests/test_cart.py", "1 passed in 0.10s", False),
    ("pytest tests/test_cart.py", "E   assert 3 == 4\n1 failed in 0.10s", True),
    ("git checkout -- cart.py", "", False),
    ("ls", "cart.py", False),
    ("ruff check .", "All checks passed!", False),
]
CITING: st.SearchStrategy[Step] = st.builds(
    lambda words, bullet: lambda session: session.agent(words.format(bullet.name)),
    st.sampled_from(CITES),
    st.sampled_from(BULLETS),
)
SAYING: st.SearchStrategy[Step] = st.sampled_from(SAYS).map(lambda words: lambda session: session.user(words))
ANSWERING: st.SearchStrategy[Step] = st.sampled_from(ANSWERS).map(lambda words: lambda session: session.agent(words))
RUNNING: st.SearchStrategy[Step] = st.sampled_from(RUNS).map(
    lambda run: lambda session: session.runs(run[0], run[1], is_error=run[2])
)
STEPS: st.SearchStrategy[Step] = st.one_of(CITING, SAYING, ANSWERING, RUNNING, st.sampled_from([compaction, subagent]))


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Yard:
    return Yard(tmp_path_factory.mktemp("yard"), BULLETS)


def played(steps: list[Step], path: Path) -> Path:
    session = Session()
    for step in steps:
        step(session)
    return session.write(path)


@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=2, max_size=24), data=st.data())
def test_any_windows_of_a_session_count_what_the_whole_counts(
    yard: Yard, steps: list[Step], data: st.DataObject
) -> None:
    same_as_whole(yard, steps, data)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=2, max_size=60), data=st.data())
def test_any_windows_of_a_long_session_count_what_the_whole_counts(
    yard: Yard, steps: list[Step], data: st.DataObject
) -> None:
    same_as_whole(yard, steps, data)


@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=2, max_size=12), more=st.lists(STEPS, min_size=2, max_size=12), data=st.data())
def test_any_windows_of_a_fork_count_what_the_whole_fork_counts_after_its_original(
    yard: Yard, steps: list[Step], more: list[Step], data: st.DataObject
) -> None:
    original = Session()
    for step in steps:
        step(original)
    fork = original.fork("s-2")
    for step in more:
        step(fork)
    files = [session.write(yard.folder / f"{session.id}.jsonl") for session in (original, fork)]
    outcomes = []
    for is_cut in (False, True):
        with yard.ledger() as ledger:
            for path in files:
                places = data.draw(st.lists(st.sampled_from(ends(path)), max_size=4, unique=True)) if is_cut else []
                take(ledger, path, [Cut(place) for place in sorted(places)])
            outcomes.append(outcome(ledger))
    assert outcomes[0] == outcomes[1]


def same_as_whole(yard: Yard, steps: list[Step], data: st.DataObject) -> None:
    path = played(steps, yard.folder / "t.jsonl")
    places = data.draw(st.lists(st.sampled_from(ends(path)), min_size=1, max_size=5, unique=True).map(sorted))
    cuts = [Cut(place, data.draw(st.booleans())) for place in places]
    assert yard.taken(path, cuts) == yard.taken(path)


def test_on_either_engine_windows_count_what_the_whole_counts(open_ledger: OpenLedger, tmp_path: Path) -> None:
    session = Session().cites("pat-001", None).runs("pytest", "1 passed in 0.1s")
    session.user(SAYS[1]).agent(ANSWERS[0]).cites("pat-002", None)
    compaction(session)
    path = session.user(SAYS[0]).agent("I will keep [pat-002] in mind.").write(tmp_path / "t.jsonl")
    whole, cut = open_ledger("whole"), open_ledger("cut")
    for ledger in (whole, cut):
        ledger.append([added(bullet) for bullet in BULLETS])
    take(whole, path)
    take(cut, path, [Cut(end) for end in ends(path)])
    assert outcome(cut) == outcome(whole)
    assert outcome(cut).verdicts == {"pat-001": ["harmful"], "pat-002": ["helpful"]}
    assert len(list(cut.events(types=[ev.EVIDENCE_RETRACTED]))) == 1
    assert list(verify(cut)) == []
    events = cut.head().position
    take(cut, path, [Cut(end) for end in ends(path)])
    judge(cut)
    assert cut.head().position == events


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_files_of_one_command_count_what_a_command_for_each_counts(tmp_path: Path, order: tuple[int, int]) -> None:
    counters = []
    for name in ("one", "two"):
        agent = Agent.in_folder(tmp_path / name)
        session = Session().cites("pat-001", None)
        files = [session.write(tmp_path / name / "b.jsonl")]
        session.user("Perfect, that works. Thanks!").agent("Good, I keep [pat-001] in mind.")
        files.append(session.write(tmp_path / name / "a.jsonl"))
        files = [files[number] for number in order]
        for call in [files] if name == "one" else [[file] for file in files]:
            agent.call("ingest", *call)
        counters.append(agent.counters())
    assert counters[0] == counters[1]
    assert counters[0]["pat-001"] == (1, 0)


# -- real sessions ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Yard, list[Path]]:
    """Bullets, and transcripts that cite them: judged ones, and others in which citations are planted."""
    if not FILES:
        pytest.skip("set REFLECTOR_TRANSCRIPTS to a folder of real transcripts")
    folder = tmp_path_factory.mktemp("real")
    bullets = list(BULLETS)
    files = [planted(path, folder / path.name, Random(path.name)) for path in FILES]
    if JUDGED.is_dir():
        bullets += load((JUDGED / "playbook.json").read_bytes()).bullets
        files += sorted((JUDGED / "transcripts").glob("*.jsonl.xz"))
    return Yard(folder, bullets), files


@pytest.mark.parametrize("seed", range(3))
def test_a_real_session_cut_at_random_counts_what_the_whole_counts(real: tuple[Yard, list[Path]], seed: int) -> None:
    yard, files = real
    chance = Random(seed)
    path = chance.choice([path for path in files if path.stat().st_size < 500_000 and path.suffix == ".jsonl"])
    assert yard.taken(path, at_random(chance, path)) == yard.taken(path)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_all_real_sessions_cut_at_random_count_what_the_whole_counts(real: tuple[Yard, list[Path]]) -> None:
    """200 cuts at least, and one of each file."""
    yard, files = real
    chance = Random(8)
    wanted = -(-200 // len(files))
    differing, verdicts = [], 0
    for number, file in enumerate(files):
        path = file
        if file.suffix == ".xz":
            path = yard.folder / "t.jsonl"
            path.write_bytes(lzma.decompress(file.read_bytes()))
        whole = yard.taken(path)
        verdicts += len(whole.verdicts)
        differing += [number for _ in range(wanted) if yard.taken(path, at_random(chance, path)) != whole]
    assert (differing, verdicts > 0) == ([], True)


def planted(path: Path, copy: Path, chance: Random) -> Path:
    """A copy in which the model cites bullets here and there, and people say how it went."""

    def change(record: dict[str, Any]) -> bool:
        body = record.get("message")
        content = body.get("content") if isinstance(body, dict) else None
        if isinstance(content, list) and record.get("type") == "assistant" and chance.random() < 0.2:
            words = chance.choice(CITES).format(chance.choice(BULLETS).name)
            record["message"]["content"] = [{"type": "text", "text": words}, *content]
        elif isinstance(content, str) and record.get("type") == "user" and chance.random() < 0.4:
            record["message"]["content"] = chance.choice(SAYS)
        else:
            return False
        return True

    return rewritten(path, copy, change)
