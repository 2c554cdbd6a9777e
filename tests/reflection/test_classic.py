from __future__ import annotations

import copy
import logging
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.names import SECTIONS
from reflector.reflection.ace import apply_bullet_tags, format_playbook


def entry(name: str, helpful: int = 0, harmful: int = 0, text: str = "t") -> dict[str, Any]:
    return {"name": name, "text": text, "helpful": helpful, "harmful": harmful}


def playbook(**sections: list[dict[str, Any]]) -> dict[str, Any]:
    return {"version": "1.0", "sections": {title: sections.get(slug, []) for slug, title in SECTIONS.items()}}


def counts(book: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {e["name"]: (e["helpful"], e["harmful"]) for entries in book["sections"].values() for e in entries}


def tag(name: str, verdict: str) -> dict[str, Any]:
    return {"name": name, "tag": verdict, "rationale": "r"}


def test_sections_stand_in_canonical_order_with_a_blank_line_between() -> None:
    book = playbook(oth=[entry("oth-001", 0, 4, "z")], pat=[entry("pat-001", 3, 1, "a"), entry("pat-002", text="b")])
    assert format_playbook(book, "<{key_points}>") == (
        "<## PATTERNS & APPROACHES\n"
        "[pat-001] helpful=3 harmful=1 :: a\n"
        "[pat-002] helpful=0 harmful=0 :: b\n"
        "\n"
        "## OTHERS\n"
        "[oth-001] helpful=0 harmful=4 :: z>"
    )


def test_the_packaged_template_asks_for_citations() -> None:
    text = format_playbook(playbook(pat=[entry("pat-001")]))
    assert "## PATTERNS & APPROACHES\n[pat-001] helpful=0 harmful=0 :: t\n" in text
    assert "cite its id" in text.lower()
    assert "[pat-" in text
    assert "{key_points}" not in text


@pytest.mark.parametrize("book", [playbook(), {}, {"sections": {}}, {"sections": None}, {"sections": {"OTHERS": None}}])
def test_an_empty_playbook_is_no_text_at_all(book: dict[str, Any]) -> None:
    assert format_playbook(book) == ""


def test_braces_and_placeholders_in_a_text_are_only_text() -> None:
    book = playbook(pat=[entry("pat-001", text="use {x} and {key_points} and {0.__class__}")])
    assert format_playbook(book, "{key_points}").endswith(":: use {x} and {key_points} and {0.__class__}")


@pytest.mark.parametrize(
    ("before", "verdict", "after"),
    [
        ((3, 1), "helpful", (4, 1)),
        ((0, 0), "harmful", (0, 1)),
        ((2, 1), "neutral", (2, 1)),
        ((2, 1), "unknown_value", (2, 1)),
        ((2, 1), "Helpful", (2, 1)),
    ],
)
def test_a_tag_adds_one_or_nothing(before: tuple[int, int], verdict: str, after: tuple[int, int]) -> None:
    book = playbook(pat=[entry("pat-001", *before)])
    assert apply_bullet_tags(book, [tag("pat-001", verdict)]) is book
    assert counts(book) == {"pat-001": after}


def test_tags_find_their_bullets_in_all_sections() -> None:
    names = ["pat-001", "mis-001", "pref-001", "ctx-001", "oth-001"]
    book = playbook(**{name.split("-")[0]: [entry(name)] for name in names})
    verdicts = ["helpful", "harmful", "neutral", "helpful", "harmful"]
    apply_bullet_tags(book, [tag(name, verdict) for name, verdict in zip(names, verdicts, strict=True)])
    assert list(counts(book).values()) == [(1, 0), (0, 1), (0, 0), (1, 0), (0, 1)]


def test_every_usable_tag_counts_and_the_others_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    book = playbook(pat=[entry("pat-001")])
    tags: list[Any] = [tag("pat-001", verdict) for verdict in ("helpful", "helpful", "harmful", "Helpful")]
    tags += [{"name": "pat-001"}, {"tag": "helpful"}, tag("pat-999", "helpful"), "pat-001", None]
    tags += [{"name": ["pat-001"], "tag": "helpful"}, {"name": "pat-001", "tag": ["helpful"]}]
    with caplog.at_level(logging.WARNING, "reflector"):
        apply_bullet_tags(book, tags)
    assert counts(book) == {"pat-001": (2, 1)}
    assert len(caplog.records) == 8
    assert "tag 6: no bullet is named 'pat-999'; it was not counted" in caplog.text


def test_a_tag_of_no_use_is_told_on_stderr_also_where_the_host_logs_errors_only() -> None:
    code = (
        "import logging; logging.basicConfig(level=logging.ERROR); from reflector import apply_bullet_tags;"
        "apply_bullet_tags({'sections': {}}, [{'name': 'pat-999', 'tag': 'helpful'}])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "no bullet is named 'pat-999'" in ran.stderr


def test_the_same_list_applied_twice_counts_twice() -> None:
    book = playbook(pat=[entry("pat-001")])
    for _ in range(2):
        apply_bullet_tags(book, [tag("pat-001", "helpful")])
    assert counts(book) == {"pat-001": (2, 0)}


@pytest.mark.parametrize("tags", [None, "helpful", {"pat-001": "helpful"}, 3])
def test_tags_that_are_no_list_change_nothing(tags: Any) -> None:
    book = playbook(pat=[entry("pat-001", 1, 1)])
    before = copy.deepcopy(book)
    assert apply_bullet_tags(book, tags) is book
    assert book == before


def test_of_two_entries_with_one_name_the_last_is_counted() -> None:
    book = playbook(pat=[entry("pat-001")], oth=[entry("pat-001")])
    apply_bullet_tags(book, [tag("pat-001", "helpful")])
    assert [e["helpful"] for entries in book["sections"].values() for e in entries] == [0, 1]


def test_an_unknown_name_is_told_on_stderr_without_any_logging_set_up() -> None:
    code = (
        "from reflector.reflection.ace import apply_bullet_tags;"
        "apply_bullet_tags({'sections': {}}, [{'name': 'pat-\\x1b[2J', 'tag': 'helpful'}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "tag 0: no bullet is named 'pat-\\x1b[2J'; it was not counted\n"
    assert done.stdout == ""


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.sampled_from(["pat-001", "mis-001", "pat-999"]) | st.integers(),
                "tag": st.sampled_from(["helpful", "harmful", "neutral", "x"]) | st.none(),
            }
        ),
        max_size=20,
    )
)
def test_counters_never_shrink_and_equal_the_number_of_usable_tags(tags: list[dict[str, Any]]) -> None:
    book = playbook(pat=[entry("pat-001", 1, 2)], mis=[entry("mis-001")])
    apply_bullet_tags(book, tags)
    for name, (helpful, harmful) in {"pat-001": (1, 2), "mis-001": (0, 0)}.items():
        of_name = [t["tag"] for t in tags if t["name"] == name]
        assert counts(book)[name] == (helpful + of_name.count("helpful"), harmful + of_name.count("harmful"))
