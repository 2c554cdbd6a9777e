"""The benchmark of `rules`: nothing of a group decides how that group is judged."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from benchmarks.judgement import cases_of, cutoffs, decided, fitted, held_out, interval, main
from reflector.reflection.rules.wordings import wordings
from tests.road.sessions import Session

ENDS = {
    "helpful": "Perfect, that works. Thanks!",
    "harmful": "No, the total is wrong, revert it.",
    "neutral": "Go home.",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented sessions of four groups: they test the mechanism, not the figures."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "transcripts").mkdir()
    points, labels = [], []
    for number, label in enumerate([*ENDS] * 4):
        bullet = f"pat-{number + 1:03d}"
        points.append({"name": bullet, "text": "Change how the cart adds up its total.", "helpful": 0, "harmful": 0})
        session = Session(f"s-{number}").cites(bullet, None).user(ENDS[label])
        written = session.agent("Fine.").write(folder / "one.jsonl").read_bytes()
        (folder / "transcripts" / f"{number}.jsonl.xz").write_bytes(lzma.compress(written))
        case = {"transcript": f"{number}.jsonl.xz", "group": f"g{number % 4}", "bullet": bullet, "label": label}
        labels.append({**case, "confidence": "high", "sampling": "random" if number == 5 else "chosen"})
    sections = {"PATTERNS & APPROACHES": points}
    (folder / "playbook.json").write_text(json.dumps({"version": "1.0", "sections": sections}))
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    return folder


def test_a_group_is_judged_by_weights_and_cutoffs_of_the_others(folder: Path) -> None:
    cases = cases_of(folder)
    judged = held_out(cases)
    assert {one.case.citation.name for one in judged} == {case.citation.name for case in cases}
    others = fitted([case for case in cases if case.group != "g0"])
    for one in judged:
        if one.case.group == "g0":
            assert one.said.estimates[0] == others.estimate("helpful", one.case.found)
    assert len(decided(judged, 85)) == len(cases)


def test_a_cutoff_needs_enough_verdicts_above_it(folder: Path) -> None:
    assert cutoffs(held_out(cases_of(folder))) == {"helpful": {}, "harmful": {}}


def test_the_wordings_are_whole_again_afterwards(folder: Path) -> None:
    before = wordings("person")
    cases_of(folder)
    assert wordings("person") == before


def test_the_command_prints_both_samplings_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "--cases"]) == 0
    printed = capsys.readouterr().out
    assert "chosen points: 11 citations" in printed
    assert "random points: 1 citations" in printed


def test_a_folder_without_labels_is_refused_with_what_to_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "has no labels.jsonl" in capsys.readouterr().err


def test_an_interval_is_wide_where_little_was_seen() -> None:
    assert interval(0, 0) == "-"
    assert interval(9, 10) == "9/10 = 0.90 (0.60–0.98)"
