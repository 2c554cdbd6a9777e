"""A model's answer, read: its analysis and its tags.

Invariant: `parse_answer` is a pure function of the text and of `PARSER_VERSION`, and never raises. Each entry of a
sound `bullet_tags` becomes one `ParsedTag`, an unusable one too, at its index; of a cut or damaged answer each complete
entry does. `problems` says what could not be read. So an answer can be read again years later, by this parser or a
better one.

`name` and `tag` of a `ParsedTag` are facts: a well-formed name or None, a known verdict, "unknown" or None.
Everything else that the model wrote is prose: it is in `rationale`, `analysis` and `problems`, redacted and bounded.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reflector.events.state import MAX_TAGS
from reflector.playbook.counting import VERDICTS
from reflector.playbook.names import is_name
from reflector.reflection.extraction import Extraction, Strategy, objects_in, saved_from
from reflector.text.secrets import quote

#: Raised when the same text would give another result; it is written beside each result.
PARSER_VERSION = 3

MAX_ANALYSIS = 20_000
MAX_RATIONALE = 2_000
_MAX_PROBLEMS = 50
_MAX_PROBLEM = 300

_KEYS = ("analysis", "bullet_tags")
#: Names as models write them: with the brackets of a citation, or white space around.
_DRESSED = re.compile(r"\s{0,40}\[?\s{0,4}([a-z]{2,4}[-_][0-9]{1,59})\s{0,4}\]?\s{0,40}")

TEXT: Mapping[str, object] = {"type": "string"}
VERDICT: Mapping[str, object] = {"type": "string", "enum": list(VERDICTS)}


def schema(**properties: object) -> dict[str, object]:
    """Return the JSON schema of an object with these properties and no other, for a client that can demand one."""
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_show = reprlib.Repr()
_show.maxstring = _show.maxother = _show.maxlong = 60
_show.maxdict = _show.maxlist = 3
_show.maxlevel = 2


@dataclass(frozen=True, slots=True)
class ParsedTag:
    """One entry of `bullet_tags`.

    index      its place in the list, from 0
    name       the bullet's name, well-formed; None if there is none
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
    """What an answer says. `strategy` is how its JSON was found: see `Extraction`; repaired where it was cut or
    damaged, none where nothing could be read."""

    analysis: str
    tags: tuple[ParsedTag, ...]
    strategy: Strategy
    problems: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """True when nothing could be read; an object without tags is an answer that says nothing."""
        return self.strategy == "none"


def parse_answer(text: str) -> Parsed:
    """Read an answer: a sound object, else the complete entries of a damaged one."""
    found = find_answer(text)
    if found.strategy == "none":
        return Parsed("", (), "none", found.problems)
    problems = list(found.problems)
    answer = found.value or {}
    analysis = answer.get("analysis", "")
    if not isinstance(analysis, str):
        problems.append(f"analysis is not text: {_show.repr(analysis)}")
        analysis = ""
    entries = answer.get("bullet_tags", [])
    if not isinstance(entries, list):
        problems.append(f"bullet_tags is not a list: {_show.repr(entries)}")
        entries = []
    if len(entries) > MAX_TAGS:
        problems.append(f"there are more than {MAX_TAGS:,} tags; the rest was not read")
    tags: list[ParsedTag] = []
    for index, entry in enumerate(entries[:MAX_TAGS]):
        tag, said = _tag(index, entry)
        tags.append(tag)
        problems += [f"tag {index}: {one}" for one in said]
    shown = [quote(problem, _MAX_PROBLEM) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        shown.append(f"… and {len(problems) - _MAX_PROBLEMS:,} more")
    return Parsed(quote(analysis, MAX_ANALYSIS), tuple(tags), found.strategy, tuple(shown))


def find_answer(text: str, wanted: Sequence[str] = _KEYS) -> Extraction:
    """Return the answer's object in a model's text: the first one with one of the `wanted` keys. Never raises.

    Thoughts before the answer, up to the last `</think>`, may hold drafts of it. Inside an object, `</think>` is text.
    """
    _, end, answer = text.rpartition("</think>")
    found = _find(text, wanted)
    if not end or found.strategy == "whole":
        return found
    after = _find(answer, wanted)
    if after.value and after.strategy != "repaired":
        return after
    for one in objects_in(text):
        if any(key in (one.value or {}) for key in wanted) and end in str(one.value):
            return one
    return after if after.strategy != "none" else found


def _find(text: str, wanted: Sequence[str]) -> Extraction:
    first: Extraction | None = None
    for found in objects_in(text):
        value = found.value or {}
        if any(key in value for key in wanted):
            return found
        if first is None:
            keys = ", ".join(_show.repr(key) for key in list(value)[:5]) or "no keys"
            lacks = f"neither {' nor '.join(wanted)}" if len(wanted) > 1 else f"no {wanted[0]}"
            first = Extraction({}, found.strategy, (f"the object has {lacks} but {keys}",))
    if wanted is _KEYS and (saved := saved_from(text)):
        return Extraction(saved, "repaired", ("the JSON is cut off or damaged; only its complete entries were read",))
    return first or Extraction({}, "none", ("it holds no whole JSON object" if "{" in text else "it holds no JSON",))


def _tag(index: int, entry: object) -> tuple[ParsedTag, list[str]]:
    """One entry as a fact, and what was wrong with it."""
    if not isinstance(entry, dict):
        wrong = "the entry is not an object"
        return ParsedTag(index, None, None, malformed=wrong), [f"{wrong}: {_show.repr(entry)}"]
    given, word, rationale = entry.get("name"), entry.get("tag"), entry.get("rationale")
    said: list[str] = []
    dressed = _DRESSED.fullmatch(given) if isinstance(given, str) else None
    name = dressed[1] if dressed and is_name(dressed[1]) else None
    malformed: str | None = None
    if name is None:
        malformed = "the name is missing" if given is None else "the name has no known form"
        said.append(f"{malformed}: {_show.repr(given)}")
    tag: str | None = None
    if not isinstance(word, str):
        no_tag = "the tag is missing" if word is None else "the tag is not text"
        malformed = malformed or no_tag
        said.append(f"{name or 'it'}: {no_tag}: {_show.repr(word)}")
    elif word in VERDICTS:
        tag = word
    else:
        tag = "unknown"
        said.append(f"{name or 'it'} is called {_show.repr(word)}, not helpful, harmful or neutral")
    if rationale is not None and not isinstance(rationale, str):
        said.append(f"{name or 'it'}: the rationale is not text: {_show.repr(rationale)}")
    line = quote(rationale, MAX_RATIONALE) if isinstance(rationale, str) else ""
    return ParsedTag(index, name, tag, line, malformed), said


#: Ways in which JSON is found, from sound to damaged.
_DAMAGE: tuple[Strategy, ...] = ("whole", "fence", "bare_fence", "braces", "repaired")


def worst(strategies: Iterable[Strategy]) -> Strategy:
    """Return the way of finding JSON that says the least for it; none where there is none."""
    return max((one for one in strategies if one in _DAMAGE), key=_DAMAGE.index, default="none")
