"""The views say what the commands say, after any history, on both engines and beside other
playbooks.
"""

import random
from collections import Counter
from dataclasses import replace
from itertools import count, pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import Phase, given, settings, strategies as st

from reflector.audit.blame import Step, blame_bullet
from reflector.audit.session import session_story
from reflector.audit.stats import ledger_stats
from reflector.cli.output import json_of
from reflector.events import event as ev
from reflector.ledger.migration import VIEWS, make_triggers_and_views
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.conftest import Postgres, examples
from tests.ledger import sql
from tests.ledger.events import about, added, reflected, tagged, window
from tests.oracle.histories import begin, live

SEEDS = st.integers(0, 2**32)
_PLAYBOOKS = count()


def lived(ledger: Ledger, seed: int) -> None:
    """Append a history, the same for the same seed."""
    begin(ledger)
    live(ledger, random.Random(seed), "a", 15)


def view(ledger: Ledger, name: str, order: str = "position") -> list[dict[str, Any]]:
    """The rows of a view that are of the ledger's playbook."""
    with ledger.engine.alchemy().connect() as connection:
        query = f"SELECT * FROM {name} WHERE playbook = '{ledger.name}' ORDER BY {order}"
        return [dict(row._mapping) for row in connection.exec_driver_sql(query)]


def agree(ledger: Ledger) -> None:
    """Every view against the command that says the same."""
    bullets = view(ledger, "bullets", "ordinal")
    told = [json_of(row) for row in ledger.rows()]
    assert [{key: row[key] for key in told[0]} for row in bullets] == told
    assert {row["counting"] for row in bullets} == {ledger.counting()}
    tags = view(ledger, "tags")
    for bullet in bullets:
        mine = [row for row in tags if row["name"] == bullet["name"]]
        told = [
            step for step in blame_bullet(ledger, bullet["name"]) if step.disposition != "baseline"
        ]
        same = (
            "position",
            "recorded_at",
            "session_id",
            "reflection_id",
            "tag",
            "disposition",
            "rationale",
            "backend",
        )
        same += ("model", "event_id")
        assert [{key: row[key] for key in same} for row in mine] == [
            {key: getattr(step, key) for key in same} for step in told
        ]
        assert [bool(row["counts"]) for row in mine] == [step.counted for step in told]
        _is_explained(blame_bullet(ledger, bullet["name"]), bullet)
        for verdict in ("helpful", "harmful"):
            counting = sum(row["counts"] for row in mine if row["tag"] == verdict)
            assert bullet[verdict] == bullet[f"baseline_{verdict}"] + counting
    assert not any(
        row["counts"] for row in tags if row["name"] not in {bullet["name"] for bullet in bullets}
    )
    _sessions_agree(ledger, tags)


def _is_explained(steps: list[Step], bullet: dict[str, Any]) -> None:
    """The totals end at the counters, and only what counts moves them."""
    last = (steps[-1].helpful, steps[-1].harmful) if steps else (0, 0)
    assert last == (bullet["helpful"], bullet["harmful"])
    for before, step in pairwise(steps):
        assert step.counted or (step.helpful, step.harmful) == (before.helpful, before.harmful)


def _sessions_agree(ledger: Ledger, tags: list[dict[str, Any]]) -> None:
    counts = {row["position"]: bool(row["counts"]) for row in tags}
    sessions = view(ledger, "sessions")
    reflections = view(ledger, "reflections", "completed_at, position")
    figures = ledger_stats(ledger)
    assert (len(sessions), sum(row["windows"] for row in sessions)) == (
        figures.sessions,
        figures.windows,
    )
    for rows in (sessions, reflections):
        assert sum(row["tokens"] for row in rows) == figures.whole.tokens
        assert sum(row["answers"] for row in rows) == figures.whole.answers
        assert sum(row["cost_usd"] or 0 for row in rows) == pytest.approx(float(figures.whole.cost))
        assert sum(row["tags"] for row in rows) == len(tags)
        for verdict in ("helpful", "harmful"):
            counting = sum(row["counts"] for row in tags if row["tag"] == verdict)
            assert sum(row[verdict] for row in rows) == counting
    for row in sessions:
        if row["session_id"] is None:
            continue
        story = session_story(ledger, row["session_id"])
        states = Counter(one.state for one in story.windows)
        windows = (len(story.windows), states["completed"], states["skipped"])
        assert (row["windows"], row["judged"], row["skipped"]) == windows
        assert row["tokens"] == story.tokens
        told = {one.reflection_id: one for window in story.windows for one in window.reflections}
        mine = {
            one["reflection_id"]: one
            for one in reflections
            if one["session_id"] == row["session_id"]
        }
        assert mine.keys() == told.keys()
        for key, one in told.items():
            for field in ("backend", "model", "mode", "answers", "analysis"):
                assert mine[key][field] == getattr(one, field)
            answered = [
                event.recorded_at for event in story.events if event.type == ev.REFLECTION_ANSWERED
            ]
            assert mine[key]["answered_at"] in answered
            assert (mine[key]["position"], mine[key]["tags"]) == (one.completed, len(one.tags))
            assert {tag.position: bool(tag.counted) for tag in one.tags}.items() <= counts.items()


@pytest.mark.hypothesis
def test_views_and_commands_agree_after_any_history(ledger_url: str) -> None:
    # On a server a history takes long, too long to shrink within a test's time.
    @settings(
        max_examples=examples(80 if ledger_url.startswith("sqlite") else 12),
        phases=[phase for phase in Phase if phase is not Phase.shrink],
    )
    @given(SEEDS)
    def run(seed: int) -> None:
        with Ledger.open(ledger_url, f"playbook-{next(_PLAYBOOKS)}") as ledger:
            lived(ledger, seed)
            agree(ledger)

    run()


def test_changed_or_dropped_view_is_found_and_repaired(ledger: Ledger) -> None:
    def told() -> list[str]:
        return [one.message.split(", so")[0] for one in verify(ledger) if "the view" in one.message]

    lived(ledger, 1)
    assert told() == []
    other = "SELECT name AS playbook, 7 AS helpful FROM playbook"
    sql.run(ledger, "DROP VIEW tags", "DROP VIEW bullets", f"CREATE VIEW bullets AS {other}")
    assert told() == ["the view bullets was changed", "the view tags is missing"]
    with ledger.engine.alchemy().begin() as connection:
        make_triggers_and_views(connection.connection.driver_connection, connection.dialect.name)
    assert told() == []
    agree(ledger)


def test_what_answers_hold_breaks_no_view(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A NUL is JSON and no text on PostgreSQL; numbers may be none; names, tags and lists may be
    anything that an older version appended.
    """
    first = window(1, "s1")
    odd = {
        "input_tokens": "many",
        "output_tokens": -3,
        "cost_usd": "1e9999",
        "cache_read_tokens": "1.500000",
    }
    answer = replace(about(ev.REFLECTION_ANSWERED, first, answer="…"), reflection_id="r1", meta=odd)
    completed = reflected("r1", first)[0]
    rationales = [{"index": 0, "rationale": 'nul \0 "quoted"'}, {}]
    data = {"analysis": "a\0b \\u0000", "rationales": rationales, "model": ["m"]}
    odd_tags: list[Any] = [
        ("pat\0", "x\0", "malformed"),
        (["a"], {"b": 1}, "malformed"),
        (None, None, "counted"),
    ]
    tags = [
        tagged("r1", index, *tag)
        for index, tag in enumerate([*odd_tags, ("pat-001", 1, "neutral")])
    ]
    second = replace(window(2, "s2"), data={"agent": None, "window": {}, "cited": None})
    nothing = replace(reflected("r2", second)[0], data={"model": 5})
    with monkeypatch.context() as older:
        older.setattr("reflector.ledger.append.check_facts", lambda *_, **__: None)
        ledger.append(
            [added(), first, answer, replace(completed, data=data), *tags, second, nothing]
        )
    rows = {name: view(ledger, name) for name in VIEWS[1:]}
    assert [len(found) for found in rows.values()] == [
        {"bullets": 1, "tags": 4}.get(name, 2) for name in rows
    ]
    assert [row["disposition"] for row in rows["tags"]] == [
        "malformed",
        "malformed",
        "malformed",
        "neutral",
    ]
    assert "nul" in rows["tags"][0]["rationale"]


@pytest.mark.postgres
def test_view_from_a_dump_has_the_same_definition(postgres: Postgres) -> None:
    """A dump has the server's own words for a view; a view that is made of them has to have the
    same ones.
    """
    described = "SELECT pg_get_viewdef(%s::regclass)"
    with postgres.database() as url, psycopg.connect(url) as connection:
        for name in VIEWS:
            (standing,) = connection.execute(described, [name]).fetchone() or ("",)
            connection.execute(f"CREATE VIEW restored AS {standing}")
            assert connection.execute(described, ["restored"]).fetchone() == (standing,), name
            connection.execute("DROP VIEW restored")
