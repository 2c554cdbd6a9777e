"""An answer, read (A-21, A-22): whatever stands around it or is missing of it, and at the cost
of its length.
"""

import json

import pytest
from hypothesis import given, settings

from reflector.judges.answers import (
    ParsedTag,
    extract_json_object,
    fault_of,
    objects_in,
    parse_answer,
)
from reflector.playbook.names import is_name
from tests.building import ANSWERS, OBJECT, TAG_1, TAG_2
from tests.conftest import assert_linear, examples, slow_except


@pytest.mark.parametrize(
    ("text", "strategy", "expected"),
    [
        (' {"a":1}\n', "whole", {"a": 1}),
        ("{}", "whole", {}),
        (
            '{"analysis": "He said \\"hello\\" {", "n": 1}',
            "whole",
            {"analysis": 'He said "hello" {', "n": 1},
        ),
        ('{"a": "x ```json {} ``` y"}', "whole", {"a": "x ```json {} ``` y"}),
        (
            ('```json\n{"analysis":"a","bullet_tags":[]}\n```'),
            "fence",
            {"analysis": "a", "bullet_tags": []},
        ),
        ('```JSON\n{"a":6}\n```', "braces", {"a": 6}),
        ('```\n{"a":1}\n```', "bare_fence", {"a": 1}),
        ('```json\nnope\n```\n```\n{"a":2}\n```', "bare_fence", {"a": 2}),
        ('Here you are:\n{"analysis": "x"}\nHope it helps.', "braces", {"analysis": "x"}),
        ('Here: {"a": {"b": "}"}} tail', "braces", {"a": {"b": "}"}}),
        ('{"a":1} then {"b":2}', "braces", {"a": 1}),
        ('```python\nprint(1)\n```\n{"a":3}', "braces", {"a": 3}),
        ('```json\n{"a":4}', "braces", {"a": 4}),
        (
            ('```json\n{"a": "run ```sh\\nls\\n``` now"}\n```'),
            "braces",
            {"a": "run ```sh\nls\n``` now"},
        ),
        ('```json\n{bad}\n```\n{"a":1}', "braces", {"a": 1}),
        ('Use {x} like so: {"a":5}', "braces", {"a": 5}),
        ('use { to open, then {"a":5}', "braces", {"a": 5}),
        ('first {"a": {"b": 1,}} then {"c": 2}', "braces", {"c": 2}),
        *(
            (text, "none", None)
            for text in ("", "plain text", "[1,2]", '"hi"', "42", "```json\n[1,2]\n```")
        ),
        *(
            (text, "none", None)
            for text in ('{"a": {"b":1}', "{'a':1}", '{"a":1,}', '{a: {"b": 1}}', '{"a":' * 5000)
        ),
        *(
            (f'{{"a": {value}}}', "none", None)
            for value in ("NaN", "1e999", "-Infinity", "1" * 5000)
        ),
    ],
)
def test_first_sound_object_is_found_with_its_strategy(
    text: str, strategy: str, expected: object
) -> None:
    assert next((found.strategy for found in objects_in(text)), "none") == strategy
    assert extract_json_object(text) == expected


PARSED = (
    ParsedTag(0, "pat-001", "helpful", "tests passed"),
    ParsedTag(1, "mis-002", "harmful", "it broke"),
)

WAYS = {
    "thoughts with a draft, then cut off": (
        f'<think>{{"analysis": "hm", "bullet_tags": []}}</think>{OBJECT[:-2]}'
    ),
    "prose with braces first": (
        f"I looked at {{curly}} things and at {{x: 1}}.\n\n{OBJECT}\n\nDone."
    ),
    "the empty example first": (
        f'The form is {{"analysis": "...", "bullet_tags": [...]}}.\n{OBJECT}'
    ),
    "a trailing comma": OBJECT.replace("]}", ",]}"),
    "no comma between tags": OBJECT.replace("}, {", "} {"),
    "NaN beside the tags": OBJECT.replace('"analysis"', '"sure": NaN, "analysis"'),
    "comments": OBJECT.replace("[{", "[ // the tags\n{").replace("}, {", "}, /* and */ {"),
    "no opening brace": OBJECT[1:],
    "thoughts with a draft first": (
        f'<think>{{"analysis": "hm", "bullet_tags": [{TAG_2}]}}</think>{OBJECT}'
    ),
    "thoughts that end twice": (
        f'<think>{{"analysis": "hm", "bullet_tags": []}}</think>hm</think>{OBJECT}'
    ),
    "a byte order mark": "\ufeff" + OBJECT,
    "Windows line ends": f"```json\r\n{OBJECT}\r\n```\r\n",
    "names in brackets": OBJECT.replace('"pat-001"', '"[pat-001]"').replace(
        '"mis-002"', '" mis-002 "'
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_tag_is_read_however_the_model_answers(way: str) -> None:
    parsed = parse_answer(WAYS[way])
    assert parsed.tags == PARSED
    assert parsed.analysis == "all well"
    assert parsed.failed is (parsed.strategy == "repaired")


@pytest.mark.parametrize("around", ["%s", "Here: %s", '<think>{"analysis": "hm"}</think>%s'])
@pytest.mark.parametrize("end", ["a </think> b", '</think>{\\"analysis\\": \\"hm\\"}'])
def test_closing_think_tag_inside_an_answer_is_text(around: str, end: str) -> None:
    parsed = parse_answer(around % OBJECT.replace("all well", end))
    assert parsed.analysis == json.loads(f'"{end}"')
    assert parsed.tags == PARSED
    assert parsed.strategy != "repaired"


@pytest.mark.parametrize("cut", range(len(OBJECT)))
def test_an_answer_cut_anywhere_keeps_what_is_complete(cut: int) -> None:
    parsed = parse_answer(OBJECT[:cut])
    ends = [OBJECT.index(tag) + len(tag) for tag in (TAG_1, TAG_2)]
    assert parsed.tags == PARSED[: sum(end <= cut for end in ends)]
    assert parsed.analysis == ("all well" if cut > OBJECT.index('",') else "")
    assert parsed.failed
    assert "cut off" in parsed.fault or not parsed.analysis


@pytest.mark.parametrize(
    "damaged",
    [
        "{'name': 'x'}",
        ('{"name": "x", "rationale": "he said "great, thanks" and left"}'),
        '{"name": NaN}',
        "{",
    ],
)
def test_a_damaged_entry_costs_no_other_one(damaged: str) -> None:
    parsed = parse_answer(
        f'{{"analysis": "all well", "bullet_tags": [{TAG_1}, {damaged}, {TAG_2}]}}'
    )
    assert parsed.tags == PARSED
    assert parsed.strategy == "repaired"


_NO_OBJECT, _NO_NAME = "the entry is not an object", "the name is not valid"
_GONE, _NO_TAG, _ODD = "the name is missing", "the tag is missing", "the tag is not text"
#: What stands for bullet_tags, the tags that come of it, and the first problem.
UNUSABLE: list[tuple[str, list[ParsedTag], str]] = [
    ("null", [], "`bullet_tags` must be a list, not None"),
    (
        '["pat-001"]',
        [ParsedTag(0, None, None, malformed=_NO_OBJECT)],
        f"tag 0: {_NO_OBJECT}: 'pat-001'",
    ),
    (
        '[{"name": ["pat-001"], "tag": "helpful", "rationale": "r"}]',
        [ParsedTag(0, None, "helpful", "r", _NO_NAME)],
        f"tag 0: {_NO_NAME}: ['pat-001']",
    ),
    (
        '[{"name": "pat-\\u001b[2J", "tag": "helpful"}]',
        [ParsedTag(0, None, "helpful", "", _NO_NAME)],
        rf"tag 0: {_NO_NAME}: 'pat-\x1b[2J'",
    ),
    ('[{"tag": "x"}]', [ParsedTag(0, None, "unknown", "", _GONE)], f"tag 0: {_GONE}: None"),
    (
        '[{"name": "pat-001"}]',
        [ParsedTag(0, "pat-001", None, "", _NO_TAG)],
        f"tag 0: pat-001: {_NO_TAG}: None",
    ),
    (
        '[{"name": "pat-001", "tag": 1}]',
        [ParsedTag(0, "pat-001", None, "", _ODD)],
        f"tag 0: pat-001: {_ODD}: 1",
    ),
    (
        '[{"name": "pat-001", "tag": "Helpful"}]',
        [ParsedTag(0, "pat-001", "unknown")],
        "tag 0: pat-001 has the tag 'Helpful'; a tag must be helpful, harmful or neutral",
    ),
    (
        '[{"name": "pat-001", "tag": "neutral", "rationale": {"a": 1}}]',
        [ParsedTag(0, "pat-001", "neutral")],
        "tag 0: pat-001: the rationale must be text, not {'a': 1}",
    ),
    (
        (
            '[{"name": "pat-001", "relevant": 0, "followed": ["no"], "turn": true, "quote": 7, '
            '"sure": "very"}]'
        ),
        [ParsedTag(0, "pat-001", None, "", _NO_TAG)],
        f"tag 0: pat-001: {_NO_TAG}: None",
    ),
]


@pytest.mark.parametrize(("bullet_tags", "tags", "problem"), UNUSABLE)
def test_what_is_unusable_is_kept_as_a_fact(
    bullet_tags: str, tags: list[ParsedTag], problem: str
) -> None:
    parsed = parse_answer(f'{{"analysis": "a", "bullet_tags": {bullet_tags}}}')
    assert (list(parsed.tags), parsed.problems[:1], parsed.analysis) == (tags, (problem,), "a")


def test_useless_and_repeated_entries_cost_no_other() -> None:
    parsed = parse_answer(f'{{"bullet_tags": [{", ".join([TAG_1] * 10_001)}]}}')
    assert len(parsed.tags) == 10_000
    assert parsed.problems == (
        "the answer has more than 10,000 tags; reflector did not read the other tags",
    )
    assert len(parse_answer(f'{{"bullet_tags": [{", ".join(["0"] * 10_000)}]}}').problems) == 51
    parsed = parse_answer(f'{{"bullet_tags": ["x", {TAG_1}, null, {TAG_1}]}}')
    assert [(tag.index, tag.name) for tag in parsed.tags if tag.malformed is None] == [
        (1, "pat-001"),
        (3, "pat-001"),
    ]


def said(**parts: object) -> str:
    """An answer about pat-001 with these parts besides its name and its tag."""
    return json.dumps({"bullet_tags": [{"name": "pat-001", "tag": "neutral", **parts}]})


#: What is no answer about pat-001, and why.
NO_ANSWERS = {
    "": "the answer does not contain JSON",
    "I cannot say.": "the answer does not contain JSON",
    f"[{TAG_1}]": (
        "the object has the keys 'name', 'tag', 'rationale'; an answer must have analysis or "
        "bullet_tags"
    ),
    "{}": "the object has no keys; an answer must have analysis or bullet_tags",
    "null": "the answer does not contain JSON",
    '{"analysis": "only"}': "`bullet_tags` is missing",
    '{"bullet_tags": null}': "`bullet_tags` must be a list, not None",
    '{"bullet_tags": {"pat-001": "helpful"}}': (
        "`bullet_tags` must be a list, not {'pat-001': 'helpful'}"
    ),
    '{"analysis": ["a"], "bullet_tags": []}': "`analysis` must be text, not ['a']",
    '{"bullet_tags": ["pat-001"]}': "tag 0: the entry is not an object: 'pat-001'",
    f'{{"bullet_tags": [{TAG_2}]}}': "tag 0: the judge was not asked about mis-002",
    f'{{"bullet_tags": [{TAG_1}, {TAG_2}]}}': "tag 1: the judge was not asked about mis-002",
    said(
        tag="good"
    ): "tag 0: pat-001 has the tag 'good'; a tag must be helpful, harmful or neutral",
    said(relevant="no"): "tag 0: pat-001: relevant must be true or false, not 'no'",
    said(turn="3"): "tag 0: pat-001: turn must be a whole number, not '3'",
    said(quote=["x"]): "tag 0: pat-001: quote must be text, not ['x']",
}


@pytest.mark.parametrize("text", NO_ANSWERS)
def test_what_is_no_answer_says_why(text: str) -> None:
    assert fault_of(parse_answer(text), ["pat-001"]) == NO_ANSWERS[text]


@pytest.mark.parametrize(
    "text",
    [
        '{"bullet_tags": []}',
        '{"analysis": null, "bullet_tags": []}',
        f'Here it is:\n```json\n{{"bullet_tags": [{TAG_1}]}}\n```\nGood luck!',
        said(turn=None, quote="", sure=None, more=1),
        '{"bullet_tags": [{"name": "[pat-001]", "tag": "neutral"}]}',
    ],
)
def test_an_answer_has_no_fault(text: str) -> None:
    assert fault_of(parse_answer(text), ["pat-001"]) == ""


def test_prose_is_bounded_cleaned_and_redacted() -> None:
    secret = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5"
    answer = {
        "analysis": "a\x1b[31m\n\u202eb " + "x" * 30_000,
        "bullet_tags": [
            {
                "name": "pat-001",
                "tag": "helpful",
                "rationale": f"it used {secret}\x07 " + "y" * 3000,
            },
            {"name": secret, "tag": secret, "rationale": "\ud800"},
        ],
    }
    parsed = parse_answer(json.dumps(answer))
    assert parsed.analysis.startswith("a b xxx")
    assert len(parsed.analysis) == 20_000
    assert parsed.tags[0].rationale.startswith("it used [redacted:github-token] yyy")
    assert len(parsed.tags[0].rationale) == 2_000
    assert parsed.tags[1] == ParsedTag(1, None, "unknown", "\ufffd", "the name is not valid")
    assert secret not in repr(parsed)
    assert all(len(problem) <= 300 for problem in parsed.problems)


@settings(max_examples=examples(600))
@given(ANSWERS)
def test_any_answer_is_parsed_into_facts(text: str) -> None:
    parsed = parse_answer(text)
    assert parsed == parse_answer(text)
    assert [tag.index for tag in parsed.tags] == list(range(len(parsed.tags)))
    for tag in parsed.tags:
        assert tag.name is None or is_name(tag.name)
        assert tag.tag in (None, "unknown", "helpful", "harmful", "neutral")
        assert tag.malformed or (tag.name and tag.tag)
    repr(parsed).encode()
    value = extract_json_object(text)
    assert value is None or isinstance(value, dict)


HOSTILE = [
    "{",
    "}",
    "[",
    '"',
    "```",
    "```json\n",
    "\\",
    '\\"',
    "{}",
    "{ ",
    '{"',
    '{"a":',
    '{"a":1,',
    '{"a":[',
    '{"a":NaN,',
    '{"a":"',
    '{"a":x',
    "{'a':",
    "{a:",
    '"a":',
    "a{",
    '"{',
    '{"a":1}```',
    '"analysis":"',
    '"analysis": {',
    '"bullet_tags":[',
    '"bullet_tags":[{"name":',
    '{"name":"',
    '{"name":"x","tag":"y"}',
    '\\"bullet_tags\\":',
    "</think>",
    '{"bullet_tags":[],',
    '{"analysis":"x"}',
    "\n",
    '",',
]
PREFIXES = ["", '{"analysis": "', '{"bullet_tags": [', '"bullet_tags": [{"name": "a', '"']


@pytest.mark.parametrize("prefix", slow_except(PREFIXES[:1], PREFIXES), ids=ascii)
@pytest.mark.parametrize("seed", slow_except(HOSTILE[::6], HOSTILE), ids=ascii)
def test_hostile_answer_is_parsed_in_linear_time(seed: str, prefix: str) -> None:
    assert_linear(lambda size: parse_answer(prefix + seed * (size // len(seed))), 4_000)
