"""Changes taken out of a file, by its versions or by their lines alone."""

from hypothesis import given, strategies as st

from reflector.memory.line_facts import line_change
from reflector.memory.lines import (
    hunks_between,
    hunks_of,
    join,
    reversed_at,
    split,
    without_change,
    without_lines,
)

_LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "d\n"]), max_size=12)
_FILES = _LINES.map(lambda lines: "".join(lines).encode())


@given(st.binary(max_size=60))
def test_splitting_keeps_any_bytes(content: bytes) -> None:
    assert join(split(content)) == content


@given(_FILES, _FILES)
def test_change_is_taken_out_of_its_own_result(before: bytes, after: bytes) -> None:
    assert without_change(before, after, after) == before


@given(_FILES, _FILES, _FILES)
def test_lines_added_at_both_ends_stay(before: bytes, after: bytes, more: bytes) -> None:
    wrapped = b"-- top\n" + more + b"-- above\n" + after + b"-- below\n"
    taken = without_change(before + b"", after, wrapped)
    assert taken in (None, b"-- top\n" + more + b"-- above\n" + before + b"-- below\n") or (
        taken is not None
        and len(split(taken)) == len(split(wrapped)) - len(split(after)) + len(split(before))
    )


@given(_FILES, _FILES)
def test_numbered_lines_give_the_version_before(before: bytes, after: bytes) -> None:
    before, after = (content.replace(b"\r", b"") for content in (before, after))
    facts = line_change(before, after).facts
    removed, added = (
        [(line["line"], line["text"]) for line in facts[name]] for name in ("removed", "added")
    )
    hunks = hunks_of(removed, added)
    assert before in [*reversed_at(hunks, after)] or not hunks


def test_removed_line_needs_its_neighbours() -> None:
    before, after = b"a\nx\nb\n", b"a\nb\n"
    assert without_change(before, after, b"a\nnew\nb\n") is None


def test_removed_line_returns_between_its_neighbours() -> None:
    before, after = b"a\nx\nb\n", b"a\nb\n"
    assert without_change(before, after, b"new\na\nb\n") == b"new\na\nx\nb\n"


def test_lines_that_occur_twice_are_not_guessed() -> None:
    hunks = hunks_of([(0, "old")], [(0, "new")])
    assert without_lines(hunks, b"new\nnew\n") is None
    assert without_lines(hunks, b"x\nnew\n") == b"x\nold\n"


def test_large_files_are_compared_in_time() -> None:
    before = b"".join(b"%d\n" % number for number in range(100_000))
    hunks = hunks_between(before, b"first\n" + before[::-1])
    assert sum(len(hunk.removed) for hunk in hunks) >= 99_000
