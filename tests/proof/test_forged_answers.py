"""Whatever is changed in a ledger's tables, every question is answered, or says in a line that the
ledger is not sound.

No question ends with a traceback or with a code that no document names, and none runs for ever.
The campaign plays a quarter of REFLECTOR_TEST_TAMPERINGS changes, from REFLECTOR_TEST_SEED on.
"""

import os
import random
import shlex
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from reflector.cli.app import reflector
from reflector.cli.table import COMMANDS
from reflector.events import event as ev
from reflector.judges.truth import questions as asking
from reflector.ledger.sqlite_file import sqlite_module
from reflector.ledger.store import Ledger
from tests.conftest import first_fast
from tests.judges.api import Api, sound as answering
from tests.judges.truth.cases import insights, verdict
from tests.ledger.events import added, history, learned, lesson, merged, trajectory
from tests.oracle.histories import live
from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.schemas import ANSWERS

from . import forger

_NUMBER = int(os.environ.get("REFLECTOR_TEST_TAMPERINGS", "100")) // 4
_SEED = int(os.environ.get("REFLECTOR_TEST_SEED", "0"))
_LESSON = lesson("l1", "insight").event_id

#: What is asked with each command; a line of its own where one asks the ledger something else.
QUESTIONS = {
    "status": ["", "--json"],
    "doctor": ["", "--json"],
    "judge": ["", "--json"],
    "mirror": [""],
    "review": ["", "list --json", "find --dry-run"],
    "reflect": ["--dry-run"],
    "lab": ["reparse --dry-run"],
    "list": [
        "",
        "--counting once_per_session --removed",
        "--removed --json",
        "--by cited",
        "--since yesterday",
        "--as-of 30 --removed",
    ],
    "show": [
        "pat-001",
        "oth-013 --json",
        "mis-001 --as-of 30",
        "s1",
        "s-1 --json",
        _LESSON,
        f"{_LESSON} --json",
        "9",
    ],
    "undo": ["--dry-run", "oth-013 --dry-run", "1 --dry-run", "mis-001 --dry-run"],
    "merge": ["pat-001 oth-013 --text x --dry-run"],
    "lessons": ["", "--json", "recall sign", "recall error --json"],
    "log": ["-n 0", "-n 0 --json", "pat-001", "s1", "--as-of 30"],
    "blame": ["pat-001", "oth-013 --json", "oth-012 --as-of 30"],
    "stats": ["", "--json", "--doubles", "--doubles pat-001 --json", "--doubles --as-of 30"],
    "check": ["--dry-run"],
    "diff": ["0..", "5..20 --json"],
    "trial": ["status", "status --json", "plan"],
    "report": ["--share --out /dev/null"],
    "sql": ["SELECT*FROM(bullets)", "SELECT*FROM(tags)"],
    "redact": ["--where error --why x"],
    "rebuild": ["--check"],
    "verify": ["", "--json"],
    "ledger": ["head", "policy"],
    "export": ["", "--format md", "--format csv", "--format ndjson", "--as-of 30"],
}
#: Commands that change something or ask no ledger; and `statusline`, which reads a line that was
#: left ready.
_CHANGING = {command for command, answer in ANSWERS.items() if answer == "changes.ChangesJson"}
_NO_QUESTIONS = (_CHANGING - QUESTIONS.keys()) | frozenset(
    "demo install uninstall config statusline completion hook ingest history drain edit mcp"
    " help import adopt off on team".split()
)


def _with_as_of() -> dict[str, list[str]]:
    """Return the examples of the questions that QUESTIONS does not list: commands with --as-of."""
    context = click.Context(reflector)
    questions = {}
    for name in COMMANDS.keys() - QUESTIONS.keys() - _NO_QUESTIONS:
        command = reflector.get_command(context, name)
        if command is not None and any("--as-of" in option.opts for option in command.params):
            questions[name] = list(COMMANDS[name].examples)
    return questions


QUESTIONS |= _with_as_of()
_ASKED = [[command, *shlex.split(text)] for command, texts in QUESTIONS.items() for text in texts]


def test_each_command_is_asked_or_asks_nothing() -> None:
    neither = COMMANDS.keys() - QUESTIONS.keys() - _NO_QUESTIONS
    assert not neither, (
        f"write {', '.join(sorted(neither))} to QUESTIONS, or to _NO_QUESTIONS in this file"
    )
    assert QUESTIONS.keys() | _NO_QUESTIONS == COMMANDS.keys()
    assert not QUESTIONS.keys() & _NO_QUESTIONS


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project whose ledger has merges, redactions, retractions, lessons and another playbook
    beside it.
    """
    agent = Agent.in_folder(tmp_path_factory.mktemp("sound"), {})
    with agent.open_ledger() as ledger:
        ledger.append(history())
        ledger.append([added("oth-011"), added("oth-012"), merged("oth-013", "oth-011", "oth-012")])
        for type_ in (ev.BULLET_REVISED, ev.BULLET_ADDED):
            ledger.redact(
                [next(ledger.events(types=[type_])).event_id], reason="a name", actor="human"
            )
        live(ledger, random.Random(0), "live", 60)
        ledger.append(learned())
    with Ledger.open_file(agent.ledger, "other") as ledger:
        ledger.append([added("oth-001")])
    agent.call("rebuild")
    path = Session("s-1").cites("pat-001", "helpful").write(agent.project.parent / "1.jsonl")
    agent.call("ingest", path)
    agent.call("review", "find")
    with closing(forger.connect(agent.ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return agent


@pytest.mark.slow
@pytest.mark.parametrize("words", _ASKED, ids=" ".join)
def test_question_about_a_sound_ledger_is_answered(sound: Agent, words: list[str]) -> None:
    ran = sound.call(*words, code=None)
    assert "add --yes" in ran.err if words[0] == "redact" else ran.code in (0, 1)


@pytest.fixture
def forged(sound: Agent, tmp_path: Path) -> Agent:
    """The same project once more, to be changed."""
    agent = _again(sound, tmp_path)
    agent.call("list")  # it is known then, whatever becomes of its rows
    return agent


def _again(sound: Agent, folder: Path) -> Agent:
    shutil.rmtree(folder / "forged", ignore_errors=True)
    shutil.copytree(sound.project.parent, folder / "forged", symlinks=True)
    return Agent(folder / "forged" / "project", folder / "forged" / "home")


def asked(agent: Agent, words: list[str]) -> str:
    """Ask, and return what was said of an error; no other end of a question is allowed."""
    ran = agent.call(*words, code=None)
    assert ran.code in (0, 1, 2), (words, ran)
    assert "Traceback" not in ran.err
    return ran.err


def forge(agent: Agent, statement: str, *values: Any) -> None:
    with forger.forging(agent.ledger) as connection:
        assert connection.execute(statement, values).rowcount > 0


_EXTRA = (
    "INSERT INTO bullet (playbook_id, name, ordinal, section, text, status, position, recounted_at,"
    " baseline_helpful, baseline_harmful, helpful, harmful)"
    " SELECT playbook_id, 'pat-777', 777, section, text, status, position, recounted_at,"
    " baseline_helpful, baseline_harmful, helpful, harmful FROM bullet WHERE name = 'pat-001'"
)


@pytest.mark.parametrize(
    ("statement", "questions", "said"),
    first_fast(
        1,
        [
            (_EXTRA, ["stats --doubles"], "the rule 'pat-777', but no event added this rule"),
            (
                "DELETE FROM playbook WHERE name = 'default'",
                ["blame pat-001", "undo --dry-run", "list", "stats", "log"],
                "was not created",
            ),
        ],
    ),
)
def test_what_no_ledger_holds_is_named(
    forged: Agent, statement: str, questions: list[str], said: str
) -> None:
    forge(forged, statement)
    for question in questions:
        told = asked(forged, question.split())
        assert said in told, question
        assert len(told.splitlines()) == 1
        assert "reflector verify" in told
    assert forged.call("verify", code=1).out
    # nothing was created in the place of what is gone
    with closing(forger.connect(forged.ledger)) as connection:
        assert connection.execute(
            "SELECT count(*) FROM playbook WHERE position = 0"
        ).fetchone() == (0,)


_UNREADABLE = {
    "data = 'x' WHERE type = 'bullet.tagged'": "the text is not JSON",
    "data = json_set(data, '$.sources', 5) WHERE type = 'bullet.merged'": "sources is 5: must be",
    "data = '[]' WHERE type = 'bullet.moved'": "the text is not a JSON object",
    "data = json_set(data, '$.cited', json('[1]')) WHERE type = 'session.recorded'": "cited is [1]",
    "recorded_at = 'x' WHERE type = 'reflection.failed'": "recorded at 'x', which is not a time",
}


@pytest.mark.slow
def test_unreadable_event_is_marked_and_blocks_no_question(
    forged: Agent,
) -> None:
    for statement in _UNREADABLE:
        forge(forged, f"UPDATE event SET {statement}")
    for words in _ASKED:
        asked(forged, words)
    log = forged.call("log", "-n", "0", code=None).out
    assert [said for said in _UNREADABLE.values() if said not in log] == []
    assert forged.call("verify", code=1).out
    asked(forged, ["rebuild"])
    for command, (text, *_) in QUESTIONS.items():
        assert "reflector verify" not in asked(forged, [command, *text.split()]), command
    assert "[projection]" not in forged.call("verify", code=1).out


def test_rest_of_a_redacted_event_is_checked(forged: Agent) -> None:
    with Ledger.open_file(forged.ledger) as ledger:
        named = next(ledger.events(types=[ev.BULLET_ADDED])).event_id
        ledger.redact([named], reason="a name", actor="human")
    forge(
        forged,
        "UPDATE event SET data = json_set(data, '$.kept.name', json('[[]]')) WHERE target_id = ?",
        named,
    )
    assert "name is" in forged.call("log", "-n", "0").out
    for question in ["list --as-of 30", "list --counting once_per_session", "drain", "rebuild"]:
        asked(forged, question.split())
    assert "name is" in forged.call("verify", code=1).out


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_circular_events_block_no_question(
    forged: Agent,
) -> None:
    with forger.forging(forged.ledger) as connection:
        query = "SELECT event_id FROM event WHERE type = ? ORDER BY position DESC LIMIT 2"
        (one,), (other,) = connection.execute(query, (ev.EVIDENCE_RETRACTED,)).fetchall()
        for id, target in ((one, other), (other, one)):
            connection.execute("UPDATE event SET target_id = ? WHERE event_id = ?", (target, id))
    for command, texts in QUESTIONS.items():
        for text in {texts[0], texts[-1]}:
            asked(forged, [command, *text.split()])
    asked(forged, ["undo", other, "--why", "x"])
    asked(forged, ["redact", other, "--why", "x", "--yes"])
    assert forged.call("verify", code=1).out


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_question_breaks_at_a_changed_row(sound: Agent, tmp_path: Path) -> None:
    changed = 0
    for number in range(_NUMBER * 20):
        chance = random.Random(f"{_SEED} {number}")
        agent = _again(sound, tmp_path)
        try:
            told = f"{number}: {forger.change_a_row(agent.ledger, chance)}"
        except sqlite_module().Error:
            continue  # even the engine without its triggers refuses it
        for words in chance.sample(_ASKED, 25):
            try:
                asked(agent, words)
            except Exception as error:
                raise AssertionError(f"{told}: reflector {' '.join(words)}") from error
        changed += 1
        if changed == _NUMBER:
            break
    assert changed == _NUMBER


# What an event of a reflection may hold, in any shape that no field of its type forbids

_ODD_RUNS: list[dict[str, Any]] = [
    *({"iterations": odd} for odd in (None, [], 10**9)),
    *({"carried": odd} for odd in (None, 5, [[]])),
    *({"retired": odd} for odd in (5, [5])),
    *({"window": odd} for odd in (5, {"keys": "odd"}, {"keys": None})),
    {"transcript": 5, "trigger": [], "agent": {}},
]
_NO_DATASETS = (None, "", "Sums of July", "../sums")


@pytest.mark.slow
def test_a_trajectory_of_any_shape_stops_no_drain(
    api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "MOST_ITERATIONS", 3)
    changes = [*_ODD_RUNS, *({"dataset": odd} for odd in _NO_DATASETS)]
    runs = [trajectory(f"t{number}") for number in range(len(changes))]
    odd = [replace(run, data={**run.data, **more}) for run, more in zip(runs, changes, strict=True)]
    agent = Agent.in_folder(tmp_path)
    agent.call("list")
    with agent.open_ledger() as ledger:
        ledger.append(odd)
    agent.environ = api.environ(REFLECTOR_BACKEND="anthropic", REFLECTOR_SESSION_TOKENS="0")
    api.else_ = lambda asked: answering(verdict() if "<bullet id=" in asked.text else insights("a"))
    assert agent.call("drain", code=1).err.count("cannot be the name of a dataset") == len(
        _NO_DATASETS
    )
    agent.call("drain")
    for number, more in enumerate(changes):
        shown = agent.json("show", f"trajectory-t{number}")["windows"][0]
        assert shown["state"] == ("given_up" if "dataset" in more else "completed")
        assert shown["transcript"] is None
    assert agent.call("verify").out == ""
    # of insights and a verdict each, and three rounds at the most
    assert len(api.asked) == 2 * len(_ODD_RUNS) + 2
