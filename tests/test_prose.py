"""README, pages, help and messages keep the limits of plain prose; docs/ and CONTRIBUTING.md say
`make prose`.
"""

import subprocess

import pytest

from tests import prose

LIMITS = prose.limits()
_NAMES = {
    "words": "words that another word replaces",
    "sentences": f"sentences of more than {prose.MOST_WORDS} words",
    "heads": "unnamed columns or long summaries",
}
CASES = [(place, kind) for place in prose.places() for kind in prose.KINDS]


@pytest.fixture(scope="module")
def counts() -> dict[str, dict[str, list[str]]]:
    return prose.counts()


@pytest.mark.parametrize(("place", "kind"), CASES)
def test_prose_keeps_its_limit(
    place: str, kind: str, counts: dict[str, dict[str, list[str]]]
) -> None:
    """The limit of an older text only falls: `python -m tests.prose` lowers it."""
    found = counts[place][kind]
    most = LIMITS.get((place, kind), 0)
    head = f"{place}: {len(found)} {_NAMES[kind]}, at most {most}, the new ones first:"
    assert len(found) <= most, "\n".join([head, *_newest_first(place, found)])


def _newest_first(place: str, found: list[str]) -> list[str]:
    """Return the findings, first those that the last commit of a page does not have."""
    shown = subprocess.run(
        ["git", "show", f"HEAD:{place}"], capture_output=True, text=True, cwd=prose.ROOT
    )
    before = " ".join(prose.prose_of(shown.stdout).split())
    return sorted(found, key=lambda finding: finding in before)


def test_new_sentence_is_listed_first() -> None:
    (old, *_) = prose.pages()["docs/stability.md"].split("\n\n")
    assert _newest_first("docs/stability.md", [old, "A new one."])[0] == "A new one."


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("Show what is recorded.", 1),
        ("It is no ledger, and mends nothing.", 2),
        ("You see the reason for each count.", 0),
        ("The agent says so.", 0),
    ],
)
def test_better_words_are_known(text: str, number: int) -> None:
    assert len(prose.words(text)) == number


@pytest.mark.parametrize(("length", "number"), [(25, 0), (26, 1)])
def test_long_sentence_is_found(length: int, number: int) -> None:
    assert len(prose.long_sentences(" ".join(["word"] * length) + ". Short one.")) == number


@pytest.mark.parametrize(
    ("page", "number"), [("| To | Run |\n|---|---|\n", 0), ("| To | |\n|---|---|\n", 1)]
)
def test_table_without_a_head_is_found(page: str, number: int) -> None:
    assert len(prose.bare_heads(page)) == number


def test_every_limit_belongs_to_a_text() -> None:
    assert [key for key in LIMITS if key not in CASES] == []
