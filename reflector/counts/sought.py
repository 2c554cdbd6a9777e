"""The tokens of rules, as they are looked for in the acts of a session.

Invariant: a token is in an act only if the act runs it or writes it. A command that only names a
token, and an edit that keeps it, do not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import takewhile
from typing import NamedTuple

from reflector.counts import subjects
from reflector.counts.calls import Act
from reflector.counts.code import is_prose, may_only_describe, uses_as_code, without_comments
from reflector.counts.deeds import deed_named, is_said_in
from reflector.counts.forms import (
    BARE,
    BEFORE_FILE,
    COMMANDS,
    DEED,
    FILE,
    IMPORT,
    LEFT,
    NAME,
    NEW_FILE,
    NEW_TEST,
    READ,
    SCRIPT,
    STAGED,
    SUPPRESSED,
    VERSIONS,
    WITH,
    WITHOUT,
    places_of,
)
from reflector.counts.occasions import TEST_FILES, path_expression
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
from reflector.text.lazy import lazy_pattern

#: Programs that run a script of a project by its name, with `run` or without.
_RUNNERS = frozenset(("npm", "pnpm", "yarn", "bun"))
#: The forms of tokens that only commands show.
_OF_COMMANDS = (*COMMANDS, READ, STAGED)
#: The forms of tokens that only the path of a changed file shows.
FILES = (FILE, NEW_FILE, NEW_TEST)
#: The forms of tokens that only the text of a file shows.
_OF_FILES = (NAME, IMPORT, SUPPRESSED)
#: The beginning of words that are only used in comments, such as `# type: ignore`.
_OF_COMMENTS = lazy_pattern(
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


#: Programs that only filter the output of another program after a pipe.
_FILTERS = frozenset(("grep", "egrep", "fgrep", "sed", "awk", "cat", "head", "tail"))
_NO_PIPE = r"(?!(?<!\|)\|(?!\|))"
#: The word after which a command has no more options, as an expression.
_END_OF_OPTIONS = r"\-\-"


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
        match = self.begin in text and expression_of(self.token).search(text)
        return match.start() if match else -1

    def place_in_command(self, command: str) -> int:
        """Return the index at which a command runs the token; -1 if it does not. A program that
        only reads or searches does not run its arguments.
        """
        token = self.token
        is_read = token.is_path and not token.negated
        if token.form in _OF_COMMANDS or token.is_option or is_read or _is_banned_program(token):
            return self.place_in(command)
        if token.form in (SUPPRESSED, LEFT) or (token.negated and token.is_plain):
            return -1  # an argument does not run a forbidden word
        matches = expression_of(token).finditer(command) if self.begin in command else ()
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
        if self.token.form in FILES:
            return self._is_changed_by(act)
        is_named = self.token.is_path and not self.token.negated
        return is_named and self.place_in(act.file) >= 0

    def _is_changed_by(self, act: Act) -> bool:
        """Return whether an act changes or creates a file of a ban. A kind of files may be removed,
        because a program writes them again.
        """
        if re.search(path_expression(self.token.text), act.changed_file) is None:
            return False
        if self.token.form == FILE:
            return not (act.change and act.change.is_gone and self.token.is_pattern)
        is_test = re.search(TEST_FILES, act.changed_file) is not None
        return act.is_new and (is_test or self.token.form == NEW_FILE)

    def is_added_by(self, act: Act) -> bool:
        """Return whether a change to a file adds the token."""
        return self.gain_in(act) > 0

    def gain_in(self, act: Act) -> int:
        """Return how often a change to a file adds the token, less how often it removes the token.
        Comments and prose do not count for a rule against an identifier.
        """
        is_program = self.token.is_program and self.token.negated
        if is_program or self.token.form in _OF_COMMANDS:
            return 0
        if self.token.form == SUPPRESSED and is_prose(act.file):
            return 0
        if self.token.form not in ("", LEFT):
            removed = self._places_in(act.removed, act.file)
            return len(self._places_in(act.added, act.file)) - len(removed)
        if self.token.is_plain:
            word = self.token.text
            added = uses_as_code(word, act.added, act.file)
            return added and added - uses_as_code(word, act.removed, act.file)
        expression = _expression(self.token.text)
        if self.token.negated and self.token.is_command and may_only_describe(act.file):
            return 0
        is_banned_code = self.token.negated and not _OF_COMMENTS.match(self.token.text)
        number, number_before = (
            len(expression.findall(without_comments(text, act.file) if is_banned_code else text))
            for text in (act.added, act.removed)
        )
        return number - number_before


def sought_of(token: Token, key: int, bit: int) -> Sought:
    """Return a token to look for."""
    is_as_written = token.form not in _OF_COMMANDS
    return Sought(token, key, bit, token.text.partition(" ")[0] if is_as_written else "")


@cache
def _expression(text: str) -> re.Pattern[str]:
    """Return an expression for a text outside of other words."""
    return re.compile(_begin_of(text) + re.escape(text) + _end_of(text))


def _begin_of(text: str) -> str:
    return r"(?<![\w-])" if text[0].isalnum() or text[0] in "_-" else ""


def _end_of(text: str) -> str:
    if _OF_COMMENTS.match(text):
        return r"(?!\w|-(?!(?:next-)?line\b))"
    if text[-1].isalnum() or text[-1] == "_":
        return r"(?![\w-])"
    return r"(?![^\s;&|)\"'])" if " " in text and text[-1] not in _OPEN_ENDS else ""


def _is_banned_program(token: Token) -> bool:
    return token.negated and token.text.partition(" ")[0] in PROGRAMS


@cache
def expression_of(token: Token) -> re.Pattern[str]:
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
    if is_banned_program and token.text.partition(" ")[0] in _FILTERS:
        begin = _NO_PIPE + begin
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
