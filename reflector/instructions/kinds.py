"""The kinds of pieces of an instruction file. A rule is a piece that a session could visibly
follow or break.

Invariant: the kind follows from the piece, its headings and its lead-in alone.

`weights_of` gives each sign a weight, and a piece with a sum of at least 1 is a rule. Two examples:

| Piece | Weights |
|---|---|
| "Use `uv`" below "Structure" | it asks 2.0, the heading is of facts -1.0: a rule |
| "All tests are fast" below "Testing" | it limits 0.8, the heading is likely 0.3: a rule |
"""

from __future__ import annotations

from functools import lru_cache

from reflector.text.lazy import lazy_pattern

from .blocks import Block, Form
from .kind import Kind
from .signs import Text, words_of
from .words import GROUPS

_LEAST = 1.0
#: The weights of the words of a piece. `signs` shows an example of each sign.
_BINDS = 2.0
_ASKS = 2.0
_REFUSES = 2.0
_CONTRASTS = 1.3
_LIMITS = 0.8
_DEMANDS = 1.0
_DESCRIBES = -1.0
_GLOSSES_CODE = -1.5
_GLOSSES = -0.2
#: The weights of its form and of its place.
_OF_FORM = {Form.STEP: 1.0, Form.ROW: -1.0}
_INTRODUCES = -1.5
_AFTER_RULE = 2.0
_AFTER_RULES = 1.0
#: The weights of the nearest heading, by the group of its words. The first group counts.
_BELOW = {"rules": 1.2, "notes": 0.3, "commands": -0.5, "facts": -1.0, "likely": 0.3}
#: The part of the weight of a higher heading that counts.
_OF_OUTER = 0.7
_HINTS = -1.5

#: A line of a fence that the user could type into a shell. A path alone and a name with its
#: explanation are parts of a tree of files.
_TYPED = lazy_pattern(
    r"(?!\S+(?:/$| {2,}[^#\s]))(?:[$>] )?(?:[A-Z_]+=\S* )*[\w.~/@<-][\w./@+~<>-]*(?:\s[^│├└─►→]*)?"
)


def kind_of(piece: Block) -> Kind:
    """Return the kind of a piece."""
    if piece.form == Form.COMMAND:
        return _kind_of_typed(piece.text)
    text = Text(piece.text)
    if piece.form == Form.HEADING:
        is_rule = len(text.words) > 2 and (text.binds or text.refuses) and not text.opens
        return Kind.RULE if is_rule else Kind.FACT
    is_bare_command = text.has_command and not text.is_order
    if is_bare_command and _may_be_typed(piece, text):
        return Kind.COMMAND
    has_meaning = text.has_words or _introduction(piece.lead_in) >= _AFTER_RULE
    is_rule = has_meaning and sum(weights_of(piece, text).values()) >= _LEAST
    return Kind.RULE if is_rule else Kind.FACT


def _may_be_typed(piece: Block, text: Text) -> bool:
    """Return whether the user could type a piece as a command. The piece must contain only the
    command and not be a step of rules, or it must be below a heading of commands.
    """
    weight = sum(map(_title, piece.headings[-1:]))
    is_step_of_rules = piece.form == Form.STEP and weight >= _LEAST
    return weight < 0 or (text.is_code and not is_step_of_rules)


def _kind_of_typed(text: str) -> Kind:
    """Return the kind of a command in a fence, with its comments."""
    *comments, line = text.split("\n")
    remarks = " ".join([*comments, *line.split(" #")[1:]])
    if "NOT:" in remarks or GROUPS["binding"].is_in(remarks, words_of(remarks)):
        return Kind.RULE
    return Kind.COMMAND if _TYPED.fullmatch(line) else Kind.FACT


def weights_of(piece: Block, text: Text) -> dict[str, float]:
    """Return the weight of each sign that a piece is a rule, or that it is not."""
    gloss = _GLOSSES_CODE if text.glosses_code else _GLOSSES * (text.glosses and not text.limits)
    return {
        "binds": _BINDS * text.binds,
        "asks": _ASKS * (text.asks or text.has_occasion or text.chooses),
        "refuses": _REFUSES * (text.refuses and not text.binds),
        "contrasts": _CONTRASTS * min(2, text.contrasts),
        "limits": _LIMITS * text.limits,
        "demands": _DEMANDS * text.demands,
        "describes": _DESCRIBES * (text.describes and not text.chooses and not text.demands),
        "glosses": gloss * (piece.form != Form.ROW),
        "form": _OF_FORM.get(piece.form, 0.0),
        "introduces": _INTRODUCES * (piece.opens or text.introduces),
        "lead-in": _introduction(piece.lead_in),
        "heading": sum(map(_title, piece.headings[-1:])),
        "headings above": _OF_OUTER * sum(map(_title_above, piece.headings[:-1])),
        "hints": _HINTS * (not text.binds and any(map(_is_of_hints, piece.headings))),
    }


def _is_of_hints(title: str) -> bool:
    """Return whether a heading is of help or of permissions, such as "Troubleshooting"."""
    return GROUPS["hints"].is_in(title, words_of(title))


@lru_cache(maxsize=256)
def _title(title: str) -> float:
    """Return the weight of a heading."""
    words = words_of(title)
    meant = (weight for name, weight in _BELOW.items() if GROUPS[name].is_in(title, words))
    return next(meant, 0.0)


@lru_cache(maxsize=256)
def _title_above(title: str) -> float:
    """Return the weight of a heading for the sections below it. "Rules for Claude" has none,
    because a file with this title also contains facts.
    """
    is_of_file = GROUPS["agents"].is_in("", words_of(title))
    return 0.0 if is_of_file else max(0.0, _title(title))


@lru_cache(maxsize=256)
def _introduction(lead_in: str) -> float:
    """Return the weight of a lead-in."""
    text = Text(lead_in)
    if text.binds:
        return _AFTER_RULE
    if text.asks:
        return _AFTER_RULES
    return min(_AFTER_RULES, _title(lead_in)) + _DESCRIBES * text.describes
