"""CONTRIBUTING.md and tests/README.md: their places exist, and the tests follow their rules."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
OF_TESTS = (ROOT / "tests" / "README.md").read_text("utf-8")
_ROOTS = "reflector|tests|docs|examples|migrations|benchmarks|changelog.d"
PLACES = sorted(
    place
    for place in set(re.findall(rf"(?<![\w/])((?:{_ROOTS})/[\w./-]*\w)", PAGE + OF_TESTS))
    if not re.search(r"NAME|ROOM|test_$", place)
)
_MOST_WORDS = 8


MODULES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in sorted((ROOT / "tests").rglob("*.py"))
}


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("place", PLACES)
def test_each_place_of_the_page_exists(place: str) -> None:
    assert (ROOT / place).exists()


def test_map_has_five_files() -> None:
    steps = re.findall(
        r"^\d\. `(reflector/[\w/]+\.py)`", _section("Read these five files first"), re.M
    )
    assert len(steps) == 5


def test_each_extension_names_its_places() -> None:
    extensions = re.findall(r"^## (Add .+)$", PAGE, re.MULTILINE)
    assert len(extensions) >= 6
    without = [title for title in extensions if "`reflector/" not in _section(title)]
    assert without == []


def test_page_is_short() -> None:
    assert len(PAGE.split()) <= 1_400


def test_page_of_the_tests_is_short() -> None:
    assert len(OF_TESTS.splitlines()) <= 45


def test_test_names_have_at_most_eight_words() -> None:
    names = [
        f"{path}: {name}"
        for path, text in MODULES.items()
        for name in re.findall(r"^ *(?:async )?def test_(\w+)", text, re.MULTILINE)
    ]
    assert len(names) > 1_000
    assert [name for name in names if name.count("_", name.index(": ")) >= _MOST_WORDS] == []


def test_no_test_imports_from_a_test_module() -> None:
    importing = re.compile(r"^ *from (?:tests[\w.]*)?\.test_\w+ import", re.MULTILINE)
    assert importing.search("from tests.cli.test_list import shown")
    assert [path for path, text in MODULES.items() if importing.search(text)] == []
