"""A model's answer, read: its analysis and its tags.

Invariant: `parse_answer` is a pure function of the text and of `PARSER_VERSION`, and never raises. Every
entry of `bullet_tags` becomes one `ParsedTag`, the unusable ones too, at the index where it stood; what
could not be read is said in `problems`. So an answer can be read again years later, by this parser or a
better one, and nothing that a model said about a bullet is dropped in silence.

`name` and `tag` of a `ParsedTag` are facts: a well-formed name or None, a known verdict, "unknown" or None.
Whatever else the model wrote is prose, stands in `rationale`, `analysis` and `problems`, and is redacted
and bounded there.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reflector.events.fold import MAX_TAGS
from reflector.playbook.names import is_name
from reflector.reflection.extraction import (
    Extraction,
    Joined,
    Strategy,
    extract_json,
    extract_json_object,
    loads,
    objects_in,
)
from reflector.reflection.salvage import Cut, salvage
from reflector.text.secrets import quote

__all__ = [
    "PARSER_VERSION",
    "Extraction",
    "Parsed",
    "ParsedTag",
    "extract_json",
    "extract_json_object",
    "parse_answer",
]

#: Raised when the same text would give another result; it is written beside each result.
PARSER_VERSION = 1

MAX_ANALYSIS = 20_000
MAX_RATIONALE = 2_000
_MAX_PROBLEMS = 50
_MAX_PROBLEM = 300

_VERDICTS = frozenset({"helpful", "harmful", "neutral"})
_KEYS = ("analysis", "bullet_tags")
#: Names as models write them: with the brackets of a citation, or white space around.
_DRESSED = re.compile(r"\s{0,40}\[?\s{0,4}([a-z]{2,4}[-_][0-9]{1,59})\s{0,4}\]?\s{0,40}")

_show = reprlib.Repr()
_show.maxstring = _show.maxother = _show.maxlong = 60
_show.maxdict = _show.maxlist = 3
_show.maxlevel = 2


@dataclass(frozen=True, slots=True)
class ParsedTag:
    """One entry of `bullet_tags`.

    index      its place in the list, from 0
    name       the bullet's name, well-formed; None where there is none
    tag        helpful, harmful, neutral; "unknown" for any other word; None where there is none
    rationale  one line of at most 2,000 characters, "" where there is none
    malformed  why the entry says nothing about a bullet, else None
    """

    index: int
    name: str | None
    tag: str | None
    rationale: str = ""
    malformed: str | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """What an answer says. `strategy` tells how its JSON was found: fence, bare_fence, whole, braces where it was
    sound, repaired and list where it was damaged, none where there was nothing to read."""

    analysis: str
    tags: tuple[ParsedTag, ...]
    strategy: Strategy
    problems: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """True when nothing could be read; an object without tags is an answer that says nothing."""
        return self.strategy == "none"


@dataclass(frozen=True, slots=True)
class Found:
    """The object of an answer that has the analysis and the tags, before anything in it is checked.

    is_sound  False where it was damaged and put together again
    problems  what was wrong; of the strategy none, why there is nothing
    """

    answer: Mapping[str, Any]
    strategy: Strategy
    problems: tuple[str, ...] = ()
    is_sound: bool = True


def parse_answer(text: str) -> Parsed:
    """Read an answer: what is sound first, else what can be saved of a damaged one."""
    found = find_answer(text)
    if found.strategy == "none":
        return Parsed("", (), "none", tuple(map(_said, found.problems)))
    return _read(found.answer, found.strategy, list(found.problems))


def find_answer(text: str) -> Found:
    """Where an answer stands in a model's text. Never raises."""
    # What a model thinks before it answers may hold drafts of the answer.
    _, thought, answer = text.rpartition("</think>")
    if thought and (found := _find(answer)).strategy != "none":
        return found
    return _find(text)


def _find(text: str) -> Found:
    sound = objects_in(text)
    wanted = [(found, inner) for found in sound if (inner := _with_keys(found.value)) is not None]
    if wanted:
        return _from_sound(text, wanted)
    if (nested := _nested_answer(text)) is not None:
        return _find(nested)
    saved = salvage(text)
    if saved.value is not None:
        problems = ("the JSON is damaged", *saved.notes)
        return Found(saved.value, "list" if saved.listed else "repaired", problems, is_sound=False)
    if sound:
        keys = ", ".join(_show.repr(key) for key in list(sound[0].value or ())[:5]) or "no keys"
        return Found({}, sound[0].strategy, (f"the object has neither analysis nor bullet_tags but {keys}",))
    return Found({}, "none", extract_json(text).notes)


def _with_keys(value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The object that has one of the keys: the value itself, or one that it wraps."""
    if value is None or any(key in value for key in _KEYS):
        return value
    inner = [one for one in value.values() if isinstance(one, dict) and any(key in one for key in _KEYS)]
    return inner[0] if len(inner) == 1 else None


def _nested_answer(text: str) -> str | None:
    """The text of an answer that is itself a JSON string."""
    stripped = text.strip()
    if not stripped.startswith('"'):
        return None
    try:
        value = loads(stripped)
    except (ValueError, RecursionError):
        return None
    # Each level of quoting at least doubles the quotes, so the depth is bounded by the length's logarithm.
    return value if isinstance(value, str) and len(value) < len(text) else None


def _from_sound(text: str, wanted: list[tuple[Extraction, Mapping[str, Any]]]) -> Found:
    """Analysis and tags from the first object that has them; models sometimes give the two apart."""
    first, _ = wanted[0]
    answer: dict[str, Any] = {}
    problems: list[str] = []
    for found, inner in wanted:
        if isinstance(inner, Joined):
            problems.append("bullet_tags stands twice in one object; both lists were taken")
        for key in _KEYS:
            if key not in inner:
                continue
            if key not in answer:
                answer[key] = inner[key]
            elif inner[key] != answer[key]:
                problems.append(f"a second object also has {key}; the first one was taken ({found.strategy})")
    is_sound = True
    if "bullet_tags" not in answer:
        later = salvage(text[first.end :])
        if later.value is not None and "bullet_tags" in later.value:
            answer["bullet_tags"] = later.value["bullet_tags"]
            problems += ["the tags are apart and damaged", *later.notes]
            is_sound = False
    return Found(answer, first.strategy, tuple(problems), is_sound)


def _said(problem: str) -> str:
    return quote(problem, _MAX_PROBLEM)


def _read(answer: Mapping[str, Any], strategy: Strategy, problems: list[str]) -> Parsed:
    analysis = answer.get("analysis", "")
    if not isinstance(analysis, str):
        problems.append(f"analysis is no text: {_show.repr(analysis)}")
        analysis = ""
    elif isinstance(analysis, Cut):
        problems.append("analysis is cut off")
    tags: list[ParsedTag] = []
    for index, entry in enumerate(_entries(answer.get("bullet_tags", ()), problems)):
        if index == MAX_TAGS:
            problems.append(f"there are more than {MAX_TAGS:,} tags; the rest was not read")
            break
        tag, said = _tag(index, entry)
        tags.append(tag)
        problems += [f"tag {index}: {one}" for one in said]
    shown = [_said(problem) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        shown.append(f"… and {len(problems) - _MAX_PROBLEMS:,} more")
    return Parsed(quote(analysis, MAX_ANALYSIS), tuple(tags), strategy, tuple(shown))


def _entries(tags: object, problems: list[str]) -> list[Any]:
    """The entries of `bullet_tags`, which models also write as one tag, as name: verdict, or as a JSON string."""
    if isinstance(tags, str):
        try:
            tags = loads(tags)
            problems.append("bullet_tags is a string that holds JSON")
        except (ValueError, RecursionError):
            pass
    if isinstance(tags, list | tuple):
        return list(tags)
    if isinstance(tags, dict):
        if "name" in tags or "tag" in tags:
            problems.append("bullet_tags is one tag, no list")
            return [tags]
        problems.append("bullet_tags is an object, no list")
        return [
            {**verdict, "name": name} if isinstance(verdict, dict) else {"name": name, "tag": verdict}
            for name, verdict in tags.items()
        ]
    problems.append(f"bullet_tags is no list: {_show.repr(tags)}")
    return []


def _tag(index: int, entry: object) -> tuple[ParsedTag, list[str]]:
    """One entry as a fact, and what was wrong with it."""
    if not isinstance(entry, dict):
        return ParsedTag(index, None, None, malformed="the entry is no object"), [f"is no object: {_show.repr(entry)}"]
    said: list[str] = []
    name, no_name = _name(entry)
    if no_name:
        said.append(f"{no_name}: {_show.repr(entry.get('name'))}")
    word = entry.get("tag")
    tag: str | None = None
    no_tag: str | None = None
    if isinstance(word, Cut):
        no_tag = "the tag is cut off"
    elif isinstance(word, str):
        tag = word if word in _VERDICTS else "unknown"
        if tag == "unknown":
            said.append(f"{name or 'it'} is called {_show.repr(word)}, not helpful, harmful or neutral")
    else:
        no_tag = "the tag is missing" if word is None else "the tag is no text"
    if no_tag:
        said.append(f"{name or 'it'}: {no_tag}: {_show.repr(word)}")
    rationale = entry.get("rationale")
    if isinstance(rationale, Cut):
        said.append(f"{name or 'it'}: the rationale is cut off")
    elif rationale is not None and not isinstance(rationale, str):
        said.append(f"{name or 'it'}: the rationale is no text: {_show.repr(rationale)}")
    line = quote(rationale, MAX_RATIONALE) if isinstance(rationale, str) else ""
    return ParsedTag(index, name, tag, line, no_name or no_tag), said


def _name(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The bullet's name, or None and why."""
    value = entry.get("name")
    if value is None:
        return None, "the name is missing"
    if not isinstance(value, str):
        return None, "the name is no text"
    if isinstance(value, Cut):
        return None, "the name is cut off"
    if is_name(value):
        return value, None
    dressed = _DRESSED.fullmatch(value)
    if dressed and is_name(dressed[1]):
        return dressed[1], None
    return None, "the name has no known form"
