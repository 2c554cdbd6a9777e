"""The README's figures are those of the last full run."""

from __future__ import annotations

import platform
import re
from pathlib import Path

import pytest

from benchmarks.harness import Row, machine, table
from benchmarks.readme_block import BEGIN, END, SHOWN, block, fill

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
MADE = "# Measured\n\nMeasured with `x` on 2 cores.\n\n" + table(
    [
        Row(SHOWN[0], 0.010, 0.012, 1.2, 1.5, "a floor"),
        Row(SHOWN[1], 0.010, 0.030, 3.0, 2.0),
        Row("asking", 0.010, 0.5, 50.0),
    ]
)


def test_the_readmes_table_is_that_of_the_last_full_run() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = readme.partition(BEGIN)[2].partition(END)[0]
    assert shown == block(RESULTS.read_text("utf-8") if RESULTS.exists() else "")


def test_misses_md_has_every_goal_that_the_last_full_run_missed_and_no_other() -> None:
    rows = [line.strip("|").split(" | ") for line in RESULTS.read_text("utf-8").splitlines() if line.startswith("| ")]
    missed = {row[0].strip() for row in rows if row[5].strip() == "**missed**"}
    told = (RESULTS.parent / "MISSES.md").read_text("utf-8").splitlines()
    assert {line.removeprefix("- ") for line in told if line.startswith("- ")} == missed


def test_the_table_shows_the_chosen_parts_and_replaces_the_readmes_alone(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}old\n{END}after\n", "utf-8")
    fill(readme, MADE)
    shown = readme.read_text("utf-8")
    assert shown == f"before\n{BEGIN}{block(MADE)}{END}after\n"
    assert f"| {SHOWN[0]} | 10 ms | 12 ms | 1.20 × | ≤ 1.5 × |\n" in shown
    assert f"| {SHOWN[1]} | 10 ms | 30 ms | 3.00 × | ≤ 2 × **missed** |\n" in shown
    assert "asking" not in shown
    assert "Measured with `x` on 2 cores." in shown
    readme.write_text("nothing\n", "utf-8")
    with pytest.raises(ValueError, match="lacks the lines"):
        fill(readme, MADE)


def test_what_is_published_names_no_folder_of_the_machine_and_not_its_name() -> None:
    published = machine() + (RESULTS.read_text("utf-8") if RESULTS.exists() else "")
    assert re.search(r"(?<![\w.])/\w+/", published) is None
    assert f" {platform.node()} " not in published
