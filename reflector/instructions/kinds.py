"""Which pieces of an instruction file are rules: those that a session could visibly follow or
break.

Invariant: the kind follows from the piece, its headings and its lead-in by adding the weights
below. A rule has a sum of at least 1.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache
from itertools import dropwhile, pairwise

from .blocks import Block, Form
from .kind import Kind
from .words import GROUPS

_LEAST = 1.0
#: The weights of the words of a piece.
_BINDS = 2.0
_ASKS = 2.0
_REFUSES = 2.0
_CONTRASTS = 1.3
_DESCRIBES = -1.0
_IS = -0.3
_GLOSSES_CODE = -1.3
_GLOSSES = -0.5
#: The weights of its form, of its headings and of its lead-in.
_OF_FORM = {Form.STEP: 1.0, Form.ROW: -1.0}
_OPENS = -1.5
_BELOW = {"rules": 1.2, "commands": -0.5, "facts": -1.0, "likely": 0.3}
_OF_OUTER = 0.7
_HINTS = -1.5
_AFTER_RULE = 2.0
_AFTER_RULES = 1.0

#: Replaces a code span in a text.
_SPAN = "§"
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|https?://\S+")
_WORD = re.compile(r"[^\W\d_]+(?:['’/-][^\W\d_]+)*|§")
_LABEL = re.compile(r"[^.:：|]{1,60}?(?:[:：]|\s\|)\s*(?=\S)")
_GLOSS = re.compile(r"(?:§(?: ?[/,&] ?§)*|[^\W\d_][\w /&§().-]{0,40}?)(?::|：|\s[—–-]{1,2}\s)")
_CLAUSE = re.compile(r"[.!?;:()—–→。！？；：，、（）|]|\s-\s")
_CONTRAST = re.compile(
    r"§,? (?:not|over|never) §|[❌🚫⛔]|(?<!does )\bNOT\b"
    r"|\b(?:ONLY|ALL|EVERY|IMPORTANT|CRITICAL|BEFORE|REQUIRED|NO|SOLO"
    r"|ANTES|DESPUÉS|TODAS|TODOS|DEPOIS|IMPORTANTE)\b"
)
_INFINITIVE = re.compile(r"[a-zà-ÿ]{2,}(?:ar|er|ir|arse|erse)")
_PARENTHESES = re.compile(r"[(（][^()（）]{0,40}[)）]")
#: A code span, and a line of a fence, that the user could type into a shell.
_COMMAND = re.compile(
    r"`(?!.* = )(?:\$ )?(?:[A-Z_]+=\S* )*(?:[a-z][\w@.-]* +(?![=(])|\./|bin/)[^│├└─►→]+`"
)
_TYPED = re.compile(r"(?:[$>] )?(?:[A-Z_]+=\S* )*[\w.~/@<-][\w./@+~<>-]*(?:\s[^│├└─►→]*)?")
_GLUE = frozenset("§ or and then y e ou o или 或 または".split())


def kind_of(piece: Block) -> Kind:
    """Return the kind of a piece."""
    if piece.form == Form.COMMAND:
        return _kind_of_typed(piece.text)
    text = _Text(piece.text, is_step=piece.form == Form.STEP)
    if piece.form == Form.HEADING:
        is_rule = len(text.words) > 2 and (text.binds or text.refuses) and not text.opens
    elif text.has_command and not text.binds and _may_be_typed(piece, text):
        return Kind.COMMAND
    else:
        is_rule = text.has_words and _score(piece, text) >= _LEAST
    return Kind.RULE if is_rule else Kind.FACT


def _may_be_typed(piece: Block, text: _Text) -> bool:
    """Return whether the user could type a piece as a command. The piece must contain only the
    command and not be a step of rules, or it must be below a heading of commands.
    """
    weight = sum(map(_title, piece.headings[-1:]))
    is_step_of_rules = piece.form == Form.STEP and weight >= _LEAST
    return weight < 0 or (text.is_command and not is_step_of_rules)


def _kind_of_typed(text: str) -> Kind:
    """Return the kind of a command in a fence, with its comments."""
    *comments, line = text.split("\n")
    remarks = " ".join([*comments, *line.split(" #")[1:]])
    if "NOT:" in remarks or GROUPS["binding"].is_in(remarks, _words_of(remarks)):
        return Kind.RULE
    return Kind.COMMAND if _TYPED.fullmatch(line) else Kind.FACT


def _score(piece: Block, text: _Text) -> float:
    """Return the sum of the weights of a piece."""
    weights = [
        _BINDS * text.binds,
        _ASKS * text.asks,
        _REFUSES * (text.refuses and not text.binds),
        _CONTRASTS * min(2, len(_CONTRAST.findall(text.plain))),
        text.description,
        text.gloss * (piece.form != Form.ROW),
        _OF_FORM.get(piece.form, 0.0),
        _OPENS * (piece.opens or text.plain.endswith((":", "："))),
        _introduction(piece.lead_in),
        *map(_title, piece.headings[-1:]),
        *(_OF_OUTER * max(0.0, _title(outer)) for outer in piece.headings[:-1]),
        _HINTS * (not text.binds and any(map(_is_of_hints, piece.headings))),
    ]
    return sum(weights)


def _is_of_hints(title: str) -> bool:
    """Return whether a heading is of help with a problem, such as "Troubleshooting"."""
    return GROUPS["hints"].is_in(title, _words_of(title))


@lru_cache(maxsize=256)
def _title(title: str) -> float:
    """Return the weight of a heading."""
    words = _words_of(title)
    meant = (weight for name, weight in _BELOW.items() if GROUPS[name].is_in(title, words))
    return next(meant, 0.0)


@lru_cache(maxsize=256)
def _introduction(lead_in: str) -> float:
    """Return the weight of a lead-in."""
    text = _Text(lead_in)
    if text.binds:
        return _AFTER_RULE
    if text.asks:
        return _AFTER_RULES
    return min(_AFTER_RULES, _title(lead_in)) + (text.description if text.words else 0.0)


class _Text:
    """A text, and the signs that it is a rule."""

    def __init__(self, text: str, *, is_step: bool = False) -> None:
        shown = _CODE.sub(_SPAN, text)
        self.has_words = any(word != _SPAN for word in _words_of(_LINK.sub("", shown)))
        self.plain = _LINK.sub(r"\1", shown).replace("**", "").replace("__", "").strip(" >*")
        self.words = _words_of(self.plain)
        self.has_command = any(map(_COMMAND.fullmatch, _CODE.findall(text)))
        label = _LABEL.match(self.plain)
        body = self.plain[label.end() :] if label else self.plain
        self.is_command = _GLUE.issuperset(_words_of(_PARENTHESES.sub("", body)))
        # The label of a step may be the request itself.
        self._body = _PARENTHESES.sub("", self.plain if is_step else body)

    @cached_property
    def binds(self) -> bool:
        words = self._words_by_clause
        pairs = {f"{before}_{word}" for before, word in pairwise(words)}
        if not GROUPS["binding_pairs"].words.isdisjoint(pairs):
            return True
        around = zip(words, words[1:], words[2:], strict=False)
        meant = [word for before, word, after in around if not _describes(before, word, after)]
        return GROUPS["binding"].is_in(self.plain, meant)

    @property
    def _words_by_clause(self) -> list[str]:
        """The words, with an empty word before and after each clause."""
        words = [""]
        for clause in re.split(_CLAUSE.pattern + "|,", self.plain):
            words += [*_words_of(clause), ""]
        return words

    @property
    def refuses(self) -> bool:
        """Whether a clause begins with a prohibition: "No inline styles"."""
        refusing = (clause for clause in self._clauses if clause[0] in GROUPS["refusing"].words)
        return any("needed" not in clause for clause in refusing)

    @cached_property
    def asks(self) -> bool:
        """Whether a clause begins with a verb that asks for something."""
        is_romance = GROUPS["romance"].is_in(self.plain, self.words)
        if any(_asks(clause, is_romance) for clause in self._clauses):
            return True
        if self.plain.isascii():
            return False
        starts = tuple(GROUPS["asking_starts"].pieces)
        if any(clause.strip().startswith(starts) for clause in _CLAUSE.split(self._body)):
            return True
        return self.plain.rstrip(" 。.)）").endswith(tuple(GROUPS["asking_ends"].pieces))

    @cached_property
    def _clauses(self) -> list[list[str]]:
        """The words of each clause. Clauses after a comma only count if the first one begins with
        "when".
        """
        clauses = []
        for part in _CLAUSE.split(self._body):
            first, *others = (_words_of(clause) for clause in part.split(","))
            clauses.append(first)
            if GROUPS["when"].words.issuperset(first[:1]):
                clauses += others
        return list(filter(None, clauses))

    @property
    def description(self) -> float:
        """The weight of a sentence that describes: "It uses Redis"."""
        first = [clause[0] for clause in self._clauses[:1]]
        is_described = GROUPS["describing"].is_in(self.plain, [*self.words[1:6], *first])
        if is_described or self.opens:
            return _DESCRIBES
        return _IS * GROUPS["being"].is_in("", self.words[1:8])

    @property
    def opens(self) -> bool:
        """Whether it begins like a description or a reason, or is only a condition."""
        firsts = [clause[0] for clause in self._clauses]
        is_condition = len(firsts) == 1 and firsts[0] in GROUPS["when"].words
        return is_condition or self.words[0] in GROUPS["opening"].words

    @property
    def gloss(self) -> float:
        """The weight of a name with its explanation: "`web/` - the React application"."""
        if not _GLOSS.match(self.plain):
            return 0.0
        return _GLOSSES_CODE if self.plain.startswith(_SPAN) else _GLOSSES


def _asks(clause: list[str], is_romance: bool) -> bool:
    words = [*dropwhile(GROUPS["before_verb"].words.__contains__, clause)]
    if len(words) < 2 or any(words[1] in GROUPS[name].words for name in ("describing", "being")):
        return False
    is_infinitive = is_romance and _INFINITIVE.fullmatch(words[0]) is not None
    return is_infinitive or words[0] in GROUPS["asking"].words


def _describes(before: str, word: str, after: str) -> bool:
    """Return whether a word that usually binds only describes between these words: "is always",
    "never creates", "to avoid".
    """
    if before == "to":
        return True
    if word in ("don't", "dont"):
        return before not in GROUPS["before_verb"].words | {""}
    if word not in ("always", "never"):
        return False
    is_third_person = after.endswith("s") and after not in GROUPS["asking"].words
    return before in GROUPS["being"].words or (before != "" and is_third_person)


def _words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("’", "'").replace("do not", "don't"))
