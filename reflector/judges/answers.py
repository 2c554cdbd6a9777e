"""A model's answer, read: the JSON object in it (requirements A.4), its analysis and its tags.

Invariant: `parse_answer` is a pure function of the text and of `PARSER_VERSION`, and never raises.
Each entry of a sound `bullet_tags` becomes one `ParsedTag`, an unusable one too, at its index; of a
cut or damaged answer each complete entry does. `problems` says what could not be read. So an answer
can be read again years later, by this parser or a better one.

Only a whole object with a list `bullet_tags` is an answer: of any other text, `fault` says why it
is none. A judge that was asked for evidence has to keep to the form and to the names that it was
asked about as well: see `fault_of`.

Each value stood in the text as valid JSON, and prose is redacted and bounded. `objects_in` returns
whole objects only, never a part of a damaged one; `_saved_from` returns whole strings and whole
entries only. Both take linear time for any text: failed attempts are paid from a budget, and the
search ends when it is spent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isinf
from typing import Any, Literal, NoReturn, get_args

from reflector.events.event import MAX_INT
from reflector.events.state import MAX_TAGS
from reflector.playbook.bullet import VERDICTS
from reflector.playbook.document import brief
from reflector.playbook.names import is_name
from reflector.text.secrets import quote

#: Ways in which JSON is found, from sound to damaged.
Strategy = Literal["whole", "fence", "bare_fence", "braces", "repaired", "none"]

#: Raised when the same text would give another result; it is written beside each result.
PARSER_VERSION = 5

MAX_ANALYSIS = 20_000
MAX_RATIONALE = 2_000
MAX_QUOTE = 1_000
#: The most bytes of an answer that asks for evidence: no honest one comes near it.
MAX_BYTES = 64 * 1024
#: The type of each part of a tag's evidence, and its name.
_EVIDENCE: Mapping[str, tuple[type, str]] = {
    "relevant": (bool, "true or false"),
    "followed": (str, "text"),
    "turn": (int, "a whole number"),
    "quote": (str, "text"),
    "sure": (str, "text"),
}
FOLLOWED = ("yes", "no", "unclear")
SURE = ("sure", "likely", "unsure")
_MAX_PROBLEMS = 50
_MAX_PROBLEM = 300

_KEYS = ("analysis", "bullet_tags")
#: Names as models write them: with the brackets of a citation, or white space around.
_DRESSED = re.compile(r"\s{0,40}\[?\s{0,4}([a-z]{2,4}[-_][0-9]{1,59})\s{0,4}\]?\s{0,40}")

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

    strategy  whole (the text is nothing else), fence (```json), bare_fence (```), braces (text
              around it), repaired (complete entries of a damaged one), none
    problems  what is wrong with it, or why there is none
    """

    value: dict[str, Any] | None
    strategy: Strategy
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedTag:
    """One entry of `bullet_tags`.

    index      its place in the list, from 0
    name       the bullet's name, well-formed; None if there is none
    tag        helpful, harmful, neutral; "unknown" for any other word; None where there is none
    rationale  one line of at most 2,000 characters, "" where there is none
    malformed  why the entry says nothing about a bullet, else None
    relevant   False where the bullet has nothing to do with the session
    followed   yes, no, unclear; None where there is no such word
    turn       the number of the turn that is quoted, from 1; None where there is none
    quote      its words, one line of at most 1,000 characters
    sure       sure, likely, unsure; None where there is no such word
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


@dataclass(frozen=True, slots=True)
class Parsed:
    """What an answer says.

    strategy  how its JSON was found: see `Extraction`; repaired where it was cut or damaged, none
              where nothing could be read
    fault     why it is no answer, though some of it may have been read; "" for an answer
    """

    analysis: str
    tags: tuple[ParsedTag, ...]
    strategy: Strategy
    problems: tuple[str, ...] = ()
    fault: str = ""

    @property
    def failed(self) -> bool:
        """Whether this is no answer. One with an empty list of tags is an answer that says
        nothing.
        """
        return bool(self.fault)


def parse_answer(text: str) -> Parsed:
    """Read an answer: a sound object, else the complete entries of a damaged one."""
    found = find_answer(text)
    if found.strategy == "none":
        return Parsed("", (), "none", found.problems, "; ".join(found.problems))
    problems = list(found.problems)
    answer = found.value or {}
    entries = answer.get("bullet_tags", [])
    if "bullet_tags" not in answer and not problems:
        problems.append("bullet_tags is missing")
    if not isinstance(entries, list):
        problems.append(f"bullet_tags is not a list: {brief(entries)}")
        entries = []
    if len(entries) > MAX_TAGS:
        problems.append(f"there are more than {MAX_TAGS:,} tags; the rest was not read")
    fault = quote(problems[0], _MAX_PROBLEM) if problems else ""
    analysis = "" if answer.get("analysis") is None else answer["analysis"]
    if not isinstance(analysis, str):
        problems.append(f"analysis is not text: {brief(analysis)}")
        analysis = ""
    tags: list[ParsedTag] = []
    for index, entry in enumerate(entries[:MAX_TAGS]):
        tag, said = _tag(index, entry)
        tags.append(tag)
        problems += [f"tag {index}: {one}" for one in said]
    shown = [quote(problem, _MAX_PROBLEM) for problem in problems[:_MAX_PROBLEMS]]
    if len(problems) > _MAX_PROBLEMS:
        shown.append(f"… and {len(problems) - _MAX_PROBLEMS:,} more")
    return Parsed(quote(analysis, MAX_ANALYSIS), tuple(tags), found.strategy, tuple(shown), fault)


def read_answer(data: Mapping[str, Any]) -> Parsed:
    """Read the answer in an event's data; one that was asked for evidence is not read where it
    is too long.
    """
    text = data["answer"]
    if "asked" in data and len(text.encode()) > MAX_BYTES:
        too_long = f"the answer is longer than {MAX_BYTES // 1024} KB"
        return Parsed("", (), "none", (too_long,), too_long)
    return parse_answer(text)


def fault_of(parsed: Parsed, names: Collection[str]) -> str:
    """Return why this is no answer about these names, "" for an answer: whatever departs from the
    form that was asked for, and a name that was not.
    """
    if parsed.fault or parsed.problems:
        return parsed.fault or parsed.problems[0]
    other = next((tag for tag in parsed.tags if tag.name not in names), None)
    return f"tag {other.index}: {other.name} was not asked about" if other else ""


def find_answer(text: str, wanted: Sequence[str] = _KEYS) -> Extraction:
    """Return the first object in a model's text that has one of the `wanted` keys. Never raises.
    Thoughts before the answer, up to the last `</think>`, may hold drafts of it; inside an object,
    `</think>` is text.
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
            keys = ", ".join(brief(key) for key in list(value)[:5]) or "no keys"
            lacks = f"neither {' nor '.join(wanted)}" if len(wanted) > 1 else f"no {wanted[0]}"
            first = Extraction({}, found.strategy, (f"the object has {lacks} but {keys}",))
    if wanted is _KEYS and (saved := _saved_from(text)):
        return Extraction(
            saved,
            "repaired",
            (("the JSON is cut off or damaged; only its complete entries were read"),),
        )
    return first or Extraction(
        {}, "none", (("it holds no whole JSON object") if "{" in text else "it holds no JSON",)
    )


def _tag(index: int, entry: object) -> tuple[ParsedTag, list[str]]:
    """One entry as a fact, and what was wrong with it."""
    if not isinstance(entry, dict):
        wrong = "the entry is not an object"
        return ParsedTag(index, None, None, malformed=wrong), [f"{wrong}: {brief(entry)}"]
    given, word, rationale = entry.get("name"), entry.get("tag"), entry.get("rationale")
    said: list[str] = []
    dressed = _DRESSED.fullmatch(given) if isinstance(given, str) else None
    name = dressed[1] if dressed and is_name(dressed[1]) else None
    malformed: str | None = None
    if name is None:
        malformed = "the name is missing" if given is None else "the name has no known form"
        said.append(f"{malformed}: {brief(given)}")
    tag = word if word in VERDICTS else "unknown" if isinstance(word, str) else None
    if tag is None:
        no_tag = "the tag is missing" if word is None else "the tag is not text"
        malformed = malformed or no_tag
        said.append(f"{name or 'it'}: {no_tag}: {brief(word)}")
    elif tag == "unknown":
        said.append(f"{name or 'it'} is called {brief(word)}, not helpful, harmful or neutral")
    if rationale is not None and not isinstance(rationale, str):
        said.append(f"{name or 'it'}: the rationale is not text: {brief(rationale)}")
    line = quote(rationale, MAX_RATIONALE) if isinstance(rationale, str) else ""
    followed, turn, words, sure = map(entry.get, ("followed", "turn", "quote", "sure"))
    for key, (kind, of_what) in _EVIDENCE.items():
        if entry.get(key) is not None and type(entry[key]) is not kind:
            said.append(f"{name or 'it'}: {key} is not {of_what}: {brief(entry[key])}")
    return ParsedTag(
        *(index, name, tag, line, malformed),
        relevant=entry.get("relevant") is not False,
        followed=followed if followed in FOLLOWED else None,
        turn=turn if type(turn) is int and 0 < turn <= MAX_INT else None,
        quote=quote(words, MAX_QUOTE) if isinstance(words, str) else "",
        sure=sure if sure in SURE else None,
    ), said


def worst(strategies: Iterable[Strategy]) -> Strategy:
    """Return the way of finding JSON that says the least for it; none where there is none."""
    return max(
        (one for one in strategies if one != "none"), key=get_args(Strategy).index, default="none"
    )


def extract_json_object(text: str) -> dict[str, Any] | None:
    """The first sound object in `text`, or None. A list, a string and a number are not objects,
    NaN is not JSON.
    """
    found = next(objects_in(text), None)
    return None if found is None else found.value


def objects_in(text: str) -> Iterator[Extraction]:
    """Yield the sound objects of `text`: the whole of it, else ```json fences, bare fences,
    objects between braces.
    """
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


def _saved_from(text: str) -> dict[str, Any]:
    """Return what a cut or damaged answer still holds whole: its analysis and the entries of its
    bullet_tags.
    """
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


def _float(literal: str) -> float:
    value = float(literal)
    if isinf(value):
        raise ValueError(f"{literal} is beyond every number")
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
    """Objects from left to right. A damaged one is passed over up to its closing brace; of
    `entries`, which hold no objects, up to the next opening brace.
    """
    budget = 16 * len(text) + 4_000_000
    found = 0
    while found < _MAX_OBJECTS and budget > 0 and (start := text.find("{", position)) >= 0:
        plausible = _PLAUSIBLE.match(text, start) is not None
        if plausible:
            try:
                value, position = _DECODER.raw_decode(text, start)
            except json.JSONDecodeError as error:
                # the error counts the lines before it
                budget -= error.pos - start + error.pos // 8 + 100
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
    """Where the brace at `start` is closed, strings aside, and how many braces and strings it
    took to find out.
    """
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
            # A lone quote, as in prose; after it only braces are looked for, because looking for
            # the end of a string again at each quote that follows takes quadratic time.
            tokens = _BRACE.finditer(text, token.start())
    return None, steps
