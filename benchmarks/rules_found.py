"""How well rules are recognised in labelled lines of instruction files.

    python -m benchmarks.rules_found FOLDER [--errors]

FOLDER contains `*.jsonl` (file_id, language, line_number, text, label) and `src_files/FILE_ID.md`.
A label `rule` or `mixed` counts as a rule. A line without a matching unit counts as a fact.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from reflector.instructions.kind import Kind
from reflector.instructions.units import Unit, units_of


class Figures(NamedTuple):
    """The numbers of rules that were found, missed, and found by mistake."""

    found: int = 0
    missed: int = 0
    wrong: int = 0

    @property
    def precision(self) -> float:
        return self.found / max(1, self.found + self.wrong)

    @property
    def recall(self) -> float:
        return self.found / max(1, self.found + self.missed)

    def with_line(self, is_rule: bool, is_found: bool) -> Figures:
        return Figures(
            self.found + (is_rule and is_found),
            self.missed + (is_rule and not is_found),
            self.wrong + (is_found and not is_rule),
        )


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).lstrip("0123456789")


def unit_of(units: list[Unit], line: dict[str, Any]) -> Unit | None:
    """Return the unit of a labelled line: it begins at that line, with the same words."""
    words = _letters(line["text"])[:40]
    near = [unit for unit in units if abs(unit.number - line["line_number"]) <= 1]
    return next((unit for unit in near if _letters(unit.text).startswith(words)), None)


def labelled(folder: Path) -> Iterator[tuple[dict[str, Any], Unit | None]]:
    """Yield each labelled line with its unit."""
    lines = [
        json.loads(text) for path in sorted(folder.glob("*.jsonl")) for text in path.open("rb")
    ]
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*/*.md"))}
    units = {name: units_of(text) for name, text in texts.items()}
    for line in lines:
        yield line, unit_of(units[line["file_id"]], line)


def main() -> None:
    folder = Path(sys.argv[1])
    figures: defaultdict[str, Figures] = defaultdict(Figures)
    for line, unit in labelled(folder):
        is_rule = line["label"] in ("rule", "mixed")
        is_found = unit is not None and unit.kind == Kind.RULE
        for group in ("all", line["language"], f"file {line['file_id']}"):
            figures[group] = figures[group].with_line(is_rule, is_found)
        if "--errors" in sys.argv and is_rule != is_found:
            place = f"{line['file_id']}:{line['line_number']} {line['section'][:30]}"
            print(
                line["label"], "as", unit and unit.kind.value, place, line["text"][:150], sep=" | "
            )
    for group, each in sorted(figures.items()):
        print(f"{group:10} precision {each.precision:.2f}  recall {each.recall:.2f}  {each}")
    whole = "\n".join(path.read_text() for path in sorted(folder.glob("*/*.md")))
    began = time.process_time()
    units_of(whole)
    spent = time.process_time() - began
    lines = whole.count("\n")
    print(f"{lines} lines in {1000 * spent:.0f} ms, {500_000 * spent / lines:.0f} ms for 500")


if __name__ == "__main__":
    main()
