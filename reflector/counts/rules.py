"""The counts of rules in one recorded part of a session: the tokens that the agent ran and wrote,
your repetitions, and the occasions.

Invariant: only the agent's own calls and your own words in the main conversation count. The output
of tools, files that were read, hooks and the agent's words never do. A count is a count: "written"
does not mean "broken". The same records and rules give the same counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from itertools import chain, takewhile
from typing import Any, NamedTuple

from reflector.counts import subjects
from reflector.counts.calls import Act, Waiting, messages_in
from reflector.counts.clauses import asks_to_read, has_condition
from reflector.counts.code import is_prose, may_only_describe, uses_as_code, without_comments
from reflector.counts.deeds import deed_named, is_said_in
from reflector.counts.forms import (
    BARE,
    BEFORE_FILE,
    DEED,
    FILE,
    IMPORT,
    NAME,
    READ,
    SCRIPT,
    STAGED,
    SUPPRESSED,
    VERSIONS,
    WITH,
    WITHOUT,
    places_of,
)
from reflector.counts.likeness import Likeness, features_of
from reflector.counts.occasions import (
    Occasion,
    is_before,
    occasion_of,
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
from reflector.counts.shell import (
    BEGIN,
    FOLDER,
    OPTIONS,
    RUNNING_OPTIONS,
    file_expression,
    reading_of,
    run_of,
    runs_at,
    staging_of,
)
from reflector.counts.spellings import option_ahead, with_any_options, words_of as words_of_command
from reflector.counts.token import PROGRAMS, Token
from reflector.counts.tokens import are_all_asked_for, tokens_of, words_mentioned
from reflector.text.words import words_of
from reflector.transcripts.message import Message
from reflector.transcripts.records import record_key

#: The version of the reading of tokens, occasions and likeness. It changes if any count would
#: change.
VERSION = "counts/13"
#: The bits of `came_up`. CAME_UP: the occasion came up. The others are of a rule that asks for a
#: command before its occasion. LATE: the occasion came first. IN_TIME: the command came first.
#: UNKNOWN: the transcript lacks the beginning of the session. MENTIONED: an act contains a word of
#: the rule, without following or breaking the rule.
#: LOADED: the agent worked with a file at which it loads the rule.
CAME_UP, LATE, IN_TIME, UNKNOWN, MENTIONED, LOADED = 1, 2, 4, 8, 16, 32
_ORDER = LATE | IN_TIME | UNKNOWN
#: In `said`, the bit of a sentence that repeats the rule; the bits of the tokens follow it.
AGAIN = 1
_WORDS = re.compile(r"\w+")
#: Each ASCII character, with a space for those that are not part of a word.
_ASCII_WORDS = re.sub(r"\W", " ", bytes(range(128)).decode("ascii"))
#: Programs that run a script of a project by its name, with `run` or without.
_RUNNERS = frozenset(("npm", "pnpm", "yarn", "bun"))
#: The forms of tokens that only commands show.
_OF_COMMANDS = (BARE, BEFORE_FILE, DEED, READ, SCRIPT, STAGED, WITH, WITHOUT)
#: The forms of tokens that only the text of a file shows.
_OF_FILES = (NAME, IMPORT, SUPPRESSED)
#: The beginning of words that are only used in comments, such as `# type: ignore`.
_OF_COMMENTS = re.compile(
    r"#(?![\[!]|include)|//|/\*|@ts-|(?:eslint|biome|prettier|istanbul)-|noqa|nosec|pylint:|type: "
)
#: A file as the argument of a program.
_FILE = r"[^\s;&|<>-][^\s;&|]*\.\w+(?![\w-])"
#: The end of a command that does not test a file of your own outside the project.
_NOT_SCRATCH = r"(?![^;&|\n]*\s/(?:private/)?tmp/)"
#: The end of a program that prints only its version or its help.
_NOT_ASKING_ABOUT = r"(?! +(?:--version|--help|-[vVh])\s*(?:\Z|[;&|)\n]))"
#: The end of a command without arguments. Its output may go elsewhere.
_NO_ARGUMENTS = r"(?=[ \t]*(?:\Z|[;&|)\n`\"'>]|\d>))"
#: Ends of a command that leave its last argument open, as in `git checkout -b feature/`.
_OPEN_ENDS = frozenset("(/=:-")


#: The word after which a command has no more options, as an expression.
_END_OF_OPTIONS = r"\-\-"


class Rule(NamedTuple):
    """A rule: its text, and a key that follows from its words. For a fact, only calls that contain
    one of its tokens are counted.

    phase  the words before it, if they only name an occasion, such as "Before you commit"
    files  an expression for the files at which an agent loads it; "" if it loads it at each start
    """

    key: int
    text: str
    is_fact: bool = False
    phase: str = ""
    files: str = ""

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
    return Rule(key, text, is_fact, phase_in(*titles), "|".join(map(path_expression, scope)))


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
    """

    began: str = ""
    steps: int = 0
    rules: set[int] = field(default_factory=set)
    marks: dict[int, Marks] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    is_whole: bool = True

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


class Sought(NamedTuple):
    """A token to look for, with the rule's key and the token's bit.

    begin  a part of every text that contains the token; "" if there is none
    """

    token: Token
    key: int
    bit: int
    begin: str

    def place_in(self, text: str) -> int:
        """Return the index of the token in a text, outside of other words; -1 if the text does not
        contain it.
        """
        # A search for a part of the text first is ten times as fast.
        match = self.begin in text and _command(self.token).search(text)
        return match.start() if match else -1

    def place_in_command(self, command: str) -> int:
        """Return the index at which a command runs the token; -1 if it does not. A program that
        only reads or searches does not run its arguments.
        """
        token = self.token
        is_read = token.is_path and not token.negated
        if token.form in _OF_COMMANDS or token.is_option or is_read or _is_banned_program(token):
            return self.place_in(command)
        if token.form == SUPPRESSED or (token.negated and token.is_plain):
            return -1  # an argument does not run a forbidden word
        matches = _command(token).finditer(command) if self.begin in command else ()
        run = (
            each.start()
            for each in matches
            if runs_at(command, *each.span(), is_name=token.is_name)
        )
        return next(run, -1)

    def _places_in(self, text: str, file: str) -> list[int]:
        return places_of(self.token.form, self.token.text, text, file)

    def place_in_act(self, act: Act) -> int:
        """Return the index of the token in the command or in the added text of an act; 0 if it is
        not there word for word.
        """
        text = act.command or act.added
        formed = self._places_in(text, act.file) if self.token.form in _OF_FILES else []
        return max(0, *formed[:1], self.place_in(text))

    def is_in(self, act: Act) -> bool:
        """Return whether the command or the added text of an act shows the token."""
        if act.command:
            return self.place_in_command(act.command) >= 0
        return self.is_added_by(act._replace(removed=""))

    def is_named_in(self, text: str) -> bool:
        """Return whether words of yours name the token. You name a command without its file."""
        if self.token.form == DEED:
            return is_said_in(deed_named(self.token.text), text)
        named = self.token._replace(negated=False, form="")
        return self._replace(token=named).place_in(text) >= 0

    def is_broken_by(self, message: str) -> bool:
        """Return whether the message of a commit breaks the rule."""
        return subjects.is_broken_by(self.token.form, self.token.text, message)

    def is_read_by(self, read: str) -> bool:
        """Return whether a call that reads a file, whose path comes first, reads this one."""
        path = re.match(r"\S*", read)
        file = rf"(?:^|/){file_expression(self.token.text)}"
        return path is not None and re.search(file, path[0]) is not None

    def is_file_of(self, act: Act) -> bool:
        """Return whether an act changes the file that the token names."""
        if self.token.form == FILE:
            return re.search(path_expression(self.token.text), act.file) is not None
        is_named = self.token.is_path and not self.token.negated
        return is_named and self.place_in(act.file) >= 0

    def is_added_by(self, act: Act) -> bool:
        """Return whether a change of a file adds the token. Comments and prose do not count for a
        rule against an identifier.
        """
        is_program = self.token.is_program and self.token.negated
        if is_program or self.token.form in _OF_COMMANDS:
            return False
        if self.token.form == SUPPRESSED and is_prose(act.file):
            return False
        if self.token.form:
            removed = self._places_in(act.removed, act.file)
            return len(self._places_in(act.added, act.file)) > len(removed)
        if self.token.is_plain:
            word = self.token.text
            added = uses_as_code(word, act.added, act.file)
            return added > 0 and added > uses_as_code(word, act.removed, act.file)
        expression = _expression(self.token.text)
        if self.token.negated and self.token.is_command and may_only_describe(act.file):
            return False
        is_banned_code = self.token.negated and not _OF_COMMENTS.match(self.token.text)
        number, number_before = (
            len(expression.findall(without_comments(text, act.file) if is_banned_code else text))
            for text in (act.added, act.removed)
        )
        return number > number_before


class _Left(NamedTuple):
    """The occasions that did not come up yet in a part of a session, and the words of rules that
    are not marked as mentioned yet, each with the keys of its rules.
    """

    occasions: dict[Occasion, list[int]]
    mentions: dict[str, list[int]]


class RuleSet:
    """Rules that are counted together, in one pass over each text.

    rules  by their keys
    """

    def __init__(self, rules: Iterable[Counting]) -> None:
        self.rules = {counting.rule.key: counting for counting in rules}
        #: By the words of which a text with the token contains one.
        self._sought: dict[str, list[Sought]] = {}
        #: Those whose words are not in a call, those of files to read, and those of messages.
        self._formed: list[Sought] = []
        self._read: list[Sought] = []
        self._subjects: list[Sought] = []
        self._mentions: dict[str, list[int]] = {}
        self._occasions: dict[Occasion, list[int]] = {}
        #: The keys of the rules that an agent loads only at some files, by these files.
        self._loading: dict[str, list[int]] = {}
        for key, counting in self.rules.items():
            if counting.rule.files:
                self._loading.setdefault(counting.rule.files, []).append(key)
            for word in counting.mentions.split():
                self._mentions.setdefault(word, []).append(key)
            if counting.occasion:
                self._occasions.setdefault(counting.occasion, []).append(key)
            deeds = counting.named | counting.negated
            for place, token in enumerate(counting.tokens):
                if deeds >> place & 1:
                    is_as_written = token.form not in _OF_COMMANDS
                    begin = token.text.partition(" ")[0] if is_as_written else ""
                    sought = Sought(token, key, 1 << place, begin)
                    if token.form == READ:
                        self._read.append(sought)
                    if token.form in subjects.FORMS:
                        self._subjects.append(sought)
                    elif token.form in (FILE, NAME, IMPORT):
                        self._formed.append(sought)
                    else:
                        for anchor in token.anchors:
                            self._sought.setdefault(anchor, []).append(sought)

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

    def passing(self, messages: Iterable[Message], counts: PartCounts) -> Iterator[Message]:
        """Yield messages and count them. Their calls must have whole arguments."""
        waiting = Waiting()
        left = _Left(dict(self._occasions), dict(self._mentions))
        for message in messages:
            if not message.chain:
                counts.began = counts.began or message.timestamp
                counts.steps += message.origin == "model"
                if message.origin in ("human", "refusal"):
                    self._count_words(message, counts)
                for act in waiting.acts_after(message):
                    self._count_act(act, counts, left)
            yield message
        for act in waiting.acts_at_end():
            self._count_act(act, counts, left)

    def _count_act(self, act: Act, counts: PartCounts, left: _Left) -> None:
        """Count the tokens that an act runs or writes, and the occasions that came up in it.

        The place of a rule's first token in the command shows whether it ran before its occasion.
        """
        if act.commit and not self._subjects:
            return
        for files, keys in self._loading.items():
            if any(re.search(files, word) for word in (act.file, *act.read.split())):
                for key in keys:
                    counts.add(key, Marks(came_up=LOADED))
        places: dict[int, int] = {}
        shown: set[int] = set()
        for sought, place in self.deeds_in(act):
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
        """Yield the tokens that a change of a file writes, each with its index in the text."""
        for sought in chain(self._formed, self._held_by(act.file)) if act.file else ():
            if sought.is_file_of(act) and self._applies(sought.key, act):
                yield sought, 0
        formed = (each for each in self._formed if each.token.form != FILE)
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
    tokens = tokens_of(rule.text)
    return _fact_counting(rule, tokens) if rule.is_fact else _rule_counting(rule, tokens)


def _fact_counting(rule: Rule, tokens: tuple[Token, ...]) -> Counting:
    """Return a fact. It asks for nothing, so each of its tokens only counts as named."""
    every = sum(1 << place for place, token in enumerate(tokens) if not token.is_pattern)
    return Counting(rule, tokens, None, every, 0, False, False, False, "", "", {})


def _rule_counting(rule: Rule, tokens: tuple[Token, ...]) -> Counting:
    """Return a rule with its tokens as bits: those that it asks for, and those that it forbids."""
    named, negated = _deeds_in(tokens)
    text = with_phase(rule.text, rule.phase, tokens)
    occasion = occasion_of(text, tokens)
    is_to_read = _is_only_path(named, tokens) and asks_to_read(rule.text)
    are_programs = named > 0 < negated and all(token.is_program for token in tokens)
    mentions = words_mentioned(rule.text, () if are_programs else tokens)
    return Counting(
        rule,
        tokens,
        occasion,
        named,
        negated,
        is_before=named > 0 and occasion is not None and is_before(text, occasion),
        needs_all=are_all_asked_for(rule.text, tokens),
        is_open=is_to_read or (occasion is None and has_condition(rule.text)),
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
    if token.form in subjects.FORMS:
        return True
    if token.form in (WITH, WITHOUT):
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
    return any(begin.match(other.text) for other in tokens if other.negated != token.negated)


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
    words = {word for text in act[:-1] if text for word in mentions.keys() & _words_in(text)}
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


@cache
def _expression(text: str) -> re.Pattern[str]:
    """Return an expression for a text outside of other words."""
    return re.compile(_begin_of(text) + re.escape(text) + _end_of(text))


def _begin_of(text: str) -> str:
    return r"(?<![\w-])" if text[0].isalnum() or text[0] in "_-" else ""


def _end_of(text: str) -> str:
    if text[-1].isalnum() or text[-1] == "_":
        return r"(?![\w-])"
    return r"(?![^\s;&|)\"'])" if " " in text and text[-1] not in _OPEN_ENDS else ""


def _is_banned_program(token: Token) -> bool:
    return token.negated and token.text.partition(" ")[0] in PROGRAMS


@cache
def _command(token: Token) -> re.Pattern[str]:
    """Return an expression for a token in a command. Options may follow each of its words."""
    if token.form == DEED:
        return re.compile(deed_named(token.text).commands, re.MULTILINE)
    if token.form == SCRIPT:
        return re.compile(run_of(token.text), re.MULTILINE)
    if token.form in (READ, STAGED):
        expression_of = reading_of if token.form == READ else staging_of
        return re.compile(expression_of(token.text), re.MULTILINE)
    is_banned_program = _is_banned_program(token)
    if not (token.is_command or is_banned_program):
        return _expression(token.text)
    begin = rf"{BEGIN}{FOLDER}" if is_banned_program else _begin_of(token.text)
    if token.form in (WITH, WITHOUT):
        return re.compile(begin + _with_option(token), re.MULTILINE)
    words = with_any_options(token.text, OPTIONS) or _words_of(token)
    end = _NO_ARGUMENTS if token.form == BARE else ""
    return re.compile(begin + words + end, re.MULTILINE)


def _with_option(token: Token) -> str:
    """Return an expression for a command with or without the option that its text ends with."""
    command, _, option = token.text.rpartition(" ")
    words = _words_of(Token(command, token.negated))
    ahead = option_ahead(command, option)
    is_there = ahead if token.form == WITH else f"(?!{ahead})"
    # The program comes first, or the option would be looked for at each word of the command.
    return f"(?={re.escape(command.split()[0])}){is_there}{words}"


def _words_of(token: Token) -> str:
    """Return an expression for the words of a command in their order."""
    first, *words = words_of_command(token.text, any_version=token.form == VERSIONS)
    script = r"(?:run +)?" if token.text.partition(" ")[0] in _RUNNERS else ""
    words += [_FILE] if token.form == BEFORE_FILE else []
    end = "" if token.form == BEFORE_FILE else _end_of(token.text)
    if not words:
        return first + end + _NOT_ASKING_ABOUT
    end += r"(?![:./=]\w)" if end and not words[-1].startswith("\\-") else ""
    end += _NOT_SCRATCH if token.negated and "test" in token.text else ""
    is_interpreter = token.form == BEFORE_FILE and token.is_program
    options = RUNNING_OPTIONS if is_interpreter else OPTIONS
    in_order = [*takewhile(lambda word: not word.startswith("\\-"), words)]
    named = first
    for word in in_order:
        named += f"{options} +{script}{word}"
        script = ""
    return named + (_options_ahead(words[len(in_order) :], end) or end)


def _options_ahead(words: Sequence[str], end: str) -> str:
    """Return an expression that looks ahead for options, each with the words that follow it.

    Other arguments may precede an option, as in `cargo update serde --precise 1.0`. Each option is
    looked for from the same place, so the time does not grow with a power of their number. Words
    after `--` are not options, and must be in order.
    """
    groups: list[list[str]] = []
    for word in words:
        is_after_options = bool(groups) and groups[-1][0] == _END_OF_OPTIONS
        if word.startswith("\\-") and not is_after_options:
            groups.append([])
        groups[-1].append(word)
    ends = [r"(?![\w-])"] * (len(groups) - 1) + [end]
    return "".join(
        rf"(?=(?:(?! -- )[^;&|\n])*? +{' +'.join(group)}{group_end})"
        for group, group_end in zip(groups, ends, strict=False)
    )
