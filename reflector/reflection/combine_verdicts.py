"""The answers to a window's parts as one answer.

Invariant: a bullet is judged once a window, in however many parts a model read it, and no part's word is lost:
what decides nothing stands in a rationale or a problem. The rule is the one by which the rules backend joins
several citations of a bullet in one window:

- a verdict beats neutral, and neutral beats nothing;
- parts that agree: the first of them stands for all, with its rationale;
- helpful in one part and harmful in another: both are true of different moments, and which weighs more nobody
  knows, so the whole is neutral, and the rationale says which part said what;
- entries that say nothing about a bullet (malformed, or no known verdict) are kept as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reflector.events.fold import MAX_TAGS
from reflector.reflection.answers import MAX_ANALYSIS, MAX_RATIONALE, Parsed, ParsedTag
from reflector.reflection.extraction import Strategy

_VERDICTS = frozenset({"helpful", "harmful", "neutral"})
#: Ways in which JSON is found, from sound to damaged.
_DAMAGE: tuple[Strategy, ...] = ("whole", "fence", "bare_fence", "braces", "list", "repaired")
_MAX_PROBLEMS = 50
_MAX_PROBLEM = 300


def merge_parts(parts: Sequence[Parsed]) -> Parsed:
    """One answer for a window that was judged in parts, which are given in order; that of one part is as it is.

    Tags stand in the order in which the parts first name them, with new indices. `problems` name their part. A
    part in which nothing could be read is a problem; the whole is `failed` when all of them are. `strategy` is
    that of the most damaged part that could be read. Raises ValueError without any part.
    """
    if not parts:
        raise ValueError("there is no part to merge")
    if len(parts) == 1:
        return parts[0]
    problems: list[str] = []
    for number, part in enumerate(parts, 1):
        if part.failed:
            problems.append(f"part {number}: nothing could be read")
        problems += [_cut(f"part {number}: {problem}", _MAX_PROBLEM) for problem in part.problems]
    tags = _merged(parts)
    if len(tags) > MAX_TAGS:
        problems.insert(0, f"all parts: there are more than {MAX_TAGS:,} tags; the rest was left out")
    if len(problems) > _MAX_PROBLEMS:
        problems = [*problems[:_MAX_PROBLEMS], f"… and {len(problems) - _MAX_PROBLEMS:,} more"]
    found = [part.strategy for part in parts if not part.failed]
    return Parsed(
        _analysis([part.analysis for part in parts if part.analysis]),
        tuple(replace(tag, index=index) for index, tag in enumerate(tags[:MAX_TAGS])),
        max(found, key=_DAMAGE.index) if found else "none",
        tuple(problems),
    )


def _merged(parts: Sequence[Parsed]) -> list[ParsedTag]:
    said: dict[str, list[tuple[int, ParsedTag]]] = {}
    places: list[ParsedTag | str] = []
    for number, part in enumerate(parts, 1):
        for tag in part.tags:
            if tag.malformed is not None or tag.name is None or tag.tag not in _VERDICTS:
                places.append(tag)
                continue
            if tag.name not in said:
                places.append(tag.name)
            said.setdefault(tag.name, []).append((number, tag))
    return [_one(said[place]) if isinstance(place, str) else place for place in places]


def _one(said: list[tuple[int, ParsedTag]]) -> ParsedTag:
    """One tag for everything that was said about a bullet."""
    decided = [(number, tag) for number, tag in said if tag.tag != "neutral"]
    if not decided:
        return next((tag for _, tag in said if tag.rationale), said[0][1])
    first = decided[0]
    against = next(((number, tag) for number, tag in decided if tag.tag != first[1].tag), None)
    if against is None:
        return first[1]
    each = MAX_RATIONALE // 2 - 30
    both = "; ".join(
        f"{tag.tag} in part {number}" + (f": {_cut(tag.rationale, each)}" if tag.rationale else "")
        for number, tag in (first, against)
    )
    return replace(first[1], tag="neutral", rationale=_cut(both, MAX_RATIONALE))


def _analysis(analyses: Sequence[str]) -> str:
    """The parts' analyses with a blank line between them, each cut to its share where they are too long."""
    whole = "\n\n".join(analyses)
    if len(whole) <= MAX_ANALYSIS:
        return whole
    share = MAX_ANALYSIS // len(analyses) - 2
    return "\n\n".join(_cut(analysis, share) for analysis in analyses)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
