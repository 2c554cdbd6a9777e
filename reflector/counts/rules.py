"""The counts of rules in one recorded part of a session: the tokens that the agent ran and wrote,
your repetitions, and the occasions.

Invariant: only the agent's own calls and your own words in the main conversation count. The output
of tools, files that were read, hooks and the agent's words never do. A count is a count: "written"
does not mean "broken". The same records and rules give the same counts.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import chain
from typing import Any, NamedTuple

from reflector.counts import subjects
from reflector.counts.around import BANS, bans_in, with_ban
from reflector.counts.calls import Act, Settled, Waiting, messages_in
from reflector.counts.clauses import asks_to_read, has_condition
from reflector.counts.forms import (
    IMPORT,
    LEFT,
    NAME,
    NEW_FILE,
    NEW_TEST,
    OF_COURSE,
    READ,
    WITH,
    WITHOUT,
)
from reflector.counts.history import History, depends_on_course
from reflector.counts.likeness import Likeness, features_of
from reflector.counts.occasions import (
    Occasion,
    is_before,
    occasion_of,
    occasion_of_ban,
    path_expression,
    phase_in,
    places_in_act,
    scope_of,
    with_phase,
)
from reflector.counts.sentences import (
    instructs,
    is_reminder,
    may_repeat,
    requests,
    sentences_of,
    speaks_against,
)
from reflector.counts.sought import FILES, Sought, sought_of
from reflector.counts.token import Token
from reflector.counts.tokens import are_all_asked_for, tokens_of, words_mentioned
from reflector.text.lazy import lazy_pattern
from reflector.text.words import words_of
from reflector.transcripts.message import Message
from reflector.transcripts.records import record_key

#: The version of the reading of tokens, occasions and likeness. It changes if any count would
#: change.
VERSION = "counts/19"
#: The bits of `came_up`. CAME_UP: the occasion came up. The others are of a rule that asks for a
#: command before its occasion. LATE: the occasion came first. IN_TIME: the command came first.
#: UNKNOWN: the transcript lacks the beginning of the session. MENTIONED: an act contains a word of
#: the rule, without following or breaking the rule.
#: LOADED: the agent worked with a file at which it loads the rule.
CAME_UP, LATE, IN_TIME, UNKNOWN, MENTIONED, LOADED = 1, 2, 4, 8, 16, 32
_ORDER = LATE | IN_TIME | UNKNOWN
#: In `said`, the bit of a sentence that repeats the rule; the bits of the tokens follow it.
AGAIN = 1
_WORDS = lazy_pattern(r"\w+")
#: A rule about each thing of a kind: "every feature needs an entry in CHANGELOG.md".
_EACH_CASE = lazy_pattern(r"\b(?:each|every|any)\b", re.IGNORECASE)
#: Each ASCII character, with a space for those that are not part of a word.
_ASCII_WORDS = re.sub(r"\W", " ", bytes(range(128)).decode("ascii"))


class Rule(NamedTuple):
    """A rule: its text, and a key that follows from its words. For a fact, only calls that contain
    one of its tokens are counted.

    phase  the words before it, if they only name an occasion, such as "Before you commit", or are
           against all that follows them
    files  an expression for the files at which an agent loads it; "" if it loads it at each start
    """

    key: int
    text: str
    is_fact: bool = False
    phase: str = ""
    files: str = ""

    @property
    def occasion_title(self) -> str:
        """The title that names an occasion, such as "Before you commit"; "" if there is none."""
        return "" if self.phase == BANS else self.phase

    def is_loaded(self, marks: Marks) -> bool:
        """Return whether the agent of a session with these marks loaded it."""
        return not self.files or marks.came_up & LOADED > 0


def rule_of(
    text: str, *, is_fact: bool = False, titles: Sequence[str] = (), scope: Iterable[str] = ()
) -> Rule:
    """Return a rule from its text. Punctuation, case and markup do not change its key.

    titles  the words before it: its lead-in and its heading
    scope   the patterns of files at which an agent loads it
    """
    key = record_key(" ".join(words_of(text)))
    phase = bans_in(*titles) or phase_in(*titles)
    return Rule(key, text, is_fact, phase, "|".join(map(path_expression, scope)))


class Marks(NamedTuple):
    """The marks of a rule in a part of a session.

    run, written  one bit for each of the rule's tokens
    said          a bit for a sentence that repeats the rule, then one for each token that you name
    came_up       CAME_UP if the occasion came up, and LATE, IN_TIME or UNKNOWN; MENTIONED; LOADED
    """

    run: int = 0
    written: int = 0
    said: int = 0
    came_up: int = 0

    @property
    def acts(self) -> int:
        """The bits of the tokens that the agent ran or wrote."""
        return self.run | self.written

    def joined(self, other: Marks) -> Marks:
        """Return the marks of both. `other` is later, so the first order of a command and the
        occasion remains.
        """
        order = self.came_up & _ORDER or other.came_up & _ORDER
        return Marks(
            self.run | other.run,
            self.written | other.written,
            self.said | other.said,
            (self.came_up | other.came_up) & ~_ORDER | order,
        )


class Remark(NamedTuple):
    """A sentence of yours that repeats rules, or that asks for something and is in no rule.

    record  the key of its record; `offset` is the offset of the record's line
    number  its place among the sentences of the record
    rules   the keys of the rules
    """

    record: int
    offset: int
    number: int
    rules: tuple[int, ...]


@dataclass(slots=True)
class PartCounts:
    """The counts of one part of a session.

    began  the first time in it as written; "" if it has none
    steps  messages of the agent
    rules  the keys of the rules that were counted
    marks  by the key of the rule; a rule without marks is not in it
    is_whole  whether its transcript begins at the beginning of the session
    is_first  whether no earlier part of the session is counted on its own
    """

    began: str = ""
    steps: int = 0
    rules: set[int] = field(default_factory=set)
    marks: dict[int, Marks] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    is_whole: bool = True
    is_first: bool = True

    def add(self, key: int, marks: Marks) -> None:
        """Add marks of a rule."""
        known = self.marks.get(key)
        self.marks[key] = marks if known is None else known.joined(marks)

    def join(self, other: PartCounts) -> None:
        """Add the counts of a later part of the session."""
        self.began = min(filter(None, (self.began, other.began)), default="")
        self.steps += other.steps
        self.rules |= other.rules
        for key, marks in other.marks.items():
            self.add(key, marks)


class Counting(NamedTuple):
    """A rule prepared for counting.

    named, negated  the bits of the tokens that it speaks for, and against
    is_before       whether it asks for a command before its occasion
    needs_all       whether it asks for all of its commands, not only for one of them
    is_open         whether a session may have been able to follow it without a sign of it, because
                    its condition is unknown or because it asks to read a file
    scope           an expression for the files to which it is restricted; "" for all
    mentions        the words of its tokens and the keywords in it
    features        the words by which it is compared, as `features_of` returns them
    """

    rule: Rule
    tokens: tuple[Token, ...]
    occasion: Occasion | None
    named: int
    negated: int
    is_before: bool
    needs_all: bool
    is_open: bool
    scope: str
    mentions: str
    features: Mapping[str, bool]


class _Left(NamedTuple):
    """The state of a part of a session: the occasions that did not come up yet, and the words of
    rules that are not marked as mentioned yet, each with the keys of its rules, and its history.
    """

    occasions: dict[Occasion, list[int]]
    mentions: dict[str, list[int]]
    history: History


#: Is called with an act, its call, and the tokens that the act shows, each with its index.
Show = Callable[[Settled, Act, Sequence[tuple[Sought, int]]], None]


def _show_nothing(_: Settled, __: Act, ___: Sequence[tuple[Sought, int]]) -> None:
    pass


class RuleSet:
    """Rules that are counted together, in one pass over each text.

    rules  by their keys
    """

    def __init__(self, rules: Iterable[Counting]) -> None:
        self.rules = {counting.rule.key: counting for counting in rules}
        #: By the words of which a text with the token contains one.
        self._sought = defaultdict[str, list[Sought]](list)
        #: Tokens of files to read.
        self._read: list[Sought] = []
        #: Tokens that depend on earlier acts of a session.
        self._of_course: list[Sought] = []
        #: Tokens of commit messages.
        self._subjects: list[Sought] = []
        #: Tokens of changed files, names and imports, whose words are not in a call.
        self._formed: list[Sought] = []
        self._mentions = defaultdict[str, list[int]](list)
        self._occasions = defaultdict[Occasion, list[int]](list)
        #: The keys of the rules that an agent loads only at some files, by these files.
        self._loading = defaultdict[str, list[int]](list)
        for key, counting in self.rules.items():
            if counting.rule.files:
                self._loading[counting.rule.files].append(key)
            for word in counting.mentions.split():
                self._mentions[word].append(key)
            if counting.occasion:
                self._occasions[counting.occasion].append(key)
            deeds = counting.named | counting.negated
            for place, token in enumerate(counting.tokens):
                if not deeds >> place & 1:
                    continue
                sought = sought_of(token, key, 1 << place)
                if token.form == READ:
                    self._read.append(sought)
                if depends_on_course(token):
                    self._of_course.append(sought)
                if token.form in subjects.FORMS:
                    self._subjects.append(sought)
                elif token.form in OF_COURSE:
                    continue
                elif token.form in (*FILES, NAME, IMPORT):
                    self._formed.append(sought)
                else:
                    for anchor in token.anchors:
                        self._sought[anchor].append(sought)

    @cached_property
    def _sought_words(self) -> frozenset[str]:
        return frozenset(self._sought)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 over the version and the rules' keys."""
        return sha256(f"{VERSION} {sorted(self.rules)}".encode()).hexdigest()

    @cached_property
    def _likeness(self) -> Likeness:
        return Likeness([counting.features for counting in self.rules.values()])

    def count(self, messages: Iterable[Message], *, is_whole: bool = True) -> PartCounts:
        """Return the counts of a part of a session. `is_whole` is false if its transcript lacks the
        beginning of the session.
        """
        counts = PartCounts(rules=set(self.rules), is_whole=is_whole)
        deque(self.passing(messages, counts), maxlen=0)
        return counts

    def passing(
        self, messages: Iterable[Message], counts: PartCounts, show: Show = _show_nothing
    ) -> Iterator[Message]:
        """Yield messages and count them. Their calls must have whole arguments.

        show  is called with each act, and with the tokens that were counted in it
        """
        waiting = Waiting()
        history = History(
            self._of_course, self._applies, is_whole=counts.is_whole and counts.is_first
        )
        left = _Left(dict(self._occasions), dict(self._mentions), history)
        for message in messages:
            if not message.chain:
                counts.began = counts.began or message.timestamp
                counts.steps += message.origin == "model"
                if message.origin in ("human", "refusal"):
                    self._count_words(message, counts)
                for call in waiting.settled_after(message):
                    self._count_call(call, counts, left, show)
                if message.role == "user":
                    history.hear(message.text)
            yield message
        for call in waiting.settled_at_end():
            self._count_call(call, counts, left, show)
        for sought, act, call in history.deeds_left():
            counts.add(sought.key, Marks(written=sought.bit))
            show(call, act, [(sought, sought.place_in_act(act))])

    def _count_call(self, call: Settled, counts: PartCounts, left: _Left, show: Show) -> None:
        for act in call.acts():
            if not act.commit or self._subjects:
                is_old = left.history.is_old(act.file)
                shown = (
                    (sought, place)
                    for sought, place in self.deeds_in(act)
                    if not (is_old and sought.token.form in (NEW_FILE, NEW_TEST))
                )
                deeds = [*shown, *left.history.deeds_after(act, call)]
                self._count_act(act, deeds, counts, left)
                show(call, act, deeds)

    def _count_act(
        self, act: Act, deeds: Sequence[tuple[Sought, int]], counts: PartCounts, left: _Left
    ) -> None:
        """Count the tokens that an act runs or writes, and the occasions that came up in it.

        The place of a rule's first token in the command shows whether it ran before its occasion.
        """
        for files, keys in self._loading.items():
            if any(re.search(files, word) for word in (act.file, *act.read.split())):
                for key in keys:
                    counts.add(key, Marks(came_up=LOADED))
        places: dict[int, int] = {}
        shown: set[int] = set()
        for sought, place in deeds:
            shown.add(sought.key)
            if not (act.command or act.read):
                counts.add(sought.key, Marks(written=sought.bit))
                continue
            counts.add(sought.key, Marks(run=sought.bit))
            if sought.bit & self.rules[sought.key].named:
                places[sought.key] = min(place, places.get(sought.key, place))
        _mark_mentions(act, shown, counts, left.mentions)
        self._count_occasions(act, places, counts, left.occasions)

    def deeds_in(self, act: Act) -> Iterator[tuple[Sought, int]]:
        """Yield the tokens that an act runs or writes, each with its index in the command or in the
        added text.
        """
        if act.command:
            for sought in self._candidates(act.command):
                is_fact = self.rules[sought.key].rule.is_fact
                find = sought.place_in if is_fact else sought.place_in_command
                if (place := find(act.command)) >= 0:
                    yield sought, place
        elif act.read:
            yield from ((each, 0) for each in self._read if each.is_read_by(act.read))
        elif act.commit:
            for message in messages_in(act.commit):
                yield from ((each, 0) for each in self._subjects if each.is_broken_by(message))
        else:
            yield from self._changes_in(act)

    def _changes_in(self, act: Act) -> Iterator[tuple[Sought, int]]:
        """Yield the tokens that a change to a file writes, each with its index in the text."""
        files = self._formed if act.change else chain(self._formed, self._held_by(act.file))
        for sought in files if act.file or act.change else ():
            if sought.is_file_of(act) and self._applies(sought.key, act):
                yield sought, 0
        formed = (each for each in self._formed if each.token.form not in FILES)
        for sought in chain(formed, self._held_by(act.added)) if act.added else ():
            if sought.is_added_by(act) and self._applies(sought.key, act):
                yield sought, sought.place_in_act(act)

    def _count_occasions(
        self,
        act: Act,
        places: Mapping[int, int],
        counts: PartCounts,
        occasions: dict[Occasion, list[int]],
    ) -> None:
        """Add the occasions that come up in an act, and their order relative to the commands at
        `places`.
        """
        if act.file:
            _meet(act.file, occasions)
        came_up = dict(places_in_act(occasions, act))
        for key, place in places.items():
            counting = self.rules[key]
            run = counts.marks[key].run
            if counting.needs_all and run & counting.named != counting.named:
                continue
            occasion = counting.occasion and counting.occasion.met
            occasion_at = came_up.get(occasion) if occasion else None
            if counting.is_before and (occasion_at is None or place <= occasion_at):
                counts.add(key, Marks(came_up=IN_TIME))
        order = LATE if counts.is_whole else UNKNOWN
        for occasion in came_up:
            for key in occasions.pop(occasion):
                counts.add(key, Marks(came_up=CAME_UP | order * self.rules[key].is_before))

    def _applies(self, key: int, act: Act) -> bool:
        """Return whether a rule is about the file of an act."""
        scope = self.rules[key].scope
        return not scope or re.search(scope, act.file) is not None

    def _candidates(self, text: str) -> Iterator[Sought]:
        """Yield the tokens of which a text contains a word."""
        words = self._sought_words & _words_in(text)
        return chain.from_iterable(self._sought[word] for word in words)

    def _held_by(self, text: str) -> list[Sought]:
        """Return the tokens that a text contains."""
        return [sought for sought in self._candidates(text) if sought.place_in(text) >= 0]

    def _named_in(self, text: str) -> list[Sought]:
        """Return the tokens of rules, without those of facts, that a text of yours contains."""
        return [
            sought
            for sought in self._candidates(text)
            if not self.rules[sought.key].rule.is_fact and sought.is_named_in(text)
        ]

    def _count_words(self, message: Message, counts: PartCounts) -> None:
        for sought in self._named_in(message.text):
            counts.add(sought.key, Marks(said=sought.bit << 1))
        for number, sentence in enumerate(sentences_of(message)):
            keys = self.said_in(sentence)
            for key in keys:
                counts.add(key, Marks(said=AGAIN))
            if keys or requests(sentence):
                remark = Remark(message.key, message.offset, number, tuple(keys))
                counts.remarks.append(remark)

    def said_in(self, sentence: str) -> list[int]:
        """Return the keys of the rules that a sentence repeats."""
        keys: set[int] = set()
        if instructs(sentence) or is_reminder(sentence):
            named = [each for each in self._named_in(sentence) if each.token.is_distinct]
            for sought in named:
                if sought.token.negated == speaks_against(sentence, sought.token.text):
                    keys.add(sought.key)
        if may_repeat(sentence):
            all_keys = list(self.rules)
            keys.update(all_keys[place] for place in self._likeness.places_like(sentence))
        return sorted(keys)


def rule_set(rules: Iterable[Rule]) -> RuleSet:
    """Return rules that are counted together."""
    return RuleSet(map(_counting, rules))


def restored(saved: Iterable[Any]) -> RuleSet:
    """Return a rule set from the JSON of its countings."""
    return RuleSet(
        Counting(
            Rule(*rule),
            tuple(Token(*token) for token in tokens),
            Occasion(*occasion) if occasion else None,
            *others,
        )
        for rule, tokens, occasion, *others in saved
    )


def _counting(rule: Rule) -> Counting:
    """Return a rule prepared for counting."""
    if rule.is_fact:
        return _fact_counting(rule, tokens_of(rule.text))
    return _rule_counting(rule, tokens_of(with_ban(rule.text, rule.phase)))


def _fact_counting(rule: Rule, tokens: tuple[Token, ...]) -> Counting:
    """Return a fact. It asks for nothing, so each of its tokens only counts as named."""
    every = sum(
        1 << place
        for place, token in enumerate(tokens)
        if not (token.is_pattern or token.form in OF_COURSE)
    )
    return Counting(rule, tokens, None, every, 0, False, False, False, "", "", {})


def _rule_counting(rule: Rule, tokens: tuple[Token, ...]) -> Counting:
    """Return a rule with its tokens as bits: those that it asks for, and those that it forbids."""
    named, negated = _deeds_in(tokens)
    text = with_phase(rule.text, rule.occasion_title, tokens)
    occasion = occasion_of(text, tokens)
    if occasion is None and negated and not named:
        occasion = occasion_of_ban(tokens)
    is_to_read = _is_only_path(named, tokens) and asks_to_read(rule.text)
    is_for_cases = has_condition(rule.text) or (
        _is_only_path(named, tokens) and _EACH_CASE.search(rule.text) is not None
    )
    are_programs = named > 0 < negated and all(token.is_program for token in tokens)
    mentions = words_mentioned(rule.text, () if are_programs else tokens)
    return Counting(
        rule,
        tokens,
        occasion,
        named,
        negated,
        is_before=_names_an_act(named, tokens) and bool(occasion and is_before(text, occasion)),
        needs_all=are_all_asked_for(rule.text, tokens),
        is_open=is_to_read or (occasion is None and is_for_cases),
        scope=scope_of(rule.text, tokens),
        mentions=" ".join(sorted(mentions)),
        features=features_of(rule.text),
    )


def _deeds_in(tokens: Sequence[Token]) -> tuple[int, int]:
    """Return the bits of the tokens that a rule asks for, and of those that it forbids."""
    bits = {False: 0, True: 0}
    for place, token in enumerate(tokens):
        bits[token.negated] |= 1 << place if _is_deed(token, tokens) else 0
    is_of_files = any(token.is_pattern and not (token.scope or token.form) for token in tokens)
    if is_of_files or any(token.scope == "part" for token in tokens):
        bits[True] = 0  # the forbidden act has more than one part
    if bits[True] and _is_only_path(bits[False], tokens):
        bits[False] = 0  # a path only shows where the rule applies
    return bits[False], bits[True]


def _names_an_act(named: int, tokens: Sequence[Token]) -> bool:
    """Return whether a rule asks for an act that a call alone shows."""
    return any(
        named >> place & 1 and token.form not in OF_COURSE for place, token in enumerate(tokens)
    )


def _is_only_path(named: int, tokens: Iterable[Token]) -> bool:
    return named > 0 and all(
        token.is_path for place, token in enumerate(tokens) if named >> place & 1
    )


def _is_deed(token: Token, tokens: Iterable[Token]) -> bool:
    """Return whether a call with the token is evidence about its rule. It is not if the token only
    describes files, or is an English word beside a clearer token. A forbidden word in capitals,
    such as `DELETE`, has too many uses to be evidence.
    """
    if token.scope or (token.is_pattern and not token.form):
        return False
    if token.form in subjects.FORMS or token.form in (WITH, WITHOUT):
        return True
    if token.form in OF_COURSE and token.form != LEFT:
        return True
    is_capitals = token.text.isalpha() and token.text.isupper()
    if (token.negated and is_capitals) or _begins_opposite(token, tokens):
        return False
    return (token.negated and token.is_program) or not _is_unclear(token, tokens)


def _is_unclear(token: Token, tokens: Iterable[Token]) -> bool:
    """Return whether a token is an English word beside a clearer token."""
    others = (other for other in tokens if other.negated == token.negated and not other.scope)
    return token.is_plain and any(other.is_distinct for other in others)


def _begins_opposite(token: Token, tokens: Iterable[Token]) -> bool:
    """Return whether a token begins one with the opposite meaning: `a b`, but not `a`."""
    begin = re.compile(rf"{re.escape(token.text)}(?![\w-])")
    return any(
        begin.match(other.text)
        for other in tokens
        if other.negated != token.negated and other.form not in OF_COURSE
    )


def _meet(file: str, occasions: dict[Occasion, list[int]]) -> None:
    """Remove the need of each occasion for a change of such a file."""
    for occasion in [each for each in occasions if each.needs and re.search(each.needs, file)]:
        keys = occasions.pop(occasion)
        occasions[occasion.met] = [*occasions.get(occasion.met, ()), *keys]


def _mark_mentions(
    act: Act, shown: Set[int], counts: PartCounts, mentions: dict[str, list[int]]
) -> None:
    """Mark the rules of which an act contains a word, without those whose tokens it shows. A marked
    rule is removed from `mentions`, because most acts contain the same words again.
    """
    texts = (act.command, act.file, act.added, act.removed, act.read)
    words = {word for text in texts if text for word in mentions.keys() & _words_in(text)}
    for word in words:
        keys = mentions.pop(word)
        for key in keys:
            if key not in shown:
                counts.add(key, Marks(came_up=MENTIONED))
        if unmarked := [key for key in keys if key in shown]:
            mentions[word] = unmarked


@lru_cache(maxsize=8)
def _words_in(text: str) -> frozenset[str]:
    if text.isascii():  # three times as fast, and nearly all calls are ASCII
        return frozenset(text.translate(_ASCII_WORDS).split())
    return frozenset(_WORDS.findall(text))
