"""Changes taken out of a file, by its versions or by their lines alone."""

from hypothesis import given, strategies as st

from reflector.memory.lines import (
    LineChange,
    Numbered,
    hunks_between,
    join,
    line_change,
    split,
    without_change,
    without_lines,
)

_LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "d\n"]), max_size=12)
_FILES = _LINES.map(lambda lines: "".join(lines).encode())


def _bare(content: bytes) -> list[str]:
    return [line.rstrip("\r\n") for line in split(content)]


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
def test_numbered_lines_lead_to_the_version_before(before: bytes, after: bytes) -> None:
    change = line_change(before, after)
    lines = _bare(after)
    for hunk in reversed(change.hunks):
        lines[hunk.after : hunk.after + len(hunk.added)] = hunk.removed
    assert lines == _bare(before)


def test_removed_line_needs_its_neighbours() -> None:
    before, after = b"a\nx\nb\n", b"a\nb\n"
    assert without_change(before, after, b"a\nnew\nb\n") is None


def test_removed_line_returns_between_its_neighbours() -> None:
    before, after = b"a\nx\nb\n", b"a\nb\n"
    assert without_change(before, after, b"new\na\nb\n") == b"new\na\nx\nb\n"


def test_lines_with_others_between_are_removed() -> None:
    before, after, now = b"a\nb\n", b"a\nx\n\ny\nb\n", b"a\nx\nmine\n\ny\nmore\nb\n"
    assert without_change(before, after, now) == b"a\nmine\nmore\nb\n"
    hunks = line_change(before, after).hunks
    assert without_lines(hunks, now) == b"a\nmine\nmore\nb\n"
    assert without_lines(hunks, now + b"y\n") is None


def test_lines_that_replaced_others_stay_together() -> None:
    before, after, now = b"a\nold\nb\n", b"a\nx\ny\nb\n", b"a\nx\nmine\ny\nb\n"
    assert without_change(before, after, now) is None
    assert without_lines(line_change(before, after).hunks, now) is None


def test_lines_that_occur_twice_are_not_guessed() -> None:
    hunks = LineChange([Numbered(0, "new")], [Numbered(0, "old")]).hunks
    assert without_lines(hunks, b"new\nnew\n") is None
    assert without_lines(hunks, b"x\nnew\n") == b"x\nold\n"


def test_large_files_are_compared_in_time() -> None:
    before = b"".join(b"%d\n" % number for number in range(100_000))
    hunks = hunks_between(before, b"first\n" + before[::-1])
    assert sum(len(hunk.removed) for hunk in hunks) >= 99_000
