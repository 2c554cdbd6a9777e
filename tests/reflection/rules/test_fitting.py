"""Weights follow from labels: none move nothing, few move little, and what they say of a finding shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.counting import VERDICTS
from reflector.reflection.rules.findings import FINDINGS
from reflector.reflection.rules.fitting import Label, points, refitted, written
from reflector.reflection.rules.weighing import SIDES, shipped, weights_of

LABELS = st.lists(
    st.builds(
        Label,
        st.lists(st.sampled_from(sorted(FINDINGS)), unique=True, max_size=4),
        st.sampled_from(VERDICTS),
        st.just(1.0),
    ),
    max_size=30,
)


def test_without_labels_the_weights_stay() -> None:
    for side in SIDES:
        assert points([], side, shipped().points[side]) == pytest.approx(shipped().points[side])


@given(labels=LABELS)
def test_the_order_of_the_labels_changes_nothing(labels: list[Label]) -> None:
    start = shipped().points["helpful"]
    assert points(labels, "helpful", start) == pytest.approx(points(labels[::-1], "helpful", start), abs=0.011)


def test_a_finding_weighs_more_for_the_side_that_its_labels_name() -> None:
    labels = [Label(["praised"], "harmful")] * 20
    moved = refitted(labels, shipped(), 85).weights
    assert moved.points["harmful"]["praised"] > shipped().points["harmful"]["praised"]
    assert moved.points["helpful"]["praised"] < shipped().points["helpful"]["praised"]
    assert moved.points["helpful"]["replaced"] == shipped().points["helpful"]["replaced"]
    assert moved.version.startswith(f"{shipped().version}+")


def test_weights_that_are_written_are_read_as_they_were(tmp_path: Path) -> None:
    weights = refitted([Label(["objects"], "neutral")] * 5, shipped(), 85).weights
    (tmp_path / "weights.json").write_text(written(weights))
    assert weights_of(tmp_path / "weights.json") == weights


@pytest.mark.parametrize("text", ["", "[]", "{}", json.dumps({"version": "x", "points": {}, "cutoffs": {}})])
def test_a_file_that_holds_no_weights_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json holds no weights.*judge --fit"):
        weights_of(path)
