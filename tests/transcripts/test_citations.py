import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.transcripts.citations import (
    called_wrong,
    citations_of,
    cited_names,
    extract_cited_ids,
    spread,
)
from reflector.transcripts.message import Message
from tests.conftest import assert_linear


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        (
            [
                said("user", "Help me refactor this code"),
                said("assistant", "Based on [pat-001] and [mis-002], I recommend..."),
                said("user", "What about [pat-003]?"),
                said("assistant", "Good point. Also applying [pat-001] here..."),
            ],
            ["pat-001", "mis-002"],
        ),
        (
            [
                said("user", "Help me with this"),
                said("assistant", ("Sure, here is the solution...")),
            ],
            [],
        ),
        ([said("assistant", "[pat-001] is great. [pat-001] again. [pat-001].")], ["pat-001"]),
        ([], []),
        ([said("system", "[pat-001]"), {"content": "[pat-002]"}, {"role": "assistant"}], []),
        ([said("assistant", [{"type": "text", "text": "[pat-001]"}])], []),
        (
            [said("assistant", "[oth-2] [pat-1]"), said("assistant", "[ctx-9] [pat-1]")],
            ["oth-2", "pat-1", "ctx-9"],
        ),
    ],
)
def test_only_the_assistants_strings_are_searched_in_order(
    messages: list[dict[str, Any]], names: list[str]
) -> None:
    assert extract_cited_ids(messages) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Following [kpt_001] and [pref-003], I suggest...", ["kpt_001", "pref-003"]),
        ("[pat-1] [mis-002] [ctx-004] [oth-005]", ["pat-1", "mis-002", "ctx-004", "oth-005"]),
        ("[[pat-001]](x)", ["pat-001"]),
        (
            "[PAT-001] [pat-] [kpt-001] [pat_001] [ pat-001 ] [pat-001, mis-002] [sec-001] [pat-٣]",
            [],
        ),
    ],
)
def test_the_pattern_of_a_citation_is_exact(text: str, names: list[str]) -> None:
    assert extract_cited_ids([said("assistant", text)]) == names


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just("assistant"),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["role", "content", "x"]), inner)
    ),
    max_leaves=8,
)


@given(st.lists(odd, max_size=5))
def test_odd_entries_are_ignored_and_never_raise(entries: list[Any]) -> None:
    assert isinstance(extract_cited_ids(entries), list)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("As [pat-001] says, and `[mis-002]` warns.", ["pat-001", "mis-002"]),
        ("[pat-001][mis-002] both apply", ["pat-001", "mis-002"]),
        ("see [pat-001](patterns/pat-001.md)", []),
        ("see [pat-001][patterns] and [pat-002]", ["pat-002"]),
        ("[pat-001]: docs/pat-001.md", []),
        ('[pat-001]: https://example.org "Pattern 1"', []),
        ("[pat-001]: use absolute paths, so I did", ["pat-001"]),
        ("Applying [pat-001]: yes", ["pat-001"]),
        ("[pat-001] helpful=3 harmful=0 :: Use absolute paths", []),
        ("- **[pat-001]** helpful=3 harmful=0 :: Use [pat-002]\n[mis-001] applies", ["mis-001"]),
        ("```\n[pat-001]\n```\n[pat-002]", ["pat-002"]),
        ("  ~~~ text\n[pat-001]\n```\n~~~\n[pat-002]", ["pat-002"]),
        ("````md\n```\n[pat-001]\n```\n[pat-003]\n````\n[pat-002]", ["pat-002"]),
        ("before [pat-001]\n```python\n# [pat-002]", ["pat-001"]),
        ("```[pat-001]``` is inline\n[pat-002]", ["pat-001", "pat-002"]),
        ("[pat-001] (see above)", ["pat-001"]),
        ("[pat-1] [pat-001] [pat-1]", ["pat-1", "pat-001"]),
        ("[pat-" + "9" * 100 + "]", []),
        ("", []),
        ("[pat-001 wrong: list[int] fails here] and [pat-002 wrong]", ["pat-001", "pat-002"]),
        ("[pat-001 wrong: as [mis-001] says][mis-002]", ["pat-001", "mis-002"]),
        ("Per [pat-001, mis-002] I test first.", ["pat-001", "mis-002"]),
        (
            (
                "[pat-001; mis-002]; [ctx-1 and oth-2]; [pat-3, pat-4, and pat-5]; [pref-1 / "
                "kpt_2]、[pat-6、pat-7]"
            ),
            [
                "pat-001",
                "mis-002",
                "ctx-1",
                "oth-2",
                "pat-3",
                "pat-4",
                "pat-5",
                "pref-1",
                "kpt_2",
                "pat-6",
                "pat-7",
            ],
        ),
        ("[pat-001: tests first] and [mis-002: see arr[0]] apply", ["pat-001", "mis-002"]),
        ("- [pat-001: tests first]", ["pat-001"]),
        ("[pat-001 – tests first]", ["pat-001"]),
        ("[pat-001, pat-002: tests first][mis-001]", ["pat-001", "pat-002", "mis-001"]),
        ("[pat-001, mis-002](x) [pat-001: a](x) [pat-001, pat-002][label]", []),
        (
            (
                "[pat-001, foo] [pat-001,] [, pat-001] [pat-001: [x] [pat-001 pat-002] "
                "[pat-001:\nwhy] "
                "[pat-001:]"
            ),
            [],
        ),
        ("```\n[pat-001, pat-002]\n```", []),
        ("[pat-001 wrongly] [pat-001 not wrong] [pat-001 wrong: arr[0] [pat-001 wrong:\nwhy]", []),
    ],
)
def test_code_links_and_repeated_bullets_are_no_citations(text: str, names: list[str]) -> None:
    assert cited_names(text) == names


_PIECES = st.sampled_from(
    [
        "[pat-001]",
        "[pat-2]",
        "`",
        "```",
        "~",
        "\n",
        " ",
        "(",
        ")",
        ":",
        "#",
        ">",
        "[x]",
        "a/b",
        "helpful=1 harmful=0",
    ]
)


@given(st.lists(_PIECES).map("".join))
def test_names_in_prose_are_among_all_names(
    text: str,
) -> None:
    names = cited_names(text)
    assert set(names) <= set(extract_cited_ids([said("assistant", text)]))
    wrong = re.sub(r"\[(pat-\d+)\]", r"[\1 wrong: it [x] moved]", text)
    assert (cited_names(wrong), extract_cited_ids([said("assistant", wrong)])) == (names, [])
    assert called_wrong(Message(1, "u", "assistant", "model", "", "", wrong)) == dict.fromkeys(
        names, "it [x] moved"
    )


@pytest.mark.parametrize("text", ["[pat-1, ", "[pat-1", "[pat-1 and ", "[pat-1: ", "[pat-1,pat-1"])
def test_joined_names_are_read_in_linear_time(text: str) -> None:
    assert_linear(lambda size: spread(text * size), 5_000)


@pytest.mark.parametrize(
    "origin", ["model", "synthetic", "human", "tool", "refusal", "injected", "summary"]
)
def test_only_the_model_cites_and_its_thinking_counts(origin: Any) -> None:
    message = Message(1, "u", "assistant", origin, "", "", "[pat-002] [pat-001]", "[pat-001]")
    assert citations_of(message) == (["pat-001", "pat-002"] if origin == "model" else [])
    message = message._replace(
        text=("[pat-002 wrong — moved] [pat-003 wrong] [pat-001 wrong: why]"),
        thinking="[pat-003 wrong: old]",
    )
    assert called_wrong(message) == (
        {"pat-003": "", "pat-002": "moved"} if origin == "model" else {}
    )
