"""Reads a model's answer: its JSON object (requirements A.4), its analysis and its tags.

Invariant: `parse_answer` is a pure function of the text and of `PARSER_VERSION`, and never raises.
Each entry of a sound `bullet_tags` becomes one `ParsedTag` at its index, even an unusable one. Of a
cut or damaged answer, each complete entry becomes one. `problems` lists the parts that could not be
read. So this parser or a better one can read an answer again years later.

Only a whole object with a list `bullet_tags` is an answer. For any other text, `fault` has the
reason. A judge that must give evidence must also keep to the format and to the names in its
question: see `fault_of`.

Each value was valid JSON in the text, and prose is redacted and bounded. `objects_in` returns only
whole objects, never a part of a damaged one. `_saved_from` returns only whole strings and whole
entries. Both take linear time for any text: failed attempts are counted against a budget, and the
search ends when it is spent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isinf
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from reflector.playbook.bullet import MAX_TAGS, VERDICTS
from reflector.playbook.document import brief
from reflector.playbook.names import is_name
from reflector.text.lazy import lazy_pattern
from reflector.text.secrets import quote

#: Ways in which JSON is found, from sound to damaged.
Strategy = Literal["whole", "fence", "bare_fence", "braces", "repaired", "none"]

#: Increased if the same text would give another result; it is recorded with each result.
PARSER_VERSION = 5

MAX_ANALYSIS = 20_000
MAX_RATIONALE = 2_000
MAX_QUOTE = 1_000
#: The most bytes of an answer with evidence; no honest one comes near it.
MAX_BYTES = 64 * 1024
#: The largest whole number that an event can contain.
_MAX_TURN = 2**53 - 1


class _Part(NamedTuple):
    """A part of an entry in words, its type, and its type in words."""

    title: str
    kind: type
    words: str


#: The parts of an entry except its name and its tag: the reason, and the evidence.
_PARTS: Mapping[str, _Part] = {
    "rationale": _Part("the rationale", str, "text"),
    "relevant": _Part("relevant", bool, "true or false"),
    "followed": _Part("followed", str, "text"),
    "turn": _Part("turn", int, "a whole number"),
    "quote": _Part("quote", str, "text"),
    "sure": _Part("sure", str, "text"),
}
FOLLOWED = ("yes", "no", "unclear")
SURE = ("sure", "likely", "unsure")
_MAX_PROBLEMS = 50
_MAX_PROBLEM = 300

_KEYS = ("analysis", "bullet_tags")
#: Names as models write them: with the brackets of a citation, or white space around.
_DRESSED = lazy_pattern(r"\s{0,40}\[?\s{0,4}([a-z]{2,4}[-_][0-9]{1,59})\s{0,4}\]?\s{0,40}")

_MAX_OBJECTS = 10_000
#: A `{` that can begin JSON; `{x}` in prose and `{'a': 1}` cannot.
_PLAUSIBLE = lazy_pattern(r'\{(?=\s*["}])')
_STRING_OR_BRACE = lazy_pattern(r'"(?:[^"\\]|\\.)*+(?P<closed>"?)|[{}]', re.DOTALL)
_BRACE = lazy_pattern(r"[{}]")
_FENCED = lazy_pattern(r"```(?P<tag>[A-Za-z0-9_+-]{0,20})(?P<content>(?:(?!```).)*+)```", re.DOTALL)
_ANALYSIS = lazy_pattern(r'"analysis"\s{0,40}:\s{0,40}(?=")')
_TAGS = lazy_pattern(r'"bullet_tags"\s{0,40}:\s{0,40}\[')


class Extraction(NamedTuple):
    """An object found in a text, and the way in which it was found.

    strategy  whole (the text is nothing else), fence (```json), bare_fence (```), braces (text
              around it), repaired (complete entries of a damaged one), none
    problems  its faults, or why there is no object
    """

    value: dict[str, Any] | None
    strategy: Strategy
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedTag:
    """One entry of `bullet_tags`.

    index      its place in the list, from 0
    name       the bullet's name, well-formed; None if there is none
    tag        helpful, harmful, neutral; "unknown" for any other word; None if there is none
    rationale  one line of at most 2,000 characters, "" if there is none
    malformed  why the entry cannot be used, else None
    relevant   False if the bullet has nothing to do with the session
    followed   yes, no, unclear; None if there is no such word
    turn       the number of the turn that is quoted, from 1; None if there is none
    quote      its words, one line of at most 1,000 characters
    sure       sure, likely, unsure; None if there is no such word
    """

    index: int
    name: str | None
    tag: str | None
    rationale: str = ""
    malformed: str | None = None
    relevant: bool = True
    followed: str | None = None
    turn: int | None = None
    quote: str = ""
    sure: str | None = None


class Parsed(NamedTuple):
    """The content of an answer.

    strategy  how its JSON was found: see `Extraction`; repaired if it was cut or damaged, none
              if nothing could be read
    fault     why it is not an answer, though parts of it may have been read; "" for an answer
    """

    analysis: str
    tags: tuple[ParsedTag, ...]
    strategy: Strategy
    problems: tuple[str, ...] = ()
    fault: str = ""

    @property
    def failed(self) -> bool:
        """Whether this is not an answer. An empty list of tags is a valid answer."""
        return bool(self.fault)


def parse_answer(text: str) -> Parsed:
    """Read an answer: a sound object, else the complete entries of a damaged one."""
    extraction = find_answer(text)
    if extraction.strategy == "none":
        return Parsed("", (), "none", extraction.problems, "; ".join(extraction.problems))
    problems = list(extraction.problems)
    answer = extraction.value or {}
    entries = _entries_of(answer, problems)
    fault = quote(problems[0], _MAX_PROBLEM) if problems else ""
    analysis = answer.get("analysis")
    if not isinstance(analysis, str | None):
        problems.append(f"`analysis` must be text, not {brief(analysis)}")
        analysis = ""
    tags: list[ParsedTag] = []
    for index, entry in enumerate(entries):
        tag, tag_problems = _parse_tag(index, entry)
        tags.append(tag)
        problems.extend(f"tag {index}: {problem}" for problem in tag_problems)
    shown = [quote(problem, _MAX_PROBLEM) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        shown.append(f"… and {len(problems) - _MAX_PROBLEMS:,} more")
    line = quote(analysis or "", MAX_ANALYSIS)
    return Parsed(line, tuple(tags), extraction.strategy, tuple(shown), fault)


def _entries_of(answer: Mapping[str, Any], problems: list[str]) -> list[object]:
    """Return the entries of an answer's `bullet_tags`, and add its faults to the problems."""
    entries = answer.get("bullet_tags", [])
    if "bullet_tags" not in answer and not problems:
        problems.append("`bullet_tags` is missing")
    if not isinstance(entries, list):
        problems.append(f"`bullet_tags` must be a list, not {brief(entries)}")
        return []
    if len(entries) > MAX_TAGS:
        problems.append(
            f"the answer has more than {MAX_TAGS:,} tags; reflector did not read the other tags"
        )
    return entries[:MAX_TAGS]


def read_answer(data: Mapping[str, Any]) -> Parsed:
    """Read the answer in an event's data. One that needs evidence is not read if it is too long."""
    text = data["answer"]
    if "asked" in data and len(text.encode()) > MAX_BYTES:
        too_long = f"the answer is longer than {MAX_BYTES // 1024} KB"
        return Parsed("", (), "none", (too_long,), too_long)
    return parse_answer(text)


def fault_of(parsed: Parsed, names: Collection[str]) -> str:
    """Return why this is not an answer about these names, "" for an answer. A fault is a departure
    from the required format, or a name that the question did not have.
    """
    if parsed.fault or parsed.problems:
        return parsed.fault or parsed.problems[0]
    stranger = next((tag for tag in parsed.tags if tag.name not in names), None)
    return (
        f"tag {stranger.index}: the judge was not asked about {stranger.name}" if stranger else ""
    )


def find_answer(text: str, keys: Sequence[str] = _KEYS) -> Extraction:
    """Return the first object in a model's text that has one of these keys. Never raises.

    Thoughts before the answer, up to the last `</think>`, may contain drafts of it. Inside an
    object, `</think>` is text.
    """
    _, end_of_thoughts, answer = text.rpartition("</think>")
    anywhere = _find(text, keys)
    if not end_of_thoughts or anywhere.strategy == "whole":
        return anywhere
    after_thoughts = _find(answer, keys)
    if after_thoughts.value and after_thoughts.strategy != "repaired":
        return after_thoughts
    for extraction in objects_in(text):
        if _has_key(extraction, keys) and end_of_thoughts in str(extraction.value):
            return extraction
    return anywhere if after_thoughts.strategy == "none" else after_thoughts


def _has_key(extraction: Extraction, keys: Sequence[str]) -> bool:
    return any(key in (extraction.value or {}) for key in keys)


def _find(text: str, keys: Sequence[str]) -> Extraction:
    """Return the first object that has one of the keys. If there is none, return the complete
    entries of damaged JSON, or else an empty object with the fault.
    """
    first: Extraction | None = None
    for extraction in objects_in(text):
        if _has_key(extraction, keys):
            return extraction
        first = first or extraction
    saved = _saved_from(text) if keys is _KEYS else {}
    if saved:
        return Extraction(
            saved,
            "repaired",
            ("the JSON is cut off or damaged; reflector read only the undamaged entries",),
        )
    if first is None:
        missing = "a complete JSON object" if "{" in text else "JSON"
        return Extraction({}, "none", (f"the answer does not contain {missing}",))
    present = ", ".join(brief(key) for key in list(first.value or {})[:5])
    shown = f"the keys {present}" if present else "no keys"
    fault = f"the object has {shown}; an answer must have {' or '.join(keys)}"
    return Extraction({}, first.strategy, (fault,))


class _Word(NamedTuple):
    """A part of an entry, None if it cannot be used, and its fault, "" for none."""

    text: str | None
    fault: str = ""


def _parse_tag(index: int, entry: object) -> tuple[ParsedTag, list[str]]:
    """Return one entry as a fact, and its problems."""
    if not isinstance(entry, dict):
        fault = "the entry is not an object"
        return ParsedTag(index, None, None, malformed=fault), [f"{fault}: {brief(entry)}"]
    name = _read_name(entry.get("name"))
    tag = _read_tag(entry.get("tag"))
    parsed = ParsedTag(
        index,
        name.text,
        tag.text,
        _line(entry.get("rationale"), MAX_RATIONALE),
        name.fault or tag.fault or None,
        relevant=entry.get("relevant") is not False,
        followed=_one_of(FOLLOWED, entry.get("followed")),
        turn=_read_turn(entry.get("turn")),
        quote=_line(entry.get("quote"), MAX_QUOTE),
        sure=_one_of(SURE, entry.get("sure")),
    )
    problems = [f"{name.fault}: {brief(entry.get('name'))}"] if name.fault else []
    about = name.text or "the entry"
    return parsed, problems + [f"{about}{problem}" for problem in _tag_problems(entry, tag)]


def _read_name(value: object) -> _Word:
    if value is None:
        return _Word(None, "the name is missing")
    dressed = _DRESSED.fullmatch(value) if isinstance(value, str) else None
    if dressed is None or not is_name(dressed[1]):
        return _Word(None, "the name is not valid")
    return _Word(dressed[1])


def _read_tag(value: object) -> _Word:
    if value is None:
        return _Word(None, "the tag is missing")
    if not isinstance(value, str):
        return _Word(None, "the tag is not text")
    return _Word(value if value in VERDICTS else "unknown")


def _tag_problems(entry: Mapping[str, Any], tag: _Word) -> Iterator[str]:
    """Yield the faults of an entry's parts, except its name."""
    if tag.fault:
        yield f": {tag.fault}: {brief(entry.get('tag'))}"
    elif tag.text == "unknown":
        yield f" has the tag {brief(entry['tag'])}; a tag must be helpful, harmful or neutral"
    for key, part in _PARTS.items():
        value = entry.get(key)
        if value is not None and type(value) is not part.kind:
            yield f": {part.title} must be {part.words}, not {brief(value)}"


def _line(value: object, most: int) -> str:
    return quote(value, most) if isinstance(value, str) else ""


def _one_of(words: Sequence[str], value: object) -> str | None:
    return value if isinstance(value, str) and value in words else None


def _read_turn(value: object) -> int | None:
    # Not `isinstance`: true is not a number here.
    return value if type(value) is int and 0 < value <= _MAX_TURN else None


def worst(strategies: Iterable[Strategy]) -> Strategy:
    """Return the least reliable way of finding JSON; none if there is none."""
    successful = [strategy for strategy in strategies if strategy != "none"]
    return max(successful, key=get_args(Strategy).index, default="none")


def extract_json_object(text: str) -> dict[str, Any] | None:
    """Return the first sound object in `text`, or None. A list, a string and a number are not
    objects, and NaN is not JSON.
    """
    extraction = next(objects_in(text), None)
    return None if extraction is None else extraction.value


def objects_in(text: str) -> Iterator[Extraction]:
    """Yield the sound objects of `text`: the whole of it, or else ```json fences, bare fences, and
    objects between braces.
    """
    if (value := _whole_object(text)) is not None:
        yield Extraction(value, "whole")
        return
    strategies: Mapping[str, Strategy] = {"json": "fence", "": "bare_fence"}
    for language, strategy in strategies.items():
        for fenced in _FENCED.finditer(text):
            value = _whole_object(fenced["content"]) if fenced["tag"] == language else None
            if value is not None:
                yield Extraction(value, strategy)
    for value in _braced(text):
        yield Extraction(value, "braces")


def _saved_from(text: str) -> dict[str, Any]:
    """Return the complete parts of a cut or damaged answer: its analysis and the entries of its
    bullet_tags.
    """
    saved: dict[str, Any] = {}
    if key := _ANALYSIS.search(text):
        with suppress(ValueError):
            saved["analysis"], _ = _DECODER.raw_decode(text, key.end())
    if key := _TAGS.search(text):
        entries = _braced(text, key.end(), entries=True)
        if tags := [entry for entry in entries if "name" in entry]:
            saved["bullet_tags"] = tags
    return saved


def _no_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


def _float(literal: str) -> float:
    value = float(literal)
    if isinf(value):
        raise ValueError(f"the number {literal} is too large")
    return value


#: Models break lines inside of strings.
_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant, parse_float=_float)


def _whole_object(text: str) -> dict[str, Any] | None:
    try:
        value = _DECODER.decode(text.strip().removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _braced(text: str, position: int = 0, *, entries: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the sound objects of a text from left to right.

    After a damaged object, the search continues after its closing brace, so that a part of this
    object is not yielded. With `entries`, no object contains another one, so the search continues
    at the next opening brace.
    """
    # The number of characters that failed attempts may read, because a hostile text has many.
    budget = 16 * len(text) + 4_000_000
    count = 0
    while count < _MAX_OBJECTS and budget > 0:
        start = text.find("{", position)
        if start < 0:
            return
        plausible = _PLAUSIBLE.match(text, start) is not None
        if plausible:
            try:
                value, position = _DECODER.raw_decode(text, start)
            except json.JSONDecodeError as error:
                # The error also counts the lines before it, which is faster.
                budget -= error.pos - start + error.pos // 8 + 100
            except RecursionError:
                budget -= 100_000
            except ValueError:
                budget -= len(text) - start
            else:
                yield value
                count += 1
                continue
        if entries:
            position = start + 1
            continue
        closing, steps = _closing_brace(text, start, budget // 8)
        budget -= 8 * steps
        if closing is None and plausible:
            return  # cut off: each object after its start is a part of it
        position = start + 1 if closing is None else closing


def _closing_brace(text: str, start: int, most: int) -> tuple[int | None, int]:
    """Return the end of the brace that closes the one at `start`, ignoring strings, and the number
    of braces and strings that the search took.
    """
    depth = steps = 0
    tokens = _STRING_OR_BRACE.finditer(text, start)
    while steps <= most and (token := next(tokens, None)) is not None:
        steps += 1
        if token[0] == "{":
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                return token.end(), steps
        elif not token["closed"]:
            # A lone quote, as in prose. After it only braces are searched, because a search for
            # the end of a string at each later quote takes quadratic time.
            tokens = _BRACE.finditer(text, token.start())
    return None, steps
