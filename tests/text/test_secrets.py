"""The labelled corpus against `redact`, hostile texts, and every cut on the way to a model.

The corpus holds secrets of many kinds, made of random values when asked for, and ordinary strings
that look alike. No value is written down in secrets.tsv, so a scanner of this repository has
nothing to stop at.
"""

import base64
import json
import re
import string
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings, strategies as st

from reflector.judges.excerpt import compose
from reflector.judges.prompts import find_template
from reflector.text.assignments import redact_assignments
from reflector.text.bounds import clean, visible
from reflector.text.forms import redact_places, redact_tokens
from reflector.text.key_blocks import redact_keys
from reflector.text.secrets import redact
from reflector.transcripts.reading import read_messages
from tests.conftest import THOROUGH, assert_linear, examples, slow_except
from tests.transcripts.records import assistant, call, result, user, write

_ALNUM = string.ascii_letters + string.digits
#: {a30}: 30 letters and digits; d: dashes too; x: hex; u: capitals and digits; l: small letters and
#: digits; b: base64; t: letters only; n: digits only.
_CLASSES = {
    "a": _ALNUM,
    "d": _ALNUM + "-_",
    "x": string.hexdigits[:16],
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "b": _ALNUM + "+/",
    "t": string.ascii_letters,
    "n": string.digits,
}
_VALUE = re.compile(rf"\{{([{''.join(_CLASSES)}])([0-9]+)\}}")
_WORDS = re.compile(r"(?i)pass|pwd|secret|token|key|cred|auth")


class Row(NamedTuple):
    """A text of the corpus, and what `redact` makes of it."""

    name: str
    text: str
    redacted: str


class Secret(NamedTuple):
    """A text, and the parts of it that nobody may read."""

    text: str
    parts: tuple[str, ...]


def _rows() -> list[Row]:
    lines = Path(__file__).with_name("secrets.tsv").read_text("utf-8").splitlines()[1:]
    escapes = {"\\\\": "\\", "\\n": "\n", "\\t": "\t"}
    return [
        Row(*(re.sub(r"\\.", lambda found: escapes[found[0]], cell) for cell in line.split("\t")))
        for line in lines
    ]


ROWS = _rows()
_FORMS = {row.name: row for row in ROWS if row.name not in ("place", "ordinary")}
#: Kinds that are known by nothing around them, so that they may stand anywhere.
BY_FORM = tuple(_FORMS)[: tuple(_FORMS).index("url with a token")]


def _some(letters: str, count: int, dice: Random) -> str:
    while True:
        made = "".join(dice.choices(letters, k=count))
        mixed = any(c.isdigit() for c in made) and any(c.isalpha() for c in made)
        # By chance a value spells what makes it a name of code: `getKey2`.
        fits = mixed or count < 5 or letters in (string.ascii_letters, string.digits)
        if fits and not _WORDS.search(made) and made[0].isalnum() and made[-1].isalnum():
            return made


def filled(text: str, dice: Random) -> Secret:
    """A text of the corpus with its random values."""
    parts: list[str] = []

    def value(found: re.Match[str]) -> str:
        parts.append(_some(_CLASSES[found[1]], int(found[2]), dice))
        return parts[-1]

    return Secret(_VALUE.sub(value, text), tuple(parts))


def _jwt(dice: Random) -> Secret:
    head, body = (
        base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for text in ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{_some(_ALNUM, 200, dice)}"}}')
    )
    parts = (body, _some(_CLASSES["d"], 86, dice))
    return Secret(".".join((head, *parts)), parts)


def _basic(dice: Random) -> Secret:
    value = base64.b64encode(f"bob:{_some(_ALNUM, 20, dice)}".encode()).decode()
    return Secret(f"Authorization: Basic {value}", (value,))


def _key(kind: str, width: int, lines: int, dice: Random) -> Secret:
    body = [_some(_CLASSES["b"], width, dice) for _ in range(lines)] + [
        _some(_CLASSES["b"], width // 2, dice) + "=="
    ]
    edges = (f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----")
    return Secret("\n".join((edges[0], *body, edges[1])), tuple(body))


KEYS: dict[str, Callable[[Random], Secret]] = {
    "rsa key": partial(_key, "RSA ", 64, 25),
    "pkcs8 key": partial(_key, "", 64, 25),
    "ec key": partial(_key, "EC ", 64, 2),
    "openssh key": partial(_key, "OPENSSH ", 70, 7),
    "large rsa key": partial(_key, "RSA ", 64, 50),
}
_MADE: dict[str, Callable[[Random], Secret]] = {"jwt": _jwt, "basic": _basic, **KEYS}

KINDS = (*_FORMS, *_MADE)


def secret(kind: str, dice: Random) -> Secret:
    """A secret of a kind, its values new."""
    made = _MADE.get(kind)
    return made(dice) if made is not None else filled(_FORMS[kind].text, dice)


def shown(parts: tuple[str, ...], text: str, least: int = 12) -> str | None:
    """A piece of a secret that stands in a text: so many characters of one of its parts, or a
    whole shorter one.
    """
    for part in parts:
        if len(part) < 5:
            continue
        size = min(least, len(part))
        for start in range(len(part) - size + 1):
            if part[start : start + size] in text:
                return part[start : start + size]
    return None


A36 = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5"


@pytest.mark.parametrize(
    "number", range(len(ROWS)), ids=lambda number: f"{number + 2}-{ROWS[number].name}"
)
def test_corpus_text_is_redacted_as_labelled(number: int) -> None:
    for seed in range(3):
        text = filled(ROWS[number].text, Random(seed)).text
        redacted = text if ROWS[number].redacted == "=" else ROWS[number].redacted
        assert redact(text) == redacted
        if redacted == text:
            assert redact(json.dumps({"content": text})) == json.dumps({"content": text})


def numbered(text: str) -> str:
    return "\n".join(f"{number:6}→{line}" for number, line in enumerate(text.split("\n"), 1))


def added(text: str) -> str:
    return "\n".join(f"+{line}" for line in text.split("\n"))


WAYS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in a sentence": lambda text: f"I use {text} here",
    "between lines": lambda text: f"before\n{text}\nafter",
    "quoted": lambda text: f"'{text}'",
    "coloured": lambda text: f"\x1b[31m{text}\x1b[0m",
    "with an invisible character": lambda text: (
        f"{text[: len(text) // 2]}\u200b{text[len(text) // 2 :]}"
    ),
    "numbered": numbered,
    "in a diff": added,
    "in JSON": lambda text: json.dumps({"input": {"command": f"a\n{text}\nb"}}),
    "in JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "numbered in JSON": lambda text: json.dumps(numbered(text), ensure_ascii=False),
    "in a diff in JSON": lambda text: json.dumps(added(text)),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_secret_is_redacted_in_any_form(way: str) -> None:
    dice = Random(way)
    left = []
    for kind in KINDS:
        text, parts = secret(kind, dice)
        redacted = redact(visible(WAYS[way](text)))
        assert redact(redacted) == redacted
        if shown(parts, redacted):
            left.append((kind, redacted))
    assert left == []


@pytest.mark.parametrize("kind", KEYS)
def test_two_lines_of_a_private_key_are_known(kind: str) -> None:
    dice = Random(kind)
    for _ in range(40):
        text, parts = secret(kind, dice)
        lines = text.split("\n")
        first = dice.randrange(len(lines) - 2)
        piece = lines[first : dice.randrange(first + 2, len(lines)) + 1]
        if not any(len(one) == len(two) for one, two in pairwise(piece)):
            continue
        for written in ("\n".join(piece), numbered("\n".join(piece)), json.dumps("\n".join(piece))):
            assert shown(parts, redact(f"before\n{written}\nafter")) is None, written


def test_lines_of_other_wide_things_are_no_key() -> None:
    dice = Random(1)
    hexes = "\n".join(dice.randbytes(32).hex() for _ in range(9))
    assert redact(hexes) == hexes
    letters = "\n".join(["a" * 64] * 9)
    assert redact(letters) == letters


KEY_BODY = "\n".join([A36 + A36[:28]] * 4)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("{}", "[redacted:private-key]"),
        (
            "{}\n\nThen we restart the server.",
            "[redacted:private-key]\n\nThen we restart the server.",
        ),
        ("{0}\nword\n{0}", "[redacted:private-key]\nword\n[redacted:private-key]"),
    ],
)
def test_endless_private_key_ends_where_it_looks_otherwise(text: str, redacted: str) -> None:
    cut = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}"
    assert redact(text.format(cut)) == redacted
    assert redact(numbered(cut)) == "     1→[redacted:private-key]"


def test_private_key_in_a_list_leaves_a_list() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", *KEY_BODY.split("\n"), "-----END PRIVATE KEY-----"]
    redacted = json.loads(redact(json.dumps(lines)))
    assert redacted == [lines[0], *["[redacted:private-key]"] * 4, lines[-1]]
    assert A36 not in redact(" + ".join(f'"{line}\\n"' for line in lines))


PARTS = st.one_of(
    st.sampled_from(
        [filled(row.text, Random(row.name)).text for row in ROWS if row.name in BY_FORM]
    ),
    st.sampled_from(
        [
            "password",
            "token",
            "_secret",
            "API_KEY",
            "--token",
            "=",
            ": ",
            ' "',
            "'",
            "\\",
            "\n",
            ",",
            "hunter2",
            "]",
        ]
    ),
    st.sampled_from(
        [
            "Bearer ",
            "Basic ",
            "Authorization",
            "://",
            "u:",
            "@",
            "eyJ",
            ".",
            "-",
            "sk-",
            "ghp_",
            A36,
            "-u ",
        ]
    ),
    st.sampled_from(
        [
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "[redacted:",
            "[redacted:jwt]",
            "\x1b[0m",
            ">",
        ]
    ),
    st.text(max_size=6),
    st.text(alphabet=string.ascii_letters + string.digits + "-_.=+/", max_size=40),
)


@settings(max_examples=examples(400))
@example(
    "MTA5wFD3aTiEhhQgZUb0KE9N8."
    + "GV73PA.o2m5suXgPWkOlId2iSgysECfzgWTiqxtFZmold-"
    + "npm_"
    + "a1" * 20
)
@given(st.lists(PARTS, max_size=14).map("".join))
def test_redaction_is_idempotent_with_and_without_shortcuts(
    text: str,
) -> None:
    once = redact(text)
    assert (
        redact(once) == once == redact_assignments(redact_places(redact_tokens(redact_keys(text))))
    )


#: Texts that are repeated; of two, the second is repeated behind the first.
HOSTILE: list[str | tuple[str, str]] = [
    "a",
    "A",
    "0",
    "-",
    " ",
    "\n",
    "=",
    "eyJ",
    "eyJ-",
    "eyJa.",
    "0meyJ0m",
    "sk-",
    "sk-ant-",
    "ghp_",
    "ghs_.",
    "xoxb-",
    "SG.",
    "AKIA",
    "://",
    "://a:",
    "://:@",
    "a:b@",
    "token",
    "token=",
    "token:",
    "token='",
    'token="',
    'token=\\"',
    "token ",
    "token,",
    "password: a",
    "password=a b=",
    "api-key",
    "key>",
    "<key>a",
    "secret value",
    "secret : ",
    "PASSWORD=",
    "_pass_",
    "key='\"`",
    "Bearer ",
    "bearer a",
    "Basic ",
    "basic a",
    "Authorization: ",
    "authorization=",
    "cookie: a=",
    "-u a:",
    "1234567890:AA",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA\n",
    "-----END PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nVersion: a\n",
    "[redacted:",
    "[redacted:jwt]",
    "\x1b[",
    "\x1b]",
    "\x1b]0;",
    "\x9b",
    "\\\\",
    "{",
    '"',
    "ghp_" + "a1" * 18 + "-",
    "gho_" + "a1" * 15 + "-ghp_" + "b2" * 18 + "-",
    "sk-ant-" + "A1" * 10 + "-",
    "AIza" + "a1" * 17 + "b-",
    "AKIA" + "A1" * 8 + "-",
    "eyJ" + "a1" * 5 + "." + "b1" * 5 + ".",
    ("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
    ("-----BEGIN PRIVATE KEY-----\n" + "aB1" * 8, "-----END PRIVATE KEY-----\n"),
    "aB1" * 21 + "\n-----END PRIVATE KEY-----\n",
    "password=password=token=Hunter22! ",
    "Bearer Bearer abcdefghijklmnop1 ",
    "mysql -u a -pHunter22x ",
    "://a:b1c2d3@",
    "db.example:5432:app:bob:hunter22 ",
]


@pytest.mark.parametrize("seed", slow_except(HOSTILE[::4], HOSTILE), ids=ascii)
def test_a_hostile_text_costs_what_its_length_costs(seed: str | tuple[str, str]) -> None:
    parts = seed if isinstance(seed, tuple) else (seed,)

    def text(size: int) -> str:
        return "".join(part * (size // len("".join(parts))) for part in parts)

    redact(text(200))  # compiles the rules
    assert_linear(lambda size: redact(visible(text(size))), 6_000)
    for count in (1, 2, 3):
        once = redact("".join(part * count for part in parts))
        assert redact(once) == once


DOCUMENTS = st.recursive(
    st.lists(PARTS, max_size=5).map("".join) | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["password", "api_key", "token", "a"]) | PARTS, inner, max_size=4
        )
    ),
    max_leaves=8,
)


@settings(max_examples=examples(300))
@given(DOCUMENTS, st.sampled_from([None, 2]), st.booleans())
def test_redacted_json_is_still_json(
    document: object, indent: int | None, ascii_only: bool
) -> None:
    json.loads(redact(json.dumps(document, indent=indent, ensure_ascii=ascii_only)))


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        ("a\tb\r\n  c\u2028d\x85e", 99, "a b c d e"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07bell", 99, "red bell"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bcreset", 99, "link reset"),
        ("a\x00b\x08c\x7fd\x9b31me\u202edcb\u2066x\u200by\ufeffz\U000e0041", 99, "abcdedcbxyz"),
        ("\ud800a", 99, "\ufffda"),
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abcde…"),
        ("abcd efg", 6, "abcd…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_clean_leaves_one_visible_line_within_the_limit(text: str, limit: int, line: str) -> None:
    assert clean(text, limit) == line


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_clean_is_bounded_and_can_be_encoded(text: str, limit: int) -> None:
    line = clean(text, limit)
    assert len(line) <= limit
    line.encode()
    assert clean(line, limit) == line


TEMPLATE = find_template("reflector.txt")
PLACES = ("result", "file", "human", "argument", "text", "thinking")


def filler(dice: Random, size: int, *, long_lines: bool) -> str:
    words = ("the quick brown fox", "lorem ipsum dolor", "def foo(self): pass", "an error occurred")
    return (" " if long_lines else "\n").join(dice.choices(words, k=size // 18 + 1))[:size]


def records(place: str, text: str, more: int, dice: Random) -> Iterator[dict[str, Any]]:
    yield user(1, text if place == "human" else "Do it.")
    yield assistant(2, "As of [pat-001] I go on.")
    if place in ("result", "file"):
        yield assistant(3, call(command="cat x"))
        yield user(
            4, [result(text)], top={"toolUseResult": {"file": {}}} if place == "file" else {}
        )
    elif place == "argument":
        yield assistant(3, call("Write", file_path="/x/a", content=text))
    elif place != "human":
        yield assistant(3, {"type": place, place: text})
    for number in range(5, 5 + more):
        yield assistant(number, filler(dice, 1500, long_lines=False))


def request_of(file: Path, lines: Iterator[dict[str, Any]], limit: int) -> str:
    write(file, lines)
    return compose(
        TEMPLATE, "[pat-001] Be kind.", ["pat-001"], lambda: read_messages(file), limit
    ).text


def leaks(file: Path, kind: str, dice: Random) -> tuple[str, str, int] | None:
    """What is left of a secret of a kind in a request, at a random place of a session of a
    random size.
    """
    text, parts = secret(kind, dice)
    place = dice.choice(PLACES)
    long_lines = dice.random() < 0.3 and kind in BY_FORM
    before, after = (filler(dice, dice.randrange(9000), long_lines=long_lines) for _ in range(2))
    if place == "human":
        before = filler(dice, 10_000, long_lines=long_lines) + "\n" + before
    around = " " if long_lines else "\n"
    limit = dice.choice((100_000, 20_000, 6_000))
    lines = records(
        place, f"{before}{around}{text}{around}{after}", 0 if limit == 100_000 else 12, dice
    )
    piece = shown(parts, request_of(file, lines, limit))
    return (place, piece, limit) if piece else None


@pytest.mark.hypothesis  # the slow suite plays it too, and more of it
@pytest.mark.parametrize("kind", KINDS if THOROUGH else [*KINDS[::10], *KEYS])
def test_no_cut_leaves_half_a_secret(kind: str, tmp_path: Path) -> None:
    dice = Random(kind)
    for _ in range(11 if THOROUGH else 1):
        assert leaks(tmp_path / "s.jsonl", kind, dice) is None
