import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.playbook.admissible import MAX_TEXT, text_fault
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import dump, load
from reflector.playbook.names import SECTIONS, is_name
from tests.building import NAMES, PLAYBOOKS
from tests.conftest import assert_linear


def document(**sections: Any) -> str:
    return json.dumps({"sections": {SECTIONS[slug]: entries for slug, entries in sections.items()}})


def only_problem(raw: bytes | str) -> str:
    loaded = load(raw)
    assert len(loaded.problems) == 1, loaded.problems
    return str(loaded.problems[0])


ENTRY = {"name": "pat-001", "text": "t"}


@given(PLAYBOOKS, st.none() | st.just("2026-01-02T03:04:05Z"))
def test_what_is_written_is_read_back_equal(
    bullets: tuple[Bullet, ...], updated: str | None
) -> None:
    loaded = load(dump(bullets, updated))
    assert loaded.bullets == bullets
    assert loaded.last_updated == updated
    assert (loaded.format, loaded.problems, loaded.notes, loaded.named_here) == (
        "sections",
        (),
        (),
        frozenset(),
    )
    assert dump(loaded.bullets, loaded.last_updated) == dump(bullets, updated)


def test_the_written_form_is_a_contract() -> None:
    bullets = [
        Bullet("oth-001", "oth", "Löse „x“\nzuerst", 0, 2),
        Bullet("pat-001", "pat", "Run tests", 3, 1),
    ]
    assert dump(bullets, None).decode() == (
        '{\n  "version": "1.0",\n  "last_updated": null,\n  "sections": {\n'
        '    "PATTERNS & APPROACHES": [\n      {\n        "name": "pat-001",\n        "text": '
        '"Run tests",\n'
        '        "helpful": 3,\n        "harmful": 1\n      }\n    ],\n'
        '    "MISTAKES TO AVOID": [],\n    "USER PREFERENCES": [],\n    "PROJECT CONTEXT": [],\n'
        '    "OTHERS": [\n      {\n        "name": "oth-001",\n        "text": "Löse '
        '„x“\\nzuerst",\n'
        '        "helpful": 0,\n        "harmful": 2\n      }\n    ]\n  }\n}\n'
    )
    # Bullets of a section keep the order of their creation.
    later = (Bullet("pat-009", "pat", "b"), Bullet("pat-002", "pat", "a"))
    assert load(dump(later, None)).bullets == later


@pytest.mark.parametrize(
    ("point", "expected"),
    [
        ("always use type hints", Bullet("kpt_001", "oth", "always use type hints", 0, 0)),
        ({"name": "kpt_007", "text": "t"}, Bullet("kpt_007", "oth", "t", 0, 0)),
        ({"name": "kpt_007", "text": "t", "score": -3}, Bullet("kpt_007", "oth", "t", 0, 3)),
        ({"name": "kpt_007", "text": "t", "score": 4}, Bullet("kpt_007", "oth", "t", 4, 0)),
        (
            {"name": "kpt_7", "text": "t", "helpful": 3, "harmful": 1, "score": 2},
            Bullet("kpt_7", "oth", "t", 3, 1),
        ),
        ({"name": "pat-007", "text": "t", "helpful": 3}, Bullet("pat-007", "oth", "t", 3, 0)),
    ],
)
def test_a_flat_list_of_key_points_is_read(point: object, expected: Bullet) -> None:
    loaded = load(json.dumps({"key_points": [point]}))
    assert loaded.format == "key_points"
    assert loaded.bullets == (expected,)
    assert loaded.problems == ()


def test_unnamed_entry_gets_an_unused_name() -> None:
    points = ["a", {"name": "kpt_004", "text": "b"}, "c", {"name": "kpt_011", "text": ""}]
    loaded = load(json.dumps({"key_points": points}), taken=["kpt_020"])
    assert [b.name for b in loaded.bullets] == ["kpt_021", "kpt_004", "kpt_022"]
    assert loaded.named_here == {"kpt_021", "kpt_022"}
    loaded = load(
        document(
            pat=[{"text": "a"}, "b", {"name": None, "text": "c"}, {"name": "pat-004", "text": "d"}]
        )
    )
    assert [b.name for b in loaded.bullets] == ["pat-005", "pat-006", "pat-007", "pat-004"]
    assert loaded.named_here == {"pat-005", "pat-006", "pat-007"}
    assert_linear(lambda size: load(json.dumps({"key_points": ["a"] * size})), 2_000)


def test_section_titles_ignore_case_and_unknown_are_others() -> None:
    entries = {
        " mistakes to avoid ": "mis-001",
        "Tips": "pat-001",
        "Patterns & Approaches": "pat-002",
    }
    raw = {"sections": {title: [{"name": name, "text": "a"}] for title, name in entries.items()}}
    loaded = load(json.dumps({**raw, "key_points": ["left aside"]}))
    assert [(b.name, b.section) for b in loaded.bullets] == [
        ("pat-002", "pat"),
        ("mis-001", "mis"),
        ("pat-001", "oth"),
    ]
    assert loaded.problems == ()
    strange, beside = loaded.notes
    assert "'Tips'" in strange
    assert beside == "reflector ignored `key_points`, because the file has sections"


def test_byte_order_mark_and_empty_playbook_are_fine() -> None:
    empty = dump([], None)
    assert load(b"\xef\xbb\xbf" + empty).problems == ()
    assert load(empty.decode()).bullets == ()
    assert load('{"sections": {}}').problems == ()
    assert load('{"key_points": []}').problems == ()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "the file: is empty"),
        (b"{}", "the file: has neither sections nor key_points (no keys)"),
        (b'{"entries": [], "meta": 1}', "has neither sections nor key_points ('entries', 'meta')"),
        (b'{"sections": null}', "sections: is not an object (None)"),
        (b'{"sections": {"OTHERS": {}}}', "sections['OTHERS']: is not a list ({})"),
        (b'{"key_points": {}}', "key_points: is not a list ({})"),
        (b'{"a": 1,\n "b": }', "line 2, column 7: is not JSON: Expecting value"),
        (b'{"sections": {"OTHERS": [', "the file ends at this place, so its end is missing"),
        (b'{"sections": {"OTHERS": ["\x01"]}}', "Invalid control character"),
        (b'{"sections": {\n"OTHERS": ["\xff"]}}', "line 2: is not UTF-8 (byte 0xff at offset 27)"),
        ('{"sections": {}}'.encode("utf-16"), "the file: is UTF-16; save the file as UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"sections": {}, "sections": {}}', "the file: contains the same key twice ('sections')"),
        (
            b'{"sections": {"OTHERS": [], "OTHERS": []}}',
            "sections: contains the same key twice ('OTHERS')",
        ),
    ],
)
def test_a_file_that_is_no_playbook_says_so(raw: bytes, says: str) -> None:
    assert says in only_problem(raw)
    assert load(raw).bullets == ()


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            {"name": "oth-001", "text": "t", "helpful": -1},
            "sections['OTHERS'][1] 'oth-001': helpful is negative (-1)",
        ),
        (
            {"name": "oth-001", "text": "t", "harmful": True},
            "harmful is not a whole number from 0 to 999,999,999 (True)",
        ),
        (
            {"name": "oth-001", "text": "t", "harmful": "3"},
            "harmful is not a whole number from 0 to 999,999,999 ('3')",
        ),
        (
            {"name": "oth-001", "text": "t", "harmful": float("nan")},
            "harmful is not a whole number from 0 to 999,999,999 (NaN)",
        ),
        ({"name": "oth-001", "text": "t", "harmful": 10**9}, "from 0 to 999,999,999 (1000000000)"),
        (
            {"name": "oth-001", "text": "t", "score": 1.5},
            "is not a whole number from -999,999,999 to 999,999,999 (1.5)",
        ),
        ({"name": "oth-001", "text": ""}, "the text is empty ('')"),
        ({"name": "oth-001"}, "the text is not a string (missing)"),
        (
            {"name": "oth-001", "text": "a" * (MAX_TEXT + 1)},
            "the text has 10,001 characters, more than 10,000",
        ),
        (
            {"name": "oth-001", "text": "a\x1b[2Jb"},
            "the text contains the character U+001B at index 1",
        ),
        (
            {"name": "oth-001", "text": "a\U000e0041"},
            "the text contains the character U+E0041 at index 1",
        ),
        (
            {"name": "shr-00001", "text": "t"},
            "the name is not valid ('shr-00001'); write a name such as pat-001",
        ),
        ({"name": "pat-٣", "text": "t"}, "the name is not valid"),
        ({"name": "pat-\x1b[2J", "text": "t"}, r"the name is not valid ('pat-\x1b[2J')"),
        (None, "sections['OTHERS'][1]: is not a rule (None)"),
        ({"name": "oth-000", "text": "t"}, "the name already exists (at sections['OTHERS'][0])"),
    ],
)
def test_unreadable_entry_is_named_and_others_are_read(entry: object, says: str) -> None:
    good = {"name": "oth-000", "text": "good"}
    raw = document(oth=[good, entry])
    assert says in only_problem(raw)
    assert load(raw).bullets == (Bullet("oth-000", "oth", "good"),)


def test_a_name_in_two_sections_is_a_problem() -> None:
    raw = document(pat=[ENTRY], oth=[ENTRY])
    assert "already exists (at sections['PATTERNS & APPROACHES'][0])" in only_problem(raw)
    twice = '{"sections": {"OTHERS": [{"name": "oth-001", "text": "a", "text": "b"}]}}'
    problem = only_problem(twice)
    assert "sections['OTHERS'][0] 'oth-001': contains the same key twice ('text')" in problem


def test_a_huge_integer_costs_nothing() -> None:
    raw = (
        '{"sections": {"OTHERS": [{"name": "oth-001", "text": "a", "helpful": '
        + "9" * 1_000_000
        + "}]}}"
    )
    message = only_problem(raw)
    assert "helpful is not a whole number from 0" in message
    assert len(message) < 300


def test_what_will_not_be_written_again_is_noted() -> None:
    raw = {"version": "2.0", "last_updated": 5, "sections": {"OTHERS": [{**ENTRY, "author": "me"}]}}
    loaded = load(json.dumps(raw))
    assert (loaded.problems, loaded.last_updated) == ((), None)
    for note, said in zip(loaded.notes, ("'author'", "'2.0'", "5"), strict=True):
        assert said in note


@pytest.mark.parametrize("text", ["a\nb\tc\r\n", "👩‍💻 first", "تست‌ها", "  padded  "], ids=ascii)
def test_line_breaks_and_joined_emoji_stay_in_texts(text: str) -> None:
    assert load(dump([Bullet("oth-001", "oth", text)], None)).bullets[0].text == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | NAMES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["name", "text", "helpful", "harmful", "score", "OTHERS", "sections", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_entries_yield_only_sound_bullets(value: object) -> None:
    for shape in (
        {"sections": {"OTHERS": value}},
        {"key_points": value},
        {"sections": value},
        value,
    ):
        loaded = load(json.dumps(shape))
        names = [b.name for b in loaded.bullets]
        assert len(set(names)) == len(names)
        for b in loaded.bullets:
            assert is_name(b.name)
            assert text_fault(b.text) is None
            assert min(b.helpful, b.harmful) >= 0
        assert load(dump(loaded.bullets, None)).bullets == loaded.bullets


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_no_content_makes_loading_raise(raw: bytes | str) -> None:
    assert load(raw).problems


def test_foreign_id_is_never_a_text() -> None:
    sections = {
        "DNS Check": ["dns_check-00001", "pat-001", "5e0af7c8-95a4-4b1e-9d30-0a5f2f1c7f10"],
        "OTHERS": ["Ask."],
    }
    loaded = load(json.dumps({"sections": sections}))
    assert [problem.message for problem in loaded.problems] == ["is an id, not a rule's text"] * 3


@pytest.mark.parametrize(
    "raw", ["", "[1]", "{", '{"entries": []}', b"\xff\xfe{", b"\xffx", "[" * 100_000]
)
def test_foreign_file_is_refused_with_fitting_advice(raw: str | bytes) -> None:
    loaded = load(raw, foreign=True)
    assert loaded.format in ("unreadable", "foreign")
    assert not any("reflector rebuild" in str(problem) for problem in loaded.problems)
    assert load(raw).problems
