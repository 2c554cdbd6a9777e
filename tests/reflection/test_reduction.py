"""Windows that are too big for a model: what is shown fits, keeps the evidence, and the rest is counted."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.reflection.reduction import LEAST_LIMIT, Reduced, estimate_tokens, reduce_messages
from reflector.reflection.turns import LIGHT, SMALL, WHOLE, fitted, size_of, turn_of
from reflector.transcripts.message import Message, Origin, ToolCall, ToolResult
from tests.conftest import examples

NAMES = ("pat-001", "mis-002", "kpt_3")


def says(text: str, origin: Origin = "model", **more: Any) -> Message:
    return Message(0, "", "assistant" if origin in {"model", "synthetic"} else "user", origin, "", "", text, **more)


def runs(command: str) -> Message:
    return says("", calls=(ToolCall("c", "Bash", {"command": command}),))


def answers(output: str, *, is_error: bool = False) -> Message:
    return says("", "tool", results=(ToolResult("c", output, is_error),))


def written(reduced: Reduced) -> str:
    return json.dumps(list(reduced.turns), indent=2, ensure_ascii=False)


def all_parts(
    messages: list[Message], cited: tuple[str, ...] = NAMES, limit: int = 2_000, most_parts: int = 4
) -> list[Reduced]:
    first = reduce_messages(lambda: messages, cited, limit, most_parts=most_parts)
    later = [
        reduce_messages(lambda: messages, cited, limit, part=part, most_parts=most_parts)
        for part in range(2, first.parts + 1)
    ]
    return [first, *later]


def contents(reduced: Reduced) -> list[str]:
    return [turn["content"] for turn in reduced.turns if "content" in turn]


def steps(count: int, size: int = 600) -> Iterator[Message]:
    """Commands and their output, each with its number."""
    for number in range(count):
        yield runs(f"step {number}")
        yield answers(f"output {number} " + "x " * (size // 2))


def filler(count: int, words: int = 60) -> list[Message]:
    return [says(f"filler {number} " + "and so on " * (words // 3)) for number in range(count)]


def test_a_window_that_fits_is_shown_whole() -> None:
    messages = [
        says("Fix the cart.", "human"),
        says("As [pat-001] says, I look first.", thinking="Where is it?"),
        runs("ls"),
        answers("cart.py", is_error=True),
        says("Caveat: hook output", "injected"),
    ]
    reduced = reduce_messages(lambda: messages, NAMES, 2_000)
    assert reduced == Reduced(
        (
            {"role": "user", "content": "Fix the cart."},
            {"role": "assistant", "content": "As [pat-001] says, I look first.", "thinking": "Where is it?"},
            {"role": "assistant", "content": "", "tool_calls": [{"name": "Bash", "input": {"command": "ls"}}]},
            {"role": "user", "content": "", "tool_results": [{"output": "cart.py", "is_error": True}]},
            {"role": "user", "content": "Caveat: hook output", "origin": "injected"},
        ),
        1,
        1,
        {},
    )


def test_tool_output_is_cut_before_any_turn_goes_and_keeps_the_error() -> None:
    output = "line\n" * 900 + "TypeError: total is None\n" + "line\n" * 900 + "1 failed"
    messages = [says("Fix it.", "human", thinking=""), runs("pytest"), answers(output), says("Hm.", thinking="t" * 99)]
    reduced = reduce_messages(lambda: messages, NAMES, 2_000)
    shown = reduced.turns[2]["tool_results"][0]["output"]
    assert "TypeError: total is None" in shown
    assert shown.startswith("line")
    assert shown.endswith("1 failed")
    assert len(reduced.turns) == 4
    assert set(reduced.left_out) == {"tool_characters", "thinking_characters"}


def test_old_turns_go_next_but_not_the_task_the_citation_its_evidence_and_the_end() -> None:
    messages = [
        says("The task.", "human"),
        *filler(300),
        says("I apply [pat-001] here."),
        *filler(20),
        says("That was wrong!", "human"),
        *filler(300),
        says("No, do not run that.", "refusal"),
        *filler(300),
        says("The end."),
    ]
    reduced = reduce_messages(lambda: messages, NAMES, 12_000)
    assert reduced.parts == 1
    shown = contents(reduced)
    cited = shown.index("I apply [pat-001] here.")
    assert [text.split(" and")[0] for text in shown[cited - 4 : cited]] == [f"filler {n}" for n in range(296, 300)]
    assert [text.split(" and")[0] for text in shown[cited + 1 : cited + 13]] == [f"filler {n}" for n in range(12)]
    assert {"The task.", "That was wrong!", "No, do not run that.", "The end."} <= set(shown)
    assert any("left out" in turn.get("note", "") for turn in reduced.turns)
    gone = sum(int(turn["note"].split()[1]) for turn in reduced.turns if "content" not in turn)
    assert gone == reduced.left_out["turns"] == len(messages) - len(shown)


def test_the_room_that_is_left_goes_to_the_latest_turns() -> None:
    messages = [says("The task.", "human"), *filler(500)]
    reduced = reduce_messages(lambda: messages, NAMES, 5_000)
    shown = contents(reduced)
    # The first two are what the agent answered to a person.
    assert shown == [message.text for message in (*messages[:3], *messages[-len(shown) + 3 :])]
    assert estimate_tokens(written(reduced)) > 4_000


def test_without_citations_errors_and_what_people_say_stay() -> None:
    messages = [
        says("The task.", "human"),
        *steps(200),
        runs("the step that failed"),
        answers("exit code 1", is_error=True),
        *steps(200),
        says("Not like that.", "human"),
        *steps(200),
    ]
    text = written(reduce_messages(lambda: messages, (), 15_000))
    assert "Not like that." in text
    assert "the step that failed" in text
    assert "exit code 1" in text


def test_neighbourhoods_that_do_not_fit_are_parts_that_begin_with_the_task() -> None:
    messages = [says("The task.", "human")]
    for number in range(8):
        messages += [*filler(30), says(f"As [pat-001] says, {number}."), *filler(30), says(f"Good {number}", "human")]
    parts = all_parts(messages, limit=9_000)
    assert 1 < len(parts) <= 4
    assert all(part.turns[0]["content"] == "The task." for part in parts)
    for number in range(8):
        holders = [part for part in parts if f"As [pat-001] says, {number}." in contents(part)]
        assert len(holders) == 1
        assert f"Good {number}" in contents(holders[0])


def test_a_text_that_is_longer_than_the_limit_is_cut_around_its_citation() -> None:
    text = "before " * 20_000 + "here [pat-001] decided it" + " after" * 20_000
    messages = [says("The task.", "human"), says(text)]
    reduced = reduce_messages(lambda: messages, NAMES, 2_000)
    shown = contents(reduced)[1]
    assert "here [pat-001] decided it" in shown
    assert shown.startswith("before")
    assert shown.endswith("after")


def test_a_citation_in_thinking_stays_when_thinking_goes() -> None:
    messages = [
        says("The task.", "human"),
        says("", thinking="w " * 5_000 + "[mis-002] warns me" + " w" * 5_000),
        *steps(4),
    ]
    assert "[mis-002] warns me" in written(reduce_messages(lambda: messages, NAMES, 2_000))


def test_more_citations_than_fit_leave_the_latest_of_each_name_and_say_so() -> None:
    messages = [says("The task.", "human"), says("[mis-002] once.")]
    messages += [says(f"[pat-001] for the {number}. time " + "w" * 400) for number in range(2_000)]
    parts = all_parts(messages, limit=LEAST_LIMIT)
    shown = [text for part in parts for text in contents(part)]
    assert "[mis-002] once." in shown
    assert (
        sum("[pat-001]" in text for text in shown) + sum(part.left_out.get("citations", 0) for part in parts) == 2_000
    )


@pytest.mark.parametrize("part", [0, 2, -1])
def test_a_part_that_does_not_exist_is_refused(part: int) -> None:
    with pytest.raises(ValueError, match=f"part is {part}; this window has 1"):
        reduce_messages(lambda: [says("Hello", "human")], NAMES, 2_000, part=part)


def test_a_limit_that_nothing_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="1,499"):
        reduce_messages(list, NAMES, LEAST_LIMIT - 1)
    with pytest.raises(ValueError, match="most_parts is 0"):
        reduce_messages(list, NAMES, LEAST_LIMIT, most_parts=0)


def test_an_empty_window_has_one_empty_part() -> None:
    assert reduce_messages(list, NAMES, LEAST_LIMIT) == Reduced((), 1, 1, {})


PIECES = st.sampled_from(
    [
        "w",
        "word ",
        '{"a": 1},\n',
        "漢字",
        "😀",
        "\x00\x1b[0m",
        "    \t\n",
        "Ünïcödé",
        "9f8A/+",
        "error: no\n",
        '"\\',
        "\ud800",
    ]
)
TEXTS = st.one_of(
    st.just(""),
    st.text(max_size=40),
    st.builds(lambda piece, times: piece * times, PIECES, st.sampled_from([1, 30, 400, 3_000])),
    st.builds(
        lambda left, times, name, right: f"{left * times} [{name}] {right * times}",
        PIECES,
        st.sampled_from([0, 1, 50, 1_000]),
        st.sampled_from([*NAMES, "pat-999", "pat-" + "1" * 60]),
        PIECES,
    ),
)
VALUES = st.recursive(
    st.one_of(TEXTS, st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
CALLS = st.builds(ToolCall, st.just("c"), st.text(max_size=9), st.dictionaries(st.text(max_size=5), VALUES, max_size=3))
RESULTS = st.builds(ToolResult, st.just("c"), TEXTS, st.booleans())
ORIGINS = ["model", "model", "model", "synthetic", "human", "tool", "refusal", "injected", "summary"]
MESSAGES = st.builds(
    lambda origin, text, thinking, calls, results, times: says(
        text, origin, thinking=thinking, calls=tuple(calls) * times, results=tuple(results) * times
    ),
    st.sampled_from(ORIGINS),
    TEXTS,
    st.one_of(st.just(""), TEXTS),
    st.lists(CALLS, max_size=2),
    st.lists(RESULTS, max_size=2),
    st.sampled_from([1, 1, 1, 1, 20]),
)
WINDOWS = st.builds(
    lambda messages, times: messages * times, st.lists(MESSAGES, max_size=8), st.sampled_from([1, 1, 1, 1, 6])
)
LIMITS = st.sampled_from([LEAST_LIMIT, 2_000, 5_000, 20_000])
CITED = st.sampled_from([(), NAMES, (*NAMES, "pat-" + "1" * 60)])


@settings(max_examples=examples(100))
@given(WINDOWS, CITED, LIMITS, st.integers(1, 4))
def test_no_part_of_any_window_is_above_the_limit(
    messages: list[Message], cited: tuple[str, ...], limit: int, most_parts: int
) -> None:
    parts = all_parts(messages, cited, limit, most_parts)
    assert len(parts) <= most_parts
    for number, part in enumerate(parts, 1):
        assert (part.part, part.parts) == (number, len(parts))
        assert estimate_tokens(written(part)) <= limit
        assert all(type(count) is int and count > 0 for count in part.left_out.values())


@settings(max_examples=examples(30))
@given(WINDOWS, CITED, LIMITS)
def test_the_same_window_has_the_same_parts(messages: list[Message], cited: tuple[str, ...], limit: int) -> None:
    again = tuple(reversed(cited))
    assert all_parts(messages, cited, limit) == all_parts(list(messages), again, limit)


@settings(max_examples=examples(80))
@given(
    st.lists(st.sampled_from(["cites", "human", "refusal", "tool", "long"]), min_size=1, max_size=200),
    LIMITS,
    st.integers(1, 4),
)
def test_turns_keep_their_order_and_every_citation_that_is_not_counted_is_in_one_part(
    kinds: list[str], limit: int, most_parts: int
) -> None:
    make: Mapping[str, Callable[[int], Message]] = {
        "cites": lambda n: says(f"#{n} as [pat-001] says " + "word " * 40),
        "human": lambda n: says(f"#{n} please " + "go on " * 10, "human"),
        "refusal": lambda n: says(f"#{n} no", "refusal"),
        "tool": lambda n: says(f"#{n} ", "tool", results=(ToolResult("c", "out " * 500, False),)),
        "long": lambda n: says(f"#{n} " + "long text " * 600),
    }
    messages = [make[kind](number) for number, kind in enumerate(kinds)]
    parts = all_parts(messages, NAMES, limit, most_parts)
    shown: list[int] = []
    for part in parts:
        numbers = [int(text.split()[0][1:]) for text in contents(part)]
        if part.part > 1 and numbers and numbers[0] in shown:
            assert messages[numbers[0]].role == "user"
            numbers = numbers[1:]
        shown += numbers
    assert shown == sorted(set(shown))
    assert len(shown) + sum(part.left_out.get("turns", 0) for part in parts) == len(messages)
    citing = {number for number, kind in enumerate(kinds) if kind == "cites"}
    assert len(citing - set(shown)) == sum(part.left_out.get("citations", 0) for part in parts)


@given(MESSAGES, st.sampled_from([WHOLE, LIGHT, SMALL]))
def test_a_turn_shows_what_it_says_that_it_shows(message: Message, strength: Any) -> None:
    data, shown = turn_of(message, NAMES, strength)
    marks = data["content"].count("[…")
    assert shown.characters <= len(message.text)
    assert len(data["content"]) - 40 * marks <= shown.characters <= len(data["content"])
    if strength == WHOLE:
        outputs = sum(len(result["output"]) for result in data.get("tool_results", ()))
        assert outputs <= shown.tool_characters
    assert size_of(data) >= estimate_tokens(json.dumps([data], indent=2, ensure_ascii=False)) * 20 - 19


@given(MESSAGES)
def test_the_last_strength_makes_any_message_small(message: Message) -> None:
    assert fitted(message, NAMES, WHOLE, 1)[1] < 500 * 20


MARK = re.compile(r"\n\[… (\d+) characters …\]\n")


@settings(max_examples=examples(80))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["model", "human", "injected"]),
            st.sampled_from(["w", "words ", "As [pat-001] says "]),
            st.sampled_from([1, 10, 300, 4_000]),
        ),
        max_size=60,
    ),
    CITED,
    LIMITS,
    st.integers(1, 4),
)
def test_every_character_is_shown_or_counted(
    given_texts: list[tuple[Origin, str, int]], cited: tuple[str, ...], limit: int, most_parts: int
) -> None:
    messages = [says(piece * times, origin, thinking="t" * times) for origin, piece, times in given_texts]
    parts = all_parts(messages, cited, limit, most_parts)
    shown = thought = 0
    for part in parts:
        turns = [turn for turn in part.turns if "content" in turn]
        # The second turn of a later part says what is elsewhere; the first, if it is the task, is a copy.
        copies = 1 if part.part > 1 and "content" in part.turns[0] else 0
        shown += sum(len(MARK.sub("", turn["content"])) for turn in turns[copies:])
        thought += sum(len(MARK.sub("", turn.get("thinking", ""))) for turn in turns[copies:])
        shown += part.left_out.get("characters", 0)
        thought += part.left_out.get("thinking_characters", 0)
    assert shown == sum(len(message.text) for message in messages)
    assert thought == sum(len(message.thinking) for message in messages)


def big_window() -> Iterator[Message]:
    """About 20 MB of a session, written as it is read."""
    for number in range(6_000):
        if number % 50 == 0:
            yield says(f"Please do the next thing, {number}.", "human")
        yield says(f"Step {number}" + (" as [pat-001] says" if number % 700 == 3 else ""), thinking="hm " * 50)
        yield runs("cat file " * 20)
        yield answers(f"{number} " + "some output of a tool 123\n" * 120, is_error=number % 90 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [20_000, pytest.param(180_000, marks=pytest.mark.slow)])
def test_twenty_megabytes_take_flat_memory(limit: int) -> None:
    # A pass that is quadratic takes minutes, which the suite's time limit for each test ends.
    tracemalloc.start()
    try:
        reduced = reduce_messages(big_window, NAMES, limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    assert estimate_tokens(written(reduced)) <= limit


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("", 0),
        ("a", 1),
        ("The quick brown fox jumps over the lazy dog.", 14),
        ('{"role": "user", "content": "hi"}', 14),
        ("漢字かな交じり文", 12),
        ("😀", 4),
        ("9f86d081884c7d659a2feaa0c55ad015", 22),
    ],
)
def test_an_estimate_is_not_below_what_new_tokenizers_need(text: str, least: int) -> None:
    assert least <= estimate_tokens(text) <= 5 * len(text)


@given(st.text(), st.text())
def test_an_estimate_of_a_whole_is_not_above_that_of_its_pieces(left: str, right: str) -> None:
    assert estimate_tokens(left + right) <= estimate_tokens(left) + estimate_tokens(right)
