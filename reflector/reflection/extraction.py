"""The JSON object in a model's answer (requirements A.4), and the whole entries of an object that is damaged.

Invariant: each value stood in the text as valid JSON. `objects_in` returns whole objects only, never a part of a
damaged one; `saved_from` returns whole strings and whole entries only. Both take linear time for any text: failed
attempts are paid from a budget, and the search ends when it is spent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import isinf
from typing import Any, Literal, NoReturn

Strategy = Literal["whole", "fence", "bare_fence", "braces", "repaired", "none"]

_MAX_OBJECTS = 10_000
#: A `{` that can begin JSON; `{x}` in prose and `{'a': 1}` cannot.
_PLAUSIBLE = re.compile(r'\{(?=\s*["}])')
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*+(?P<closed>"?)|[{}]', re.DOTALL)
_BRACE = re.compile(r"[{}]")
_FENCED = re.compile(r"```(?P<tag>[A-Za-z0-9_+-]{0,20})(?P<content>(?:(?!```).)*+)```", re.DOTALL)
_ANALYSIS = re.compile(r'"analysis"\s{0,40}:\s{0,40}(?=")')
_TAGS = re.compile(r'"bullet_tags"\s{0,40}:\s{0,40}\[')


@dataclass(frozen=True, slots=True)
class Extraction:
    """An object found in a text, and how.

    strategy  whole (the text is nothing else), fence (```json), bare_fence (```), braces (text around it), repaired
              (complete entries of a damaged one), none
    problems  what is wrong with it, or why there is none
    """

    value: dict[str, Any] | None
    strategy: Strategy
    problems: tuple[str, ...] = ()


def extract_json(text: str) -> Extraction:
    """Return the first sound object, with the strategy none if there is none. Never raises."""
    return next(objects_in(text), Extraction(None, "none"))


def extract_json_object(text: str) -> dict[str, Any] | None:
    """The first sound object in `text`, or None. A list, a string and a number are not objects, NaN is not JSON."""
    return extract_json(text).value


def objects_in(text: str) -> Iterator[Extraction]:
    """Yield the sound objects of `text`: the whole of it, else ```json fences, bare fences, objects between braces."""
    if (value := _whole_object(text)) is not None:
        yield Extraction(value, "whole")
        return
    fences = [(fenced["tag"], fenced["content"]) for fenced in _FENCED.finditer(text)]
    for wanted in ("json", ""):
        for tag, content in fences:
            if tag == wanted and (value := _whole_object(content)) is not None:
                yield Extraction(value, "fence" if wanted else "bare_fence")
    for value in _braced(text):
        yield Extraction(value, "braces")


def saved_from(text: str) -> dict[str, Any]:
    """Return what a cut or damaged answer still holds whole: its analysis and the entries of its bullet_tags."""
    saved: dict[str, Any] = {}
    if key := _ANALYSIS.search(text):
        with suppress(ValueError):
            saved["analysis"], _ = _DECODER.raw_decode(text, key.end())
    if key := _TAGS.search(text):
        tags = [entry for entry in _braced(text, key.end(), entries=True) if "name" in entry]
        saved |= {"bullet_tags": tags} if tags else {}
    return saved


def _no_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _integer(literal: str) -> int:
    if len(literal) > 4000:  # converting longer ones takes quadratic time
        raise ValueError("an integer of more than 4000 digits")
    return int(literal)


def _float(literal: str) -> float:
    value = float(literal)
    if isinf(value):
        raise ValueError(f"{literal} is beyond every number")
    return value


#: Models break lines inside of strings.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant, parse_int=_integer, parse_float=_float)


def _whole_object(text: str) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(text.strip().removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _braced(text: str, position: int = 0, *, entries: bool = False) -> Iterator[dict[str, Any]]:
    """Objects from left to right. A damaged one is passed over up to its closing brace; of `entries`, which hold no
    objects, up to the next opening brace."""
    budget = 16 * len(text) + 4_000_000
    found = 0
    while found < _MAX_OBJECTS and budget > 0 and (start := text.find("{", position)) >= 0:
        plausible = _PLAUSIBLE.match(text, start) is not None
        if plausible:
            try:
                value, position = _DECODER.raw_decode(text, start)
            except json.JSONDecodeError as error:
                budget -= error.pos - start + error.pos // 8 + 100  # the error counts the lines before it
            except RecursionError:
                budget -= 100_000
            except ValueError:
                budget -= len(text) - start
            else:
                yield value
                found += 1
                continue
        if entries:
            position = start + 1
            continue
        closing, steps = _closing_brace(text, start, budget // 8)
        budget -= 8 * steps
        if closing is None and plausible:
            return  # cut off: each object behind its start is a part of it
        position = start + 1 if closing is None else closing


def _closing_brace(text: str, start: int, most: int) -> tuple[int | None, int]:
    """Where the brace at `start` is closed, strings aside, and how many braces and strings it took to find out."""
    depth = steps = 0
    tokens = _STRING_OR_BRACE.finditer(text, start)
    while (token := next(tokens, None)) is not None and steps <= most:
        steps += 1
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                return token.end(), steps
        elif not token["closed"]:
            # A lone quote, as in prose; after it only braces are looked for, because looking for the end of a
            # string again at each quote that follows takes quadratic time.
            tokens = _BRACE.finditer(text, token.start())
    return None, steps
