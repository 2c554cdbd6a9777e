"""The public functions of parts A (the ACE reflector) and B (reflection with ground truth), and
requirements that stand nowhere else: A-04, A-08, A-23 to A-28 and A-30. The others are named by the
modules that test them.
"""

import inspect
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import reflector
from reflector import (
    apply_bullet_tags,
    extract_cited_ids,
    extract_json_object,
    format_playbook,
    load_transcript,
)
from reflector.ground_truth import ReflectorAgent, ReflectorPromptBuilder
from tests.building import entry, playbook
from tests.road.agent import Agent

RUN = "(self, trajectory, ground_truth, test_report, dataset, max_iterations=1)"
BUILD = (
    "(self, trajectory, ground_truth, test_report, used_bullets, dataset, previous_insights=None)"
)


@pytest.mark.parametrize(
    ("function", "signature"),
    [
        (extract_cited_ids, "(messages)"),
        (reflector.run_reflector, "(messages, playbook, cited_ids)"),
        (apply_bullet_tags, "(playbook, bullet_tags)"),
        (format_playbook, "(playbook, template=None)"),
        (reflector.load_template, "(name, project=None)"),
        (load_transcript, "(path)"),
        (extract_json_object, "(text)"),
        (ReflectorAgent, "(llm_client, prompt_builder, playbook_store)"),
        (ReflectorAgent.run, RUN),
        (ReflectorPromptBuilder.build, BUILD),
        (
            ReflectorPromptBuilder.build_evaluation_prompt,
            "(self, trajectory, ground_truth, bullet)",
        ),
    ],
)
def test_the_public_functions_have_the_asked_signatures(function: Any, signature: str) -> None:
    given = inspect.signature(function)
    parameters = [
        one.replace(annotation=inspect.Parameter.empty) for one in given.parameters.values()
    ]
    assert str(inspect.Signature(parameters)).replace(" = ", "=") == signature
    assert inspect.iscoroutinefunction(function) == (function is reflector.run_reflector)


def test_injection_changes_nothing(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path)
    agent.call("drain")
    before = {path: path.read_bytes() for path in agent.claude.rglob("*") if path.is_file()}
    told = agent.hook(
        "SessionStart",
        session_id="s-1",
        source="startup",
        transcript_path=str(tmp_path / "t.jsonl"),
    )
    assert "[pat-001] helpful=0 harmful=0 :: Write the failing test first." in told
    assert {path: path.read_bytes() for path in before} == before


# A playbook as a dict: its text and its counters


def counts(book: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {
        e["name"]: (e["helpful"], e["harmful"])
        for entries in book["sections"].values()
        for e in entries
    }


def tag(name: str, verdict: str) -> dict[str, Any]:
    return {"name": name, "tag": verdict, "rationale": "r"}


def test_sections_have_canonical_order_and_blank_lines() -> None:
    book = playbook(
        oth=[entry("oth-001", 0, 4, "z")],
        pat=[entry("pat-001", 3, 1, "a"), entry("pat-002", text="b")],
    )
    assert format_playbook(book, "<{key_points}>") == (
        "<## PATTERNS & APPROACHES\n"
        "[pat-001] helpful=3 harmful=1 :: a\n"
        "[pat-002] helpful=0 harmful=0 :: b\n"
        "\n"
        "## OTHERS\n"
        "[oth-001] helpful=0 harmful=4 :: z>"
    )


@pytest.mark.parametrize(
    "book", [playbook(), {}, {"sections": {}}, {"sections": None}, {"sections": {"OTHERS": None}}]
)
def test_an_empty_playbook_is_no_text_at_all(book: dict[str, Any]) -> None:
    assert format_playbook(book) == ""


_UNUSABLE: list[Any] = [
    tag("pat-001", "Helpful"),
    tag("pat-999", "helpful"),
    {"name": "pat-001"},
    {"tag": "helpful"},
]
_UNUSABLE += [
    "pat-001",
    None,
    {"name": ["pat-001"], "tag": "helpful"},
    {"name": "pat-001", "tag": ["helpful"]},
]


@pytest.mark.parametrize(
    ("tags", "counted", "logged"),
    [
        (
            [tag("pat-001", verdict) for verdict in ("helpful", "helpful", "harmful", "neutral")],
            (3, 2),
            0,
        ),
        ([*_UNUSABLE, tag("pat-001", "helpful")], (2, 1), len(_UNUSABLE)),
        *((odd, (1, 1), 1) for odd in (None, "helpful", {"pat-001": "helpful"}, 3)),
    ],
)
def test_every_usable_tag_counts_and_others_are_logged(
    tags: Any, counted: tuple[int, int], logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    # Of two entries with one name the last is counted.
    book = playbook(pat=[entry("pat-001", 7, 7)], oth=[entry("oth-001"), entry("pat-001", 1, 1)])
    with caplog.at_level(logging.WARNING, "reflector"):
        assert apply_bullet_tags(book, tags) is book
    assert [(e["helpful"], e["harmful"]) for e in book["sections"]["PATTERNS & APPROACHES"]] == [
        (7, 7)
    ]
    assert counts(book) == {"pat-001": counted, "oth-001": (0, 0)}
    assert len(caplog.records) == logged


@pytest.mark.parametrize(
    "setup", ["", ("logging.basicConfig(level=logging.ERROR, format='%(message)s');")]
)
def test_unknown_name_is_printed_on_stderr(setup: str) -> None:
    code = (
        f"import logging; {setup}from reflector import apply_bullet_tags;"
        "apply_bullet_tags({'sections': {}}, [{'name': 'pat-\\x1b[2J', 'tag': 'helpful'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (
        "",
        "tag 0: 'pat-\\x1b[2J' is not a rule; the tag was not counted\n",
    )
