"""Windows that are too big for a model: what is shown fits, keeps the evidence, and the rest is
counted.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from reflector.judges.excerpt import LEAST_LIMIT, Excerpt, compose, estimate_tokens, excerpt_of
from reflector.judges.prompts import find_template
from reflector.transcripts.message import Message, Origin, ToolCall, ToolResult
from tests.conftest import examples

NAMES = ("pat-001", "mis-002", "kpt_3")


def says(text: str, origin: Origin = "model", **more: Any) -> Message:
    return Message(
        0,
        "",
        "assistant" if origin in {"model", "synthetic"} else "user",
        origin,
        "",
        "",
        text,
        **more,
    )


def runs(command: str) -> Message:
    return says("", calls=(ToolCall("c", "Bash", {"command": command}),))


def answers(output: str, *, is_error: bool = False) -> Message:
    return says("", "tool", results=(ToolResult("c", output, is_error),))


def filler(count: int) -> list[Message]:
    return [says(f"filler {number} " + "and so on " * 120) for number in range(count)]


def cut(messages: list[Message], limit: int = 2_000, cited: tuple[str, ...] = NAMES) -> Excerpt:
    return excerpt_of(lambda: messages, cited, limit)


def contents(shown: Excerpt) -> list[str]:
    return [turn["content"] for turn in shown.turns if "content" in turn]


def test_a_window_that_fits_is_shown_whole() -> None:
    messages = [
        says("Fix the cart.", "human"),
        says("As [pat-001] says, I look first.", thinking="Where is it?"),
        runs("ls"),
        answers("cart.py", is_error=True),
        says("Caveat: hook output", "injected"),
    ]
    assert cut(messages) == Excerpt(
        (
            {"turn": 1, "role": "user", "content": "Fix the cart."},
            {
                "turn": 2,
                "role": "assistant",
                "content": ("As [pat-001] says, I look first."),
                "thinking": "Where is it?",
            },
            {
                "turn": 3,
                "role": "assistant",
                "tool_calls": [{"name": "Bash", "input": {"command": "ls"}}],
            },
            {"turn": 4, "role": "user", "tool_results": [{"output": "cart.py", "is_error": True}]},
            {"turn": 5, "role": "user", "origin": "injected", "content": "Caveat: hook output"},
        ),
        {},
    )
    assert cut([]) == Excerpt((), {})
    with pytest.raises(ValueError, match="1,499"):
        cut([], LEAST_LIMIT - 1)


#: What a crowded window keeps: the task, a citation, what people said, a refusal, an error, the end
#: of a run.
KEPT: Mapping[str, Message] = {
    "The task.": says("The task.", "human"),
    "I apply [pat-001] here.": says("I apply [pat-001] here."),
    "That was wrong!": says("That was wrong!", "human"),
    "No, do not run that.": says("No, do not run that.", "refusal"),
    "cannot find cart.py": answers("cannot find cart.py", is_error=True),
    "7 passed in 0.1s": answers("7 passed in 0.1s"),
}


@pytest.mark.parametrize("limit", [4_000, 12_000])
def test_a_crowded_window_keeps_its_evidence_in_full(limit: int) -> None:
    messages = [
        message for kept in KEPT.values() for message in (*filler(100), runs("npm test"), kept)
    ] + filler(100)
    found = cut(messages, limit)
    assert all(json.dumps(kept)[1:-1] in found.text for kept in KEPT)
    note, *turns = found.turns
    assert note["note"].startswith(f"{len(messages)} turns; ")
    assert len(turns) == len(messages) - found.left_out["turns"]
    assert all(
        turn.get("content", "") in messages[turn["turn"] - 1].text
        for turn in turns
        if "…" not in str(turn)
    )


@pytest.mark.parametrize("cited", [NAMES, ()])
def test_turns_after_a_citation_are_shown_first(
    cited: tuple[str, ...],
) -> None:
    messages = [*filler(100), says("I apply [pat-001]."), *filler(60)]
    shown = sorted({turn["turn"] for turn in cut(messages, 2_500, cited).turns[1:]} - {101})
    first = 102 if cited else 162 - len(shown)
    assert shown == [*range(first, first + len(shown))]
    assert 10 < len(shown) < 60


def test_agents_last_words_before_the_user_are_shown() -> None:
    answer = [says("Two fail " + "and so on " * 120), runs("ls"), says("Oh.", "human")]
    shown = cut([says("As [pat-001] says."), *filler(200), *answer, *filler(9)])
    assert any(text.startswith("Two fail") for text in contents(shown))


@pytest.mark.parametrize("field", ["text", "thinking"])
def test_a_long_text_is_cut_around_its_citation(field: str) -> None:
    text = "before " * 20_000 + "here [pat-001] decided it" + " after" * 20_000
    message = says("")._replace(**{field: text})
    shown = cut([says("The task.", "human"), message]).turns[1][
        "content" if field == "text" else field
    ]
    assert "here [pat-001] decided it" in shown
    assert (shown[:6], shown[-5:]) == ("before", "after")


def test_secret_is_removed_before_a_text_is_cut() -> None:
    messages = [*filler(100), says("x" * 140 + " ghp_" + "Ab3" * 12 + " and so on" * 20)]
    text = compose(find_template("reflector.txt"), "", [], lambda: messages, 6_000).text
    assert "xx [redacted:" in text
    assert "ghp_" not in text


def test_last_citation_of_each_name_is_shown() -> None:
    messages = [says("The task.", "human"), says("[mis-002] once.")]
    messages += [says(f"[pat-001] for the {number}. time " + "w" * 400) for number in range(2_000)]
    found = cut(messages, LEAST_LIMIT)
    shown = contents(found)
    assert shown[:2] == ["The task.", "[mis-002] once."]
    assert "1999. time" in shown[-1]
    assert sum("[pat-001]" in text for text in shown) + found.left_out["citations"] == 2_000


PIECES = st.sampled_from(
    ["w", "word ", '{"a": 1},\n', "漢字", "😀", "\x00\x1b[0m", " \t\n", "9f8A/+", "\ud800"]
)
TEXTS = st.builds(
    lambda left, times, name, right: f"{left * times}{name}{right * times}",
    *(
        PIECES,
        st.sampled_from([0, 1, 30, 400, 3_000]),
        st.sampled_from(["", "[pat-001]", "[mis-002]", "[pat-999]"]),
        PIECES,
    ),
)
VALUES = (
    TEXTS | st.integers() | st.lists(TEXTS, max_size=2) | st.dictionaries(TEXTS, TEXTS, max_size=2)
)
CALLS = st.builds(
    ToolCall,
    st.just("c"),
    st.text(max_size=9),
    st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
    st.just({}),
)
RESULTS = st.builds(ToolResult, st.just("c"), TEXTS, st.booleans())
ORIGINS = [
    "model",
    "model",
    "model",
    "synthetic",
    "human",
    "tool",
    "refusal",
    "injected",
    "summary",
]
MESSAGES = st.builds(
    lambda origin, text, thinking, calls, results, times: says(
        text, origin, thinking=thinking, calls=tuple(calls) * times, results=tuple(results) * times
    ),
    *(st.sampled_from(ORIGINS), TEXTS, st.just("") | TEXTS),
    *(st.lists(CALLS, max_size=2), st.lists(RESULTS, max_size=2), st.sampled_from([1, 1, 20])),
)
WINDOWS = st.builds(
    lambda messages, times: messages * times,
    st.lists(MESSAGES, max_size=8),
    st.sampled_from([1, 1, 6]),
)
LIMITS = st.sampled_from([LEAST_LIMIT, 2_000, 5_000, 20_000])
CITED = st.sampled_from([(), NAMES])


@settings(max_examples=examples(100))
@given(WINDOWS, CITED, LIMITS)
def test_an_excerpt_is_within_its_limit_and_fixed(
    messages: list[Message], cited: tuple[str, ...], limit: int
) -> None:
    found = cut(messages, limit, cited)
    assert estimate_tokens(found.text) <= limit
    assert all(type(count) is int and count > 0 for count in found.left_out.values())
    assert found == cut(list(messages), limit, (*reversed(cited),))


KINDS: Mapping[str, Callable[[int], Message]] = {
    "cites": lambda n: says(f"#{n} as [pat-001] says " + "word " * 40),
    "human": lambda n: says(f"#{n} please " + "go on " * 10, "human"),
    "refusal": lambda n: says(f"#{n} no", "refusal"),
    "tool": lambda n: says(f"#{n} ", "tool", results=(ToolResult("c", "out " * 500, False),)),
    "long": lambda n: says(f"#{n} " + "long text " * 600),
}


@settings(max_examples=examples(80))
@given(st.lists(st.sampled_from([*KINDS]), min_size=1, max_size=200), LIMITS)
def test_shown_turns_keep_their_order_and_others_count(kinds: list[str], limit: int) -> None:
    found = cut([KINDS[kind](number) for number, kind in enumerate(kinds)], limit)
    shown = [int(text.split()[0][1:]) for text in contents(found)]
    assert shown == sorted(set(shown))
    assert len(shown) + found.left_out.get("turns", 0) == len(kinds)
    citing = {number for number, kind in enumerate(kinds) if kind == "cites"}
    assert len(citing - set(shown)) == found.left_out.get("citations", 0)


def test_estimate_is_enough_for_new_tokenizers() -> None:
    prose, code, wide = (
        "The quick brown fox jumps over the lazy dog.",
        '{"role": "user", "content": "hi"}',
        "漢字かな交じり文",
    )
    least = {
        "": 0,
        "a": 1,
        prose: 14,
        code: 14,
        wide: 10,
        "😀": 4,
        "9f86d081884c7d659a2feaa0c55ad015": 22,
    }
    assert all(wanted <= estimate_tokens(text) <= 5 * len(text) for text, wanted in least.items())


@given(st.text(), st.text())
def test_estimate_of_a_whole_is_below_its_pieces(left: str, right: str) -> None:
    assert estimate_tokens(left + right) <= estimate_tokens(left) + estimate_tokens(right)
