"""The signs in a text that it is a rule, a description or a command.

Invariant: a sign follows from the text alone. Its words come from `words.tsv`.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import dropwhile, pairwise, takewhile

from reflector.text.lazy import lazy_pattern

from .words import GROUPS

#: Replaces a code span in a text.
_SPAN = "§"
_CODE = lazy_pattern(r"`[^`]*`")
_LINK = lazy_pattern(r"!?\[([^\]]*)\]\([^)]*\)|https?://\S+|\[!\w+\]")
_WORD = lazy_pattern(r"[^\W\d_]+(?:['’/-][^\W\d_]+)*|§")
_LABEL = lazy_pattern(r"[^.:：|]{1,60}?(?:[:：]|\s\|)\s*(?=\S)")
_GLOSS = lazy_pattern(r"(?:§(?: ?[/,&] ?§)*|[^\W\d_][\w /&§().-]{0,40}?)(?::|：|\s[—–-]{1,2}\s)")
#: Code or the path of a file at the beginning, before its explanation.
_NAME = lazy_pattern(r"§|[\w.-]+/[\w./-]+ ")
_CLAUSE = lazy_pattern(r"[.!?;:()—–→。！？；：，、（）|]|\s-\s")
_CONTRAST = lazy_pattern(
    r"§,? (?:not|over|never) §|[❌🚫⛔]|(?<!does )\bNOT\b"
    r"|\b(?:ONLY|ALL|EVERY|IMPORTANT|CRITICAL|BEFORE|REQUIRED|NO|SOLO"
    r"|ANTES|DESPUÉS|TODAS|TODOS|DEPOIS|IMPORTANTE)\b"
)
#: Words after a comma that exclude something: ", not by hand".
_EXCEPTION = lazy_pattern(r", (?:not|nicht|pas|no|não) ")
#: A Romance verb that asks at the beginning of a clause, and a German one at the end.
_INFINITIVE = lazy_pattern(r"[a-zà-ÿ]{2,}(?:ar|er|ir|arse|erse)|(?:n')?[a-zà-ÿ]{3,}ez")
_GERMAN_INFINITIVE = lazy_pattern(r".*(?<!\bzu) [a-zäöüß]+e[lr]?n\W*")
#: A restriction at the end of a text: "Deploy on Monday only". "Supported on Linux only" describes.
_RESTRICTION = lazy_pattern(
    r"(?!\w+(?:ed|able)\b)\w+ (?:.* )?(?:on|in|at|from|with|through|to|by) .* only\W*"
)
_PARENTHESES = lazy_pattern(r"[(（][^()（）]{0,40}[)）]")
#: A code span that the user could type into a shell, and one that may be a program.
_COMMAND = lazy_pattern(
    r"`(?!.* = )(?:\$ )?(?:[A-Z_]+=\S* )*(?:[a-z][\w@.-]* +(?![=(])|\./|bin/)[^│├└─►→]+`"
)
_PROGRAM = lazy_pattern(r"`[a-z][a-z\d.-]*`")
#: Code directly before other code that must not be used: "`make`, not with `npm run build`".
_CHOICE = lazy_pattern(
    r"(?=(?P<chosen>`[^`]*`|\b[a-z][a-z\d]+)\)?,? \(?(?:(?:and|but) )?"
    r"(?:not|never|instead of|rather than) (?:(?:with|by|via|through|using|from|run|use) )?"
    r"(?P<other>`[^`]*`|[a-z][a-z\d]+\b))",
    re.IGNORECASE,
)
_GLUE = frozenset("§ or and then y e ou o или 或 または".split())


class Text:
    """A text, and the signs that it is a rule."""

    def __init__(self, text: str) -> None:
        shown = _CODE.sub(_SPAN, text)
        self.has_words = any(word != _SPAN for word in words_of(_LINK.sub("", shown)))
        self.plain = _LINK.sub(r"\1", shown).replace("**", "").replace("__", "").strip(" >*")
        self.words = words_of(self.plain)
        self._spans = _CODE.findall(text)
        self._text = text
        label = _LABEL.match(self.plain)
        body = self.plain[label.end() :] if label else self.plain
        self.is_code = _GLUE.issuperset(words_of(_PARENTHESES.sub("", body)))
        self._unbracketed = _PARENTHESES.sub("", self.plain)

    @cached_property
    def binds(self) -> bool:
        """Whether it contains a word that binds: "must", "never"."""
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
            words += [*words_of(clause), ""]
        return words

    @property
    def refuses(self) -> bool:
        """Whether a clause begins with a prohibition: "No inline styles"."""
        refusing = (clause for clause in self._clauses if clause[0] in GROUPS["refusing"].words)
        return any("needed" not in clause for clause in refusing)

    @cached_property
    def asks(self) -> bool:
        """Whether a clause begins with a verb that asks for something, or a German clause ends
        with one.
        """
        is_romance = GROUPS["romance"].is_in(self.plain, self.words)
        if any(_asks(clause, is_romance) for clause in self._clauses):
            return True
        if GROUPS["german"].is_in("", self.words) and any(map(_asks_in_german, self._parts)):
            return True
        if self.plain.isascii():
            return False
        starts = tuple(GROUPS["asking_starts"].pieces)
        if any(clause.strip().startswith(starts) for clause in _CLAUSE.split(self._unbracketed)):
            return True
        return self.plain.rstrip(" 。.)）").endswith(tuple(GROUPS["asking_ends"].pieces))

    @cached_property
    def _clauses(self) -> list[list[str]]:
        """The words of each clause."""
        return list(filter(None, map(words_of, self._parts)))

    @cached_property
    def _parts(self) -> list[str]:
        """The clauses. Those after a comma only count if the first one begins with "when"."""
        parts = []
        for part in _CLAUSE.split(self._unbracketed):
            first, *others = part.split(",")
            parts.append(first)
            if GROUPS["when"].words.issuperset(words_of(first)[:1]):
                parts += others
        return parts

    @cached_property
    def limits(self) -> bool:
        """Whether it holds for all cases or only for some: "All handlers return `Result`"."""
        is_for_all = any(clause[0] in GROUPS["all"].words for clause in self._clauses)
        is_for_some = GROUPS["limiting"].is_in("", self.words) or _EXCEPTION.search(self.plain)
        return is_for_all or bool(is_for_some)

    @cached_property
    def demands(self) -> bool:
        """Whether it says how all code of a kind is, or ends with a restriction: "Functions have
        type hints", "Deploy on Monday only".
        """
        is_restricted = _RESTRICTION.fullmatch(self.plain) is not None and not self.describes
        return not self.opens and (is_restricted or any(map(_demands, self._clauses)))

    @cached_property
    def has_command(self) -> bool:
        """Whether it contains a command, or asks for a program: "Run all tests: `pytest`"."""
        if any(map(_COMMAND.fullmatch, self._spans)):
            return True
        return self.is_code and self.asks and _PROGRAM.fullmatch("".join(self._spans)) is not None

    @cached_property
    def chooses(self) -> bool:
        """Whether it asks for one command and not for another: "Search with `rg`, not with `grep
        -r`".
        """
        choices = (choice.groups() for choice in _CHOICE.finditer(self._text))
        return any(
            all(map(_may_run, choice)) and any(map(self._runs, choice)) for choice in choices
        )

    def _runs(self, code: str) -> bool:
        """Return whether a part of a choice is certainly run: a command, or a program to use."""
        is_about_use = not {"use", "uses", "using"}.isdisjoint(self.words)
        is_command = _COMMAND.fullmatch(code) is not None
        return is_command or is_about_use or code.strip("`").lower() in GROUPS["programs"].words

    @property
    def is_order(self) -> bool:
        """Whether it says more about its command than how to run it."""
        return self.binds or self.has_occasion or self.chooses

    @property
    def has_occasion(self) -> bool:
        """Whether it says when to run its command: "After a change, run `make lint`"."""
        words = words_of(_PARENTHESES.sub("", self.plain))
        is_request = self.has_command and (self.is_code or self.asks)
        is_explained = self.plain.startswith(_SPAN)
        return is_request and not is_explained and GROUPS["occasions"].is_in("", words)

    @property
    def describes(self) -> bool:
        """Whether it is a sentence about the project: "It uses Redis"."""
        first = [clause[0] for clause in self._clauses[:1]]
        return self.opens or GROUPS["describing"].is_in(self.plain, [*self.words[1:6], *first])

    @cached_property
    def opens(self) -> bool:
        """Whether it begins like a description or a reason, or is only a condition."""
        firsts = [clause[0] for clause in self._clauses]
        is_condition = len(firsts) == 1 and firsts[0] in GROUPS["when"].words
        return is_condition or not GROUPS["opening"].words.isdisjoint(self.words[:1])

    @property
    def glosses(self) -> bool:
        """Whether it explains a name: "React - the user interface"."""
        return _GLOSS.match(self.plain) is not None

    @property
    def glosses_code(self) -> bool:
        """Whether it explains code or a file: "`web/` - the React application"."""
        return self.glosses and _NAME.match(self.plain) is not None

    @property
    def introduces(self) -> bool:
        return self.plain.endswith((":", "："))

    @property
    def contrasts(self) -> int:
        """The number of contrasts and of stressed words: "`uv`, not `pip`", "BEFORE"."""
        return len(_CONTRAST.findall(self.plain))


def _may_run(code: str) -> bool:
    """Return whether a part of a choice may be run. Without backquotes, only a program may."""
    if not code.startswith("`"):
        return code.lower() in GROUPS["programs"].words
    return _COMMAND.fullmatch(code) is not None or _PROGRAM.fullmatch(code) is not None


def _asks(clause: list[str], is_romance: bool) -> bool:
    """Return whether a clause begins with a verb that asks. "Test files are small" does not."""
    words = [*dropwhile(GROUPS["before_verb"].words.__contains__, clause)]
    if len(words) < 2 or words[1] in GROUPS["describing"].words:
        return False
    if GROUPS["being"].is_in("", words[1:3]):
        return False
    is_formal = words[0].endswith("en") and words[1] == "sie"
    if is_formal or words[0] in GROUPS["asking"].words:
        return True
    is_verb = is_romance and words[0] not in GROUPS["nouns"].words
    return is_verb and _INFINITIVE.fullmatch(words[0]) is not None


def _demands(clause: list[str]) -> bool:
    """Return whether a clause says how all code of a kind is: "Every new file has a header". "Tests
    are in `tests/`" and "Old files are deleted" only describe.
    """
    is_for_all = clause[0] in GROUPS["all"].words | {"new"}
    subject = [*takewhile(lambda word: word not in GROUPS["lasting"].words, clause[:7])]
    between = GROUPS["when"].words | {"of"}
    head = [*takewhile(lambda word: word not in between, subject)] or [""]
    nouns = {head[-1] + ending for ending in ("", *("s", "es") * is_for_all)}
    verb, *after = clause[len(subject) :] or [""]
    if not verb or GROUPS["code"].words.isdisjoint(nouns):
        return False
    is_place = not is_for_all and not GROUPS["when"].words.isdisjoint(after[:1])
    is_done = any(word.endswith("ed") for word in after[:2])
    return verb not in GROUPS["being"].words or not (is_place or is_done)


def _asks_in_german(clause: str) -> bool:
    """Return whether a clause ends with an infinitive: "Vor jedem Commit testen"."""
    is_infinitive = _GERMAN_INFINITIVE.fullmatch(clause) is not None
    return is_infinitive and not GROUPS["being"].is_in("", words_of(clause))


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


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("’", "'").replace("do not", "don't"))
