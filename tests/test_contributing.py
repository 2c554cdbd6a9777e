"""CONTRIBUTING.md: the places that it names exist, and its map is short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
_ROOTS = "reflector|tests|docs|examples|migrations|benchmarks|changelog.d"
PLACES = sorted(set(re.findall(rf"(?<![\w/])((?:{_ROOTS})/[\w./-]*\w)", PAGE)))


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
