"""The units of an instruction file: how a text is divided, and which units are rules."""

import csv
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reflector.instructions.kind import Kind
from reflector.instructions.units import units_of
from tests.conftest import assert_linear, first_fast

_LINES = Path(__file__).with_name("labelled.tsv")
_TABLE = "| name | value |\n|---|---|\n"


def numbered(text: str) -> list[tuple[int, str]]:
    return [(unit.number, unit.text) for unit in units_of(text)]


def kinds(text: str) -> list[str]:
    return [unit.kind.value for unit in units_of(text)]


@cache
def labelled() -> dict[str, list[tuple[bool, bool]]]:
    """Return for each language whether each line is a rule, and whether it was found as one."""
    pairs: dict[str, list[tuple[bool, bool]]] = {}
    with _LINES.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            head = _TABLE if row["line"].startswith("|") else ""
            (unit,) = units_of(f"# Shop\n\n## {row['heading']}\n\n{head}{row['line']}\n")
            pair = (row["label"] == "rule", unit.kind == Kind.RULE)
            pairs.setdefault(row["language"], []).append(pair)
    return pairs


@pytest.mark.parametrize("language", ["en", "pt", "de", "fr", "zh", "ja"])
def test_rules_of_each_language_are_found(language: str) -> None:
    pairs = labelled()[language]
    right = pairs.count((True, True))
    assert right >= 0.85 * sum(is_rule for is_rule, _ in pairs)
    assert right >= 0.85 * sum(is_found for _, is_found in pairs)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("- Keep it\n  small\n- Ask\n", [(1, "Keep it small"), (3, "Ask")]),
        ("- Tests:\n  - all\n  - fast\n", [(1, "Tests:"), (2, "all"), (3, "fast")]),
        ("1. Read it\n2. [ ] Fix it\n", [(1, "Read it"), (2, "Fix it")]),
        ("One here. Two\nthere. Three.\n", [(1, "One here."), (1, "Two there."), (2, "Three.")]),
        ("Use a tool, e.g. Git. Or\nnot.\n", [(1, "Use a tool, e.g. Git."), (1, "Or not.")]),
        ("先写测试。再改代码。\n", [(1, "先写测试。"), (1, "再改代码。")]),
        ("| a | b |\n|--|--|\n| c | d |\n", [(3, "c | d")]),
        ("```sh\n# all\nmake x\nmake y\n```\n", [(2, "# all\nmake x"), (4, "make y")]),
        ("```sh\nmake \\\n```\n```sh\ntest\n```\n", [(2, "make \\"), (5, "test")]),
        ("```sh\nmake \\\ntest\n```\n", [(2, "make \\\ntest")]),
        ("```sh\nmake \\\n\ntest\n```\n", [(2, "make \\"), (4, "test")]),
        ("```sh\nx \\\n# a\ny\nz\n```\n", [(2, "x \\\ny"), (5, "z")]),
        ("```python\nx = 1\n```\nText.\n", [(4, "Text.")]),
        ("> ```sh\n> make x\n> ```\n- Ask\n", [(2, "make x"), (4, "Ask")]),
        ("> ```python\n> x = 1\n> ```\n> Text.\n", [(4, "Text.")]),
        ("> ```sh\n> make x\n\n- Ask\n", [(2, "make x"), (4, "Ask")]),
        ("> | a | b |\n> |--|--|\n> | c | d |\n", [(3, "c | d")]),
        ("---\na: b\n---\n- Ask\n", [(4, "Ask")]),
        ("<!-- no\n- no\n-->\n- Ask\n", [(4, "Ask")]),
        ("> Ask first.\n", [(1, "Ask first.")]),
        ("Title\n=====\n- Ask\n", [(3, "Ask")]),
        ("In the year\n2024. We moved\n", [(1, "In the year 2024."), (2, "We moved")]),
        ("- a\n\n  b\n\nc\n", [(1, "a b"), (5, "c")]),
    ],
)
def test_pieces_begin_at_their_lines(text: str, units: list[tuple[int, str]]) -> None:
    assert numbered(text) == units


def test_unit_has_heading_and_lead_in() -> None:
    text = "# Shop\n## Git\nNever:\n- push to main\n\n## Web\n- it is small\n"
    units = [(unit.heading, unit.lead_in, unit.kind.value) for unit in units_of(text)]
    assert units == [
        ("Git", "", "fact"),
        ("Git", "Never:", "rule"),
        ("Web", "", "fact"),
    ]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("## Rules\n- Test files are small\n", "rule"),
        ("## Structure\n- Test files are small\n", "fact"),
        ("Always:\n- green tests\n", "rule"),
        ("## Rules\n- [the docs](x.md)\n", "fact"),
        ("- `src/`\n", "fact"),
        ("- `push()` / `pop()` - Add and remove items of the queue\n", "fact"),
        ("- Lint: `make lint`\n", "command"),
        ("- Lint: `make lint`, never by hand\n", "rule"),
        ("## Commands\n- Use `make lint` for it\n", "command"),
        ("```\nrm -f file  # NOT: rm file\n```\n", "rule"),
        ("```\na → b\n```\n", "fact"),
        ("It is done to avoid work.\n", "fact"),
        ("The server always reads from the cache.", "fact"),
        ("Debug files are never deleted.", "fact"),
        ("## Tests\n- Sessions of two folders do not conflict\n", "fact"),
        ("Do not push to main.", "rule"),
        ("## Rules\n- Keeps the build small\n", "fact"),
        ("## Rules\nThe script makes:\n- a small build\n", "fact"),
        ("## Rules\nWhen to rebuild:\n- After a change of the theme\n", "fact"),
        ("## Rules\n- After a change, rebuild the theme\n", "rule"),
        ("- The parser does NOT flag long lines\n", "fact"),
        ("# Never push to main\n", "rule"),
        ("# Why you must clean it\n", ""),
        ("# Shop rules\n## Data\n- columns in lower case\n", "rule"),
        ("# Shop\n## Data\n- columns in lower case\n", "fact"),
        ("# Testing\n\nWe use pytest.", "fact"),
        ("Please keep the changelog in step.", "rule"),
        ("## Architecture Notes\n- All handlers return `Result`\n", "rule"),
        ("## Architecture\n- All handlers return `Result`\n", "fact"),
        ("## Architecture Notes\n- Handlers return `Result`\n", "fact"),
        ("## Architecture Notes\n- Pure functions: Keep utilities small\n", "rule"),
        ("## Architecture Notes\n- Controllers stay thin: parse, render\n", "rule"),
        ("## Tests\n- Fixtures come from factories, not from files\n", "rule"),
        ("## Rules\n- Errors are wrapped\n", "rule"),
        ("## Rules\n- Reviewers can squash commits\n", "fact"),
        ("- After changing the schema, regenerate: `just schema`\n", "rule"),
        ("## Commands\n- Run `just codegen` before each release\n", "rule"),
        ("## Commands\n- `make dist` - check the app before a release\n", "command"),
        ("- Run all tests: `pytest`\n", "command"),
        ("- Parts: `core`, `cli`\n", "fact"),
        ("Serve with `pnpm dev`, not with `node dist/server.js`.", "rule"),
        ("## Overview\n- The server is started by `pnpm dev`, not by `node server.js`.", "rule"),
        ("## Commands\n- Tests: `pnpm test` (not `npx vitest`)\n", "rule"),
        ("## Commands\nSearch with `rg`, not with `grep -r`.", "rule"),
        ("This repo uses `pnpm` instead of `npm`.", "rule"),
        ("Package manager: pnpm, not npm.", "rule"),
        ("The page is short, not long.", "fact"),
        ("- `make test` runs unit tests, not `make e2e`.\n", "fact"),
        ("The key is `id` instead of `name`.", "fact"),
        ("Every new Python file starts with the licence header.", "rule"),
        ("- Every new file has a header.\n", "rule"),
        ("Every file in `src/` has a header.", "rule"),
        ("- Functions have type hints.\n", "rule"),
        ("New components use hooks.", "rule"),
        ("Integration tests use the test database.", "rule"),
        ("Migrations are reversible.", "rule"),
        ("Deploys happen on Monday only.", "rule"),
        ("Ship on Fridays only.", "rule"),
        ("Tea in boxes from Kandy only.", "rule"),
        ("Supported on Linux only.", "fact"),
        ("The cache is read only.", "fact"),
        ("The API lives in src/api.", "fact"),
        ("Tests are in tests/.", "fact"),
        ("All modules are loaded at the start.", "fact"),
        ("Each service has a port.", "fact"),
        ("## Structure\n- Functions have type hints\n", "fact"),
        ("The old functions have type hints.", "fact"),
        ("You must set:\n- `LANG`\n", "rule"),
        ("You must not use:\n- ❌\n", "rule"),
        ("## Security\n- docs/pr.md — Commit and review guides\n", "fact"),
        ("# Rules for Claude\n## Data\n- columns in lower case\n", "fact"),
        ("> [!NOTE]\n> Builds use caches.\n", "fact"),
        ("```\ninternal/\n```\n", "fact"),
        ("```\napp.go    Starts the app\n```\n", "fact"),
        ("Prüfen Sie jede Eingabe.", "rule"),
        ("Vor dem Commit testen.", "rule"),
        ("Versuch der Werkstatt den Server zu entlasten.", "fact"),
        ("Logger de los eventos", "fact"),
        ("## Erlaubt\n- Dateien nach Fehlern durchsuchen\n", "fact"),
        ("## Troubleshooting\n### Proxy\n- Check the proxy\n", "fact"),
        ("## Troubleshooting\n- Never run it as root\n", "rule"),
        ("The shop sells tea.", "fact"),
        ("I prefer short answers.", "rule"),
        ("Build:\n\nThe build is slow.", "fact"),
        ("ต้องอัปเดตแพ็กเกจก่อนรวมสาขา", "rule"),
        ("ຕ້ອງອັບເດດແພັກເກດ", "rule"),
        ("ត្រូវធ្វើបច្ចុប្បន្នភាពកញ្ចប់។", "rule"),
    ],
)
def test_kind_follows_from_words_and_place(text: str, kind: str) -> None:
    assert (kinds(text) or [""])[-1] == kind


@given(st.text(alphabet="-#>|`*1. \nab。!", max_size=300))
def test_any_text_has_units_in_its_lines(text: str) -> None:
    units = units_of(text)
    numbers = [unit.number for unit in units]
    assert numbers == sorted(numbers)
    assert all(1 <= number <= len(text.splitlines()) for number in numbers)
    assert all(unit.text for unit in units)


@pytest.mark.parametrize(
    "unit",
    first_fast(
        4,
        [
            "```\n",
            "a:\n```\n```\n",
            "> a\n",
            "|a|\n|-|\n\n",
            "<!-- ",
            "- a\n",
            "  - a:\n",
            "# # ",
            ". (",
            "`",
            "**a:** ",
        ],
    ),
)
def test_reading_time_grows_with_the_text(unit: str) -> None:
    assert_linear(lambda size: units_of(unit * (size // len(unit))), 5_000)
