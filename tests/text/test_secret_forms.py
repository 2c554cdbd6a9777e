"""The labelled corpus against `redact`, and against every cut on the way to a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reflector.reflection.prompting import compose
from reflector.reflection.prompts import find_template
from reflector.text.bounds import visible
from reflector.text.secrets import redact
from reflector.transcripts.formats import read_messages
from tests.text.secrets import BY_FORM, KEYS, KINDS, ordinary, secret, shown


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
    "with an invisible character": lambda text: f"{text[: len(text) // 2]}\u200b{text[len(text) // 2 :]}",
    "numbered": numbered,
    "in a diff": added,
    "in JSON": lambda text: json.dumps({"input": {"command": f"a\n{text}\nb"}}),
    "in JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "numbered in JSON": lambda text: json.dumps(numbered(text), ensure_ascii=False),
    "in a diff in JSON": lambda text: json.dumps(added(text)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_of_each_kind_goes_however_it_is_written(way: str) -> None:
    dice = Random(way)
    left = []
    for kind in KINDS:
        text, parts = secret(kind, dice)
        redacted = redact(visible(WAYS[way](text)))
        assert redact(redacted) == redacted
        if shown(parts, redacted):
            left.append((kind, redacted))
    assert left == []


@pytest.mark.parametrize("seed", range(5))
def test_what_only_looks_like_a_secret_stays(seed: int) -> None:
    texts = ordinary(Random(seed))
    assert len(texts) >= 200
    assert [(text, redact(text)) for text in texts if redact(text) != text] == []
    inside = [json.dumps({"content": text}) for text in texts]
    assert [(text, redact(text)) for text in inside if redact(text) != text] == []


@pytest.mark.parametrize("kind", KEYS)
def test_any_piece_of_a_private_key_of_two_whole_lines_is_known(kind: str) -> None:
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


CHAINS: dict[str, Callable[[int], str]] = {
    "tokens with a dash between": lambda n: ("ghp_" + "a1" * 18 + "-") * n,
    "tokens of two kinds": lambda n: ("gho_" + "a1" * 15 + "-ghp_" + "b2" * 18 + "-") * n,
    "tokens that hold dashes": lambda n: ("sk-ant-" + "A1" * 10 + "-") * n,
    "keys of a bounded length": lambda n: ("AIza" + "a1" * 17 + "b-") * n,
    "key ids": lambda n: ("AKIA" + "A1" * 8 + "-") * n,
    "tokens with a dot between": lambda n: ("eyJ" + "a1" * 5 + "." + "b1" * 5 + ".") * n,
    "nested key blocks": lambda n: "-----BEGIN PRIVATE KEY-----" * n + "-----END PRIVATE KEY-----" * n,
    "nested key blocks of something": (
        lambda n: ("-----BEGIN PRIVATE KEY-----\n" + "aB1" * 8) * n + "-----END PRIVATE KEY-----\n" * n
    ),
    "ends": lambda n: ("aB1" * 21 + "\n-----END PRIVATE KEY-----\n") * n,
    "names of names": lambda n: "password=password=token=Hunter22! " * n,
    "bearers": lambda n: "Bearer Bearer abcdefghijklmnop1 " * n,
    "options": lambda n: "mysql -u a -pHunter22x " * n,
    "users": lambda n: "://a:b1c2d3@" * n,
    "fields": lambda n: "db.example:5432:app:bob:hunter22 " * n,
}


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, Python's and C's: every round of a rule, every match that is looked at."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("chain", CHAINS)
def test_twice_the_text_is_at_most_twice_the_work(chain: str) -> None:
    made = CHAINS[chain]
    redact(made(8))  # compiles the rules
    short, long = (calls_of(lambda n=n: redact(made(n))) for n in (200, 400))
    assert long <= 2.2 * short
    for n in (1, 2, 3, 200):
        once = redact(made(n))
        assert redact(once) == once


TEMPLATE = find_template("reflector.txt")
PLACES = ("result", "file", "human", "argument", "assistant", "thinking")


def filler(dice: Random, size: int, *, long_lines: bool) -> str:
    words = (
        "the quick brown fox",
        "lorem ipsum dolor",
        "line of output here",
        "def foo(self): pass",
        "an error occurred",
    )
    return (" " if long_lines else "\n").join(dice.choices(words, k=size // 18 + 1))[:size]


def records(place: str, text: str, more: int, dice: Random) -> Iterator[dict[str, Any]]:
    def of(role: str, content: object, **fields: object) -> dict[str, Any]:
        uuid = f"00000000-0000-4000-8000-{dice.randrange(10**12):012d}"
        message = {"type": role, "uuid": uuid, "sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"}
        return message | {"message": {"role": role, "content": content}} | fields

    yield of("user", text if place == "human" else "Do it.")
    yield of("assistant", [{"type": "text", "text": "As of [pat-001] I go on."}])
    if place in ("result", "file"):
        yield of("assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "cat x"}}])
        answer = [{"type": "tool_result", "tool_use_id": "t1", "content": text}]
        yield of("user", answer, **({"toolUseResult": {"file": {}}} if place == "file" else {}))
    elif place == "argument":
        given = {"file_path": "/x/a", "content": text}
        yield of("assistant", [{"type": "tool_use", "id": "t1", "name": "Write", "input": given}])
    elif place != "human":
        yield of(
            "assistant",
            [{"type": "text" if place == "assistant" else "thinking", place.replace("assistant", "text"): text}],
        )
    for _ in range(more):
        yield of("assistant", [{"type": "text", "text": filler(dice, 1500, long_lines=False)}])


def request_of(file: Path, lines: Iterator[dict[str, Any]], limit: int) -> str:
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return compose(TEMPLATE, "[pat-001] Be kind.", ["pat-001"], lambda: read_messages(file), limit).text


def leaks(file: Path, kind: str, dice: Random) -> tuple[str, str, int] | None:
    """What is left of a secret of a kind in a request, at a random place of a session of a random size."""
    text, parts = secret(kind, dice)
    place = dice.choice(PLACES)
    long_lines = dice.random() < 0.3 and kind in BY_FORM
    before, after = (filler(dice, dice.randrange(9000), long_lines=long_lines) for _ in range(2))
    if place == "human":
        before = filler(dice, 10_000, long_lines=long_lines) + "\n" + before
    around = " " if long_lines else "\n"
    limit = dice.choice((100_000, 20_000, 6_000))
    lines = records(place, f"{before}{around}{text}{around}{after}", 0 if limit == 100_000 else 12, dice)
    piece = shown(parts, request_of(file, lines, limit))
    return (place, piece, limit) if piece else None


@pytest.mark.parametrize("kind", [*KINDS[::5], *KEYS])
def test_no_cut_on_the_way_to_a_model_leaves_half_a_secret(kind: str, tmp_path: Path) -> None:
    assert leaks(tmp_path / "s.jsonl", kind, Random(kind)) is None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_cut_of_many_leaves_half_a_secret(kind: str, tmp_path: Path) -> None:
    dice = Random(f"{kind} again")
    for _ in range(10):
        assert leaks(tmp_path / "s.jsonl", kind, dice) is None


@pytest.mark.parametrize("before", range(0, 2_400, 400))
def test_a_key_whose_beginning_was_cut_away_with_the_middle_of_an_answer_is_known(before: int, tmp_path: Path) -> None:
    text, parts = secret("large rsa key", Random(before))
    answer = "line of a log\n" * (before // 14) + text + "\nlast line" * 20
    request = request_of(tmp_path / "s.jsonl", records("result", answer, 0, Random(1)), 100_000)
    assert shown(parts, request) is None
