"""The JSON object in a model's answer, where it is sound (requirements A.4).

Invariant: what comes out is valid JSON and was a whole object in the text, never a part of a damaged one;
damaged answers are the business of `salvage`. Any text takes linear time: what is read in vain is paid
from a budget, and when that is spent the search ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isinf
from typing import Any, Literal, NoReturn

Strategy = Literal["fence", "bare_fence", "braces", "whole", "repaired", "list", "none"]

_MAX_OBJECTS = 1000
#: A `{` that can begin JSON; `{x}` in prose and `{'a': 1}` cannot.
_PLAUSIBLE = re.compile(r'\{(?=\s*["}])')
_STRING_OR_BRACE = re.compile(r'"(?:[^"\\]|\\.)*+(?P<closed>"?)|[{}]', re.DOTALL)
_BRACE = re.compile(r"[{}]")
_FENCE_TAG = re.compile(r"[A-Za-z0-9_+-]{0,20}")


@dataclass(frozen=True, slots=True)
class Extraction:
    """An object found in a text, how, and where.

    strategy  fence (```json), bare_fence (```), whole (the text is nothing else), braces (text around it), none
    notes     why there is none
    """

    value: dict[str, Any] | None
    strategy: Strategy
    notes: tuple[str, ...] = ()
    start: int = 0
    end: int = 0


class Joined(dict[str, Any]):
    """An object with `bullet_tags` twice, as lists. JSON readers keep the last; here both are taken."""


def extract_json(text: str) -> Extraction:
    """The first sound object: in a ```json fence, in a bare fence, between braces. Never raises."""
    found = objects_in(text)
    if found:
        return found[0]
    return Extraction(None, "none", ("it holds no whole JSON object" if "{" in text else "it holds no JSON",))


def extract_json_object(text: str) -> dict[str, Any] | None:
    """The first sound object in `text`, or None. Lists, strings and numbers are no objects, NaN is no JSON."""
    return extract_json(text).value


def objects_in(text: str) -> list[Extraction]:
    """The sound objects of `text`: ```json fences, bare fences, then the others from left to right."""
    braced = list(_braced(text))
    fences = [
        (tag, start, end)
        for tag, start, end in _fences(text)
        # A fence inside the first object stands in one of its strings.
        if not (braced and braced[0].start < start < braced[0].end)
    ]
    found: list[Extraction] = []
    for wanted, strategy in (("json", "fence"), ("", "bare_fence")):
        for tag, start, end in fences:
            if tag == wanted and (value := _whole_object(text[start:end])) is not None:
                found.append(Extraction(value, "fence" if strategy == "fence" else "bare_fence", (), start, end))
    taken = sorted((fenced.start, fenced.end) for fenced in found)
    for one in braced:
        while taken and taken[0][1] < one.start:
            taken.pop(0)
        if not taken or one.start < taken[0][0]:
            found.append(one)
    return found


def loads(text: str) -> Any:
    """Strict JSON: no NaN, no endless integers. Raises ValueError or RecursionError."""
    return _DECODER.decode(text)


def _no_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no JSON")


def _integer(literal: str) -> int:
    if len(literal) > 4000:  # converting longer ones takes quadratic time
        raise ValueError("an integer of more than 4000 digits")
    return int(literal)


def _float(literal: str) -> float:
    value = float(literal)
    if isinf(value):
        raise ValueError(f"{literal} is beyond every number")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    lists = [value for key, value in pairs if key == "bullet_tags" and isinstance(value, list)]
    if len(lists) < 2:
        return found
    joined = Joined(found)
    joined["bullet_tags"] = [tag for tags in lists for tag in tags]
    return joined


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_no_constant, parse_int=_integer, parse_float=_float
)


def _whole_object(text: str) -> dict[str, Any] | None:
    try:
        value = loads(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _fences(text: str) -> Iterator[tuple[str, int, int]]:
    """Tag, start and end of what stands between pairs of ```; the last one may be without its pair and is left out."""
    position = 0
    while (opening := text.find("```", position)) >= 0:
        tag = _FENCE_TAG.match(text, opening + 3)
        start = tag.end() if tag else opening + 3
        closing = text.find("```", start)
        if closing < 0:
            return
        yield tag[0] if tag else "", start, closing
        position = closing + 3


def _braced(text: str) -> Iterator[Extraction]:
    """Objects from left to right. What cannot be read is passed over as a whole, up to its closing brace."""
    budget = 16 * len(text) + 4_000_000
    position = found = 0
    while found < _MAX_OBJECTS and budget > 0 and (start := text.find("{", position)) >= 0:
        plausible = _PLAUSIBLE.match(text, start) is not None
        if plausible:
            try:
                value, end = _DECODER.raw_decode(text, start)
            except json.JSONDecodeError as error:
                budget -= error.pos - start + error.pos // 8 + 100  # the error counts the lines before it
            except RecursionError:
                budget -= 100_000
            except ValueError:
                budget -= len(text) - start
            else:
                whole = not text[:start].strip() and not text[end:].strip() if not found else False
                yield Extraction(value, "whole" if whole else "braces", (), start, end)
                found += 1
                position = end
                continue
        closing, steps = _closing_brace(text, start, budget // 8)
        budget -= 8 * steps
        if closing is None and plausible:
            return  # cut off: whatever follows is a part of it
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
