from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.playbook.names import is_name
from reflector.reflection.answers import ParsedTag, parse_answer
from reflector.reflection.extraction import extract_json, extract_json_object
from tests.conftest import assert_linear, examples

FENCE = "```"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('```json\n{"analysis":"a","bullet_tags":[]}\n```', {"analysis": "a", "bullet_tags": []}),
        ('```\n{"a":1}\n```', {"a": 1}),
        ('Here you are:\n{"analysis": "x", "bullet_tags": []}\nHope it helps.', {"analysis": "x", "bullet_tags": []}),
        ('Here: {"a": {"b": "}"}} tail', {"a": {"b": "}"}}),
        ('{"a":1} then {"b":2}', {"a": 1}),
        ('```json\nnope\n```\n```\n{"a":2}\n```', {"a": 2}),
        ('```python\nprint(1)\n```\n{"a":3}', {"a": 3}),
        ('```json\n{"a":4}', {"a": 4}),
        ('```JSON\n{"a":6}\n```', {"a": 6}),
        ('{"analysis": "He said \\"hello\\" {", "n": 1}', {"analysis": 'He said "hello" {', "n": 1}),
        ('{"a": "```json\\n{\\"b\\": 1}\\n```"}', {"a": '```json\n{"b": 1}\n```'}),
        ('{"a": "x ```json {} ``` y"}', {"a": "x ```json {} ``` y"}),
        ('```json\n{"a": "run ```sh\\nls\\n``` now"}\n```', {"a": "run ```sh\nls\n``` now"}),
        ('```json\n{bad}\n```\n{"a":1}', {"a": 1}),
        ('Use {x} like so: {"a":5}', {"a": 5}),
        ('use { to open, then {"a":5}', {"a": 5}),
        ('first {"a": {"b": 1,}} then {"c": 2}', {"c": 2}),
        ('```json\n[1]\n```\n{"a":1}', {"a": 1}),
        ('{"a": {"b":1}', None),
        ("{'a':1}", None),
        ('{"a":1,}', None),
        ('{a: {"b": 1}}', None),
        ("plain text", None),
        ("```json\n{invalid json\n```", None),
        ("[1,2]", None),
        ('"hi"', None),
        ("42", None),
        ("```json\n[1,2]\n```", None),
        ("```json\n42\n```", None),
        ('{"a": NaN}', None),
        ('{"a": 1e999}', None),
        ('{"a": -Infinity}', None),
        ('{"analysis": "only analysis"}', {"analysis": "only analysis"}),
        ("", None),
        ("{}", {}),
        ('{"a": ' + "1" * 5000 + "}", None),
        ('{"a":' * 5000, None),
    ],
)
def test_the_first_sound_object_is_found(text: str, expected: object) -> None:
    assert extract_json_object(text) == expected


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ('```json\n{"a":1}\n```', "fence"),
        ('```\n{"a":1}\n```', "bare_fence"),
        (' {"a":1}\n', "whole"),
        ('so: {"a":1}', "braces"),
        ("so?", "none"),
    ],
)
def test_it_is_said_how_the_object_was_found(text: str, strategy: str) -> None:
    assert extract_json(text).strategy == strategy


TAG_1 = '{"name": "pat-001", "tag": "helpful", "rationale": "tests passed"}'
TAG_2 = '{"name": "mis-002", "tag": "harmful", "rationale": "it broke"}'
PARSED = (ParsedTag(0, "pat-001", "helpful", "tests passed"), ParsedTag(1, "mis-002", "harmful", "it broke"))
OBJECT = f'{{"analysis": "all well", "bullet_tags": [{TAG_1}, {TAG_2}]}}'

WAYS = {
    "plain": OBJECT,
    "fenced": f"```json\n{OBJECT}\n```",
    "prose with braces first": f"I looked at {{curly}} things and at {{x: 1}}.\n\n{OBJECT}\n\nDone.",
    "prose with an open brace first": f"An opening {{ is not enough.\n{OBJECT}",
    "two objects": f'Like {{"format": "json"}}, I answer:\n{OBJECT}',
    "the empty example first": f'The form is {{"analysis": "...", "bullet_tags": [...]}}.\n{OBJECT}',
    "the wrong fence": f"```javascript\n{OBJECT}\n```",
    "another block first": f"```python\nd = {{}}\n```\n```json\n{OBJECT}\n```",
    "an unclosed fence": f"```json\n{OBJECT}",
    "tildes": f"~~~json\n{OBJECT}\n~~~",
    "a trailing comma": OBJECT.replace("]}", ",]}"),
    "no comma between tags": OBJECT.replace("}, {", "} {"),
    "NaN beside the tags": OBJECT.replace('"analysis"', '"sure": NaN, "analysis"'),
    "comments": OBJECT.replace("[{", "[ // the tags\n{").replace("}, {", "}, /* and */ {"),
    "raw line breaks in strings": OBJECT.replace("all well", "all\nwell"),
    "cut off after the last tag": OBJECT[:-2],
    "cut off before the last bracket": OBJECT[:-1],
    "no opening brace": OBJECT[1:],
    "thoughts with a draft first": f'<think>{{"analysis": "hm", "bullet_tags": [{TAG_2}]}}</think>{OBJECT}',
    "thoughts that end twice": f'<think>{{"analysis": "hm", "bullet_tags": []}}</think>hm</think>{OBJECT}',
    "a byte order mark": "\ufeff" + OBJECT,
    "keys in another order": f'{{"bullet_tags": [{TAG_1}, {TAG_2}], "analysis": "all well"}}',
    "Windows line ends": f"```json\r\n{OBJECT}\r\n```\r\n",
    "names in brackets": OBJECT.replace('"pat-001"', '"[pat-001]"').replace('"mis-002"', '" mis-002 "'),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_tag_is_read_however_the_model_answers(way: str) -> None:
    parsed = parse_answer(WAYS[way])
    assert parsed.tags == PARSED
    assert parsed.analysis == "all well"
    assert not parsed.failed


@pytest.mark.parametrize("around", ["%s", "```json\n%s\n```", "Here: %s", '<think>{"analysis": "hm"}</think>%s'])
@pytest.mark.parametrize("end", ["</think>", "a </think> b", '</think>{\\"analysis\\": \\"hm\\"}'])
def test_the_end_of_thoughts_inside_an_answer_is_its_text(around: str, end: str) -> None:
    parsed = parse_answer(around % OBJECT.replace("all well", end))
    assert parsed.analysis == json.loads(f'"{end}"')
    assert parsed.tags == PARSED
    assert parsed.strategy != "repaired"


def test_a_draft_in_thoughts_does_not_stand_for_an_answer_that_is_cut_off() -> None:
    parsed = parse_answer(f'<think>{{"analysis": "hm", "bullet_tags": []}}</think>{OBJECT[:-2]}')
    assert (parsed.analysis, parsed.strategy) == ("all well", "repaired")


@pytest.mark.parametrize("cut", range(len(OBJECT)))
def test_an_answer_cut_anywhere_keeps_what_is_complete(cut: int) -> None:
    parsed = parse_answer(OBJECT[:cut])
    ends = [OBJECT.index(tag) + len(tag) for tag in (TAG_1, TAG_2)]
    assert parsed.tags == PARSED[: sum(end <= cut for end in ends)]
    assert parsed.analysis == ("all well" if cut > OBJECT.index('",') else "")
    assert parsed.failed is not bool(parsed.analysis)
    assert "cut off" in parsed.problems[0] or parsed.failed


@pytest.mark.parametrize(
    "damaged", ["{'name': 'x'}", '{"name": "x", "rationale": "he said "great, thanks" and left"}', '{"name": NaN}', "{"]
)
def test_a_damaged_entry_costs_no_other_one(damaged: str) -> None:
    parsed = parse_answer(f'{{"analysis": "all well", "bullet_tags": [{TAG_1}, {damaged}, {TAG_2}]}}')
    assert parsed.tags == PARSED
    assert parsed.strategy == "repaired"


@pytest.mark.parametrize("text", [f"[{TAG_1}]", f"{{'bullet_tags': [{TAG_1}]}}", '{"bullet_tags": [{"name": "a"'])
def test_an_answer_of_which_nothing_is_whole_has_failed(text: str) -> None:
    assert parse_answer(text).failed or not parse_answer(text).tags


_NO_OBJECT, _NO_NAME = "the entry is not an object", "the name has no known form"
#: What stands for bullet_tags, the tags that come of it, and the first problem.
UNUSABLE: list[tuple[str, list[ParsedTag], str]] = [
    ("null", [], "bullet_tags is not a list: None"),
    ('"none"', [], "bullet_tags is not a list: 'none'"),
    ('{"name": "pat-001"}', [], "bullet_tags is not a list: {'name': 'pat-001'}"),
    ('["pat-001"]', [ParsedTag(0, None, None, malformed=_NO_OBJECT)], f"tag 0: {_NO_OBJECT}: 'pat-001'"),
    ("[null]", [ParsedTag(0, None, None, malformed=_NO_OBJECT)], f"tag 0: {_NO_OBJECT}: None"),
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
    (
        '[{"tag": "helpful"}]',
        [ParsedTag(0, None, "helpful", "", "the name is missing")],
        "tag 0: the name is missing: None",
    ),
    (
        '[{"name": "pat-001"}]',
        [ParsedTag(0, "pat-001", None, "", "the tag is missing")],
        "tag 0: pat-001: the tag is missing: None",
    ),
    (
        '[{"name": "pat-001", "tag": 1}]',
        [ParsedTag(0, "pat-001", None, "", "the tag is not text")],
        "tag 0: pat-001: the tag is not text: 1",
    ),
    (
        '[{"name": "pat-001", "tag": "Helpful"}]',
        [ParsedTag(0, "pat-001", "unknown")],
        "tag 0: pat-001 is called 'Helpful', not helpful, harmful or neutral",
    ),
    (
        '[{"name": "pat-001", "tag": "neutral", "rationale": {"a": 1}}]',
        [ParsedTag(0, "pat-001", "neutral")],
        "tag 0: pat-001: the rationale is not text: {'a': 1}",
    ),
]


@pytest.mark.parametrize(("bullet_tags", "tags", "problem"), UNUSABLE)
def test_what_is_unusable_is_kept_as_a_fact(bullet_tags: str, tags: list[ParsedTag], problem: str) -> None:
    parsed = parse_answer(f'{{"analysis": "a", "bullet_tags": {bullet_tags}}}')
    assert (list(parsed.tags), parsed.problems, parsed.analysis) == (tags, (problem,), "a")


def test_useless_entries_do_not_cost_the_useful_ones() -> None:
    parsed = parse_answer(f'{{"bullet_tags": ["x", {TAG_1}, null, {TAG_2}]}}')
    assert [(tag.index, tag.name) for tag in parsed.tags if tag.malformed is None] == [(1, "pat-001"), (3, "mis-002")]


def test_two_tags_for_one_bullet_are_both_kept() -> None:
    assert len(parse_answer(f'{{"bullet_tags": [{TAG_1}, {TAG_1}]}}').tags) == 2


def test_missing_keys_are_no_problem_and_another_object_is_one() -> None:
    assert parse_answer('{"analysis": "only"}') == parse_answer('{"analysis": "only", "bullet_tags": []}')
    assert parse_answer('{"analysis": "only"}').problems == ()
    parsed = parse_answer('{"error": "overloaded"}')
    assert (parsed.analysis, parsed.tags, parsed.failed) == ("", (), False)
    assert parsed.problems == ("the object has neither analysis nor bullet_tags but 'error'",)


@pytest.mark.parametrize("text", ["", "no", "[1, 2]", '"hi"', "42", "null", "{'a': 1}", "```json\n```"])
def test_an_answer_without_an_object_has_failed(text: str) -> None:
    parsed = parse_answer(text)
    assert parsed.failed
    assert (parsed.analysis, parsed.tags) == ("", ())
    assert parsed.problems


def test_of_two_whole_answers_the_first_counts_and_no_other() -> None:
    parsed = parse_answer(f'{OBJECT} or rather {{"bullet_tags": [{TAG_2}]}}')
    assert parsed.tags == PARSED
    assert parsed.problems == ()


def test_prose_is_bounded_cleaned_and_redacted() -> None:
    secret = "gh" + "p_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5"
    answer = {
        "analysis": "a\x1b[31m\n\u202eb " + "x" * 30_000,
        "bullet_tags": [
            {"name": "pat-001", "tag": "helpful", "rationale": f"it used {secret}\x07 " + "y" * 3000},
            {"name": secret, "tag": secret, "rationale": "\ud800"},
        ],
    }
    parsed = parse_answer(json.dumps(answer))
    assert parsed.analysis.startswith("a b xxx")
    assert len(parsed.analysis) == 20_000
    assert parsed.tags[0].rationale.startswith("it used [redacted:github-token] yyy")
    assert len(parsed.tags[0].rationale) == 2_000
    assert parsed.tags[1] == ParsedTag(1, None, "unknown", "\ufffd", "the name has no known form")
    assert secret not in repr(parsed)
    assert all(len(problem) <= 300 for problem in parsed.problems)


def test_more_tags_than_anybody_needs_are_counted_and_left() -> None:
    parsed = parse_answer(f'{{"bullet_tags": [{", ".join([TAG_1] * 10_001)}]}}')
    assert len(parsed.tags) == 10_000
    assert parsed.problems == ("there are more than 10,000 tags; the rest was not read",)
    parsed = parse_answer(f'{{"bullet_tags": [{", ".join(["0"] * 10_000)}]}}')
    assert len(parsed.problems) == 51


FRAGMENTS = st.one_of(
    st.sampled_from(
        ["\n", " ", "```json\n", *"{ } [ ] \" ' : , \\ ` ``` NaN null 1 /* // </think> “ ” \\ud800 true x".split()]
    ),
    st.sampled_from(
        ['"analysis": ', '"bullet_tags": ', '"name": ', '"tag": ', '"pat-001"', '"helpful"', '"rationale": "']
    ),
    st.sampled_from([TAG_1, TAG_2, OBJECT, '\\"bullet_tags\\"']),
    st.text(max_size=8),
)


@settings(max_examples=examples(600))
@given(st.lists(FRAGMENTS, max_size=20).map("".join) | st.text())
def test_no_text_makes_parsing_raise_and_only_facts_come_out(text: str) -> None:
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
    "{", "}", "[", "]", '"', "'", "`", "```", "```json", "```json\n", "```\n", "\\", '\\"', "{}", "{ ", '{"',
    '{"a', '{"a":', '{"a":1,', '{"a":1}', '{"a":[', '{"a":NaN,', '{"a":"', '{"a":x', "{'a':", "{a:", '"a":',
    '"a",', "a{", '"{', '{"a":1}```', "/*", "//", "/*\n", '"analysis":', '"analysis":"', '"analysis": {',
    '"analysis": [', '"bullet_tags":[', '"bullet_tags":[{', '"bullet_tags":["', "“",
    '"bullet_tags":[{"name":', '{"name":', '{"name":"', '{"name":1,"tag":', '{"name":"x","tag":"y"}',
    '\\"bullet_tags\\":', "</think>", "analysis:", "\nanalysis:", ",analysis: ", '{"bullet_tags":[],',
    '{"bullet_tags":[]}', '{"analysis":"x"}', "\n", " ", "\n}", '",',
]  # fmt: skip
PREFIXES = ["", '{"analysis": "', '{"bullet_tags": [', '"bullet_tags": [{"name": "a', '"']


@pytest.mark.parametrize("seed", HOSTILE, ids=ascii)
def test_a_hostile_text_is_parsed_at_the_cost_of_its_length(seed: str) -> None:
    for prefix in PREFIXES:
        assert_linear(lambda size, prefix=prefix: parse_answer(prefix + seed * (size // len(seed))), 7_500)
