"""The acts of rules that only the course of a session shows: an edit of an unread file, a commit
after a failed check or on a branch, code that is left in a file.

Invariant: an act is only claimed if the transcript shows all that it depends on. A file whose name
came up in a command or in your words may have been read, and a failure is one only if the exit
code is that of the check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from reflector.counts.calls import Act, Settled
from reflector.counts.deeds import deed_named
from reflector.counts.forms import (
    DEED,
    FAILED_COMMIT,
    FAILED_PUSH,
    LEFT,
    OF_COURSE,
    PASSED,
    READ_FIRST,
    UNREAD,
)
from reflector.counts.orders import TESTS
from reflector.counts.shell import BEGIN, FOLDER, OPTIONS
from reflector.counts.sought import Sought, expression_of
from reflector.counts.token import Token
from reflector.text.lazy import lazy_pattern

#: Returns whether a rule is about the file of an act.
Applies = Callable[[int, Act], bool]
_COMMIT = lazy_pattern(rf"{BEGIN}git{OPTIONS} +commit(?![\w.-])", re.MULTILINE)
_PUSH = lazy_pattern(rf"{BEGIN}git{OPTIONS} +push(?![\w.-])", re.MULTILINE)
#: Some words of one command. A limit keeps the time of a search linear.
_WORDS = r"[^;&|\n]{0,200}"
_NAME = lazy_pattern(r"\.?[\w+-](?:[\w@.+-]*[\w+-])?")
#: Files that an agent gets at the start of a session.
_LOADED = frozenset(("AGENTS.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md", "MEMORY.md"))
_PRINTS = lazy_pattern(
    r"\b(?:cat|bat|less|more|head|tail|nl|sed|awk|python[\d.]*|node|perl|ruby)\s"
)
#: A command that may print files without naming them.
_PRINTS_MANY = lazy_pattern(
    r"\b(?:xargs|while|for|find|git +(?:diff|show|log)|gh +pr +diff|python[\d.]*|node|perl|ruby)\b"
    rf"|\b(?:cat|bat|less|more|head|tail|nl|sed|awk)\b{_WORDS}[*$`?{{]"
)
_TEST_RUN = lazy_pattern(
    rf"{BEGIN}(?:(?:npx|bunx|pnpm|yarn|uv +run|poetry +run|bundle +exec|python[\d.]* +-m)"
    rf"(?: +exec)? +)?{FOLDER}(?:(?:pytest|vitest|jest|mocha|rspec|phpunit|ctest|tox|nox)"
    r"(?![\w./-])|(?:go|cargo|npm|pnpm|yarn|bun|deno|dotnet|mix|swift|make|just|task|rake|mise)"
    rf"(?: -\S+| run)* (?:\w+:)?test\b|(?:mvnw?|gradlew?) {_WORDS}\b(?:test|verify)\b)",
    re.MULTILINE,
)
_TEST_WORD = lazy_pattern(r"test|spec|check|verify|\bci\b", re.IGNORECASE)
_INTO_FOLDER = r"\s*(?:(?:cd|export|source|\.)\s[^;&|\n]*(?:&&|;|\n)\s*)*(?:\w+=\S*\s+)*"
_REDIRECTS = lazy_pattern(r"\d?>&\d|&?\d?>\s*[^\s;&|]+")
_EXIT_CODE = lazy_pattern(r"(?:\A|\[)exit code:? (\d+)", re.IGNORECASE)
#: The exit codes of pytest if it ran no tests.
_UNTESTED = range(2, 6)
#: From this exit code on, the shell or a signal ended the command.
_FIRST_OF_SHELL = 124
#: After these commands, the branch of the next record may be an old one.
_LEAVES_BRANCH = lazy_pattern(
    rf"\bgit\b{_WORDS}? (?:checkout|switch|worktree|clone|init|rebase|bisect)\b"
    r"(?! +(?:--|\.)(?:\s|\Z))"
)
#: The folder of the commands after it. A worktree has a branch of its own.
_FOLDER = lazy_pattern(r"\b(?:(?:cd|pushd)|git +-C) +(\"[^\"\n]*\"|'[^'\n]*'|[^\s;&|]*)")
_ELSEWHERE = lazy_pattern(r"/|~|\$|[a-z]:|-/|.*(?:\.\.|worktree)", re.DOTALL)
#: Commands that may take back each change to a file.
_TAKES_BACK = lazy_pattern(
    rf"\bgit\b{_WORDS}? (?:checkout(?! +-[bB])|restore|stash|reset|clean|revert|apply)\b|\bpatch\b"
)


def depends_on_course(token: Token) -> bool:
    """Return whether earlier acts of a session decide about a token."""
    return token.form in OF_COURSE or token.needs_branch


class _Course(Protocol):
    """One kind of facts about the earlier acts of a session, for the tokens that are sought."""

    sought: list[Sought]

    def deeds_in(self, act: Act, call: Settled) -> Iterator[tuple[Sought, int]]:
        """Yield the tokens that an act shows after the earlier ones, each with its index."""

    def note(self, act: Act, call: Settled) -> None:
        """Keep what later acts need of an act."""


class History:
    """The facts about the earlier acts of a session on which some tokens depend.

    is_whole  whether the acts begin at the beginning of the session
    """

    def __init__(self, sought: Iterable[Sought], applies: Applies, *, is_whole: bool) -> None:
        of: dict[str, list[Sought]] = {form: [] for form in (*OF_COURSE, DEED)}
        for each in sought:
            of[each.token.form].append(each)
        self._files = _ReadFiles([*of[UNREAD], *of[READ_FIRST]], is_whole=is_whole)
        self._left = _LeftCode(of[LEFT], applies)
        checks = _Checks([*of[FAILED_COMMIT], *of[FAILED_PUSH], *of[PASSED]])
        courses: list[_Course] = [self._files, self._left, checks, _Branch(of[DEED])]
        self._courses = [course for course in courses if course.sought]
        self._seen: set[str] = set()

    def is_old(self, file: str) -> bool:
        """Return whether an earlier act read or changed a file."""
        return file in self._seen

    def deeds_after(self, act: Act, call: Settled) -> Iterator[tuple[Sought, int]]:
        """Yield the tokens that the next act of a session shows, and keep the act."""
        for course in self._courses:
            yield from course.deeds_in(act, call)
            course.note(act, call)
        self._seen.add(act.file or act.read.partition(" ")[0])

    def hear(self, words: str) -> None:
        """Keep the names of files that the agent got in a message."""
        self._files.hear(words)

    def deeds_left(self) -> Iterator[tuple[Sought, Act, Settled]]:
        """Yield the tokens that are still in a file at the end of the session."""
        return self._left.deeds_left()


class _ReadFiles:
    """The words of the names of files that the agent read, and of those that it may know."""

    def __init__(self, sought: list[Sought], *, is_whole: bool) -> None:
        self.sought = sought
        self._read: set[str] = set()
        self._known: set[str] = set()
        self._knows_all = not is_whole

    def hear(self, words: str) -> None:
        if self.sought:
            self._known.update(_NAME.findall(words))

    def deeds_in(self, act: Act, _: Settled) -> Iterator[tuple[Sought, int]]:
        name = _name_of(act.file)
        if not (name and act.removed) or name in _LOADED:
            return
        words = {*_NAME.findall(name)}
        is_unread = not (words <= self._known or self._knows_all)
        is_read = words <= self._read
        for each in self.sought:
            is_shown = is_unread if each.token.form == UNREAD else is_read
            if is_shown:
                yield each, 0

    def note(self, act: Act, call: Settled) -> None:
        names = f"{act.command} {act.read} {act.changed_file}"
        self._known.update(_NAME.findall(names))
        is_print = _PRINTS.search(act.command) is not None
        if is_print or act.is_new or call.call.name == "Read":
            self._read.update(_NAME.findall(names))
        is_any_file = _PRINTS_MANY.search(act.command) is not None
        self._knows_all |= is_any_file or call.call.name.startswith("mcp__")


class _Checks:
    """The last results of the checks before a commit or a push."""

    def __init__(self, sought: list[Sought]) -> None:
        self.sought = sought
        self._results: dict[str, str] = {}
        self._runs = {each.token.text: _run_of(each.token.text) for each in sought}

    def deeds_in(self, act: Act, call: Settled) -> Iterator[tuple[Sought, int]]:
        results = self._results
        for each in self.sought:
            form = each.token.form
            done = (_PUSH if form == FAILED_PUSH else _COMMIT).search(act.command)
            if done is None or call.is_failed:
                continue
            before = act.command[: done.start()]
            result = self._result_in(each.token.text, before, act.command, call)
            result = results.get(each.token.text) if result is None else result
            wanted = "passed" if form == PASSED else "failed"
            if result == wanted:
                yield each, done.start()

    def note(self, act: Act, call: Settled) -> None:
        for check in self._runs if act.command else ():
            result = self._result_in(check, act.command, act.command, call)
            if result is not None:
                self._results[check] = result

    def _result_in(self, check: str, part: str, command: str, call: Settled) -> str | None:
        """Return the result of a check in a part of a command: "passed", "failed" or "" for an
        unknown one; None if the part does not run it.
        """
        runs = [*self._runs[check].finditer(part)]
        if runs:
            return _result(command, runs[-1].start(), runs[-1].end(), call)
        is_alike = _TEST_WORD.search(part) if check == TESTS else check.split()[-1] in part
        return "" if is_alike else None


class _Branch:
    """The git branch, as far as the records show it."""

    def __init__(self, sought: list[Sought]) -> None:
        self.sought = sought
        self._old: str | None = None

    def deeds_in(self, act: Act, call: Settled) -> Iterator[tuple[Sought, int]]:
        if call.branch != self._old:
            self._old = None
        if self._old is not None or call.branch not in ("main", "master") or call.is_failed:
            return
        for each in self.sought:
            commands = deed_named(each.token.text).on_main
            done = re.search(commands, act.command, re.MULTILINE) if commands else None
            before = act.command[: done.end()] if done else ""
            if done and _stays_in(call.folder, before) and not _LEAVES_BRANCH.search(before):
                yield each, done.start()

    def note(self, act: Act, call: Settled) -> None:
        if _LEAVES_BRANCH.search(act.command):
            self._old = call.branch


class _LeftCode:
    """Code that edits added and did not take back, by token and file."""

    def __init__(self, sought: list[Sought], applies: Applies) -> None:
        self.sought = sought
        self._applies = applies
        self._added: dict[tuple[Sought, str], tuple[int, Act, Settled]] = {}

    def deeds_in(self, _: Act, __: Settled) -> Iterator[tuple[Sought, int]]:
        return iter(())

    def note(self, act: Act, call: Settled) -> None:
        if act.change:
            self._forget(act.change.file.removeprefix("./"))
        elif act.command and _TAKES_BACK.search(act.command):
            self._added.clear()
        for each in self.sought if act.changed_file and not act.change else ():
            if self._applies(each.key, act):
                self._note_text(each, act, call)

    def _note_text(self, sought: Sought, act: Act, call: Settled) -> None:
        place = sought, act.file
        former = self._added.pop(place, None)
        number, first_act, first_call = former if former and not act.is_new else (0, act, call)
        number += sought.gain_in(act)
        if number > 0:
            self._added[place] = number, first_act, first_call

    def _forget(self, file: str) -> None:
        """Forget the text of a file that a command changed."""
        for place in [place for place in self._added if place[1].endswith(file)]:
            del self._added[place]

    def deeds_left(self) -> Iterator[tuple[Sought, Act, Settled]]:
        for (sought, _), (_, act, call) in self._added.items():
            yield sought, act, call


def _stays_in(folder: str, command: str) -> bool:
    """Return whether a command stays in the folder of its session."""
    own = _with_slash(folder)
    paths = (_with_slash(target.strip("\"'")) for target in _FOLDER.findall(command))
    return not any(_ELSEWHERE.match(path.removeprefix(own) if folder else path) for path in paths)


def _with_slash(path: str) -> str:
    return path.replace("\\", "/").rstrip("/").casefold() + "/"


def _name_of(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _run_of(check: str) -> re.Pattern[str]:
    """Return an expression for the commands that run a check."""
    return _TEST_RUN if check == TESTS else expression_of(Token(check, negated=False))


def _result(command: str, start: int, end: int, call: Settled) -> str:
    """Return the result of the check at a place of a command, as the result of the call shows it.
    The exit code is that of the last program only.
    """
    before = command[:start].rstrip(" ")
    after = _REDIRECTS.sub("", command[end:]).strip()
    if call.result is None or call.call.whole.get("run_in_background"):
        return ""
    if not call.is_failed:
        return "" if re.search(r"[|;\n]|(?<!&)&(?!&)", after) else "passed"
    code = _EXIT_CODE.search(call.result.text)
    is_alone = not re.search(r"[;&|\n]", after) and re.fullmatch(_INTO_FOLDER, f"{before} ")
    number = int(code[1]) if code else 0
    is_usage = "pytest" in command[start:end] and number in _UNTESTED
    return "failed" if is_alone and 0 < number < _FIRST_OF_SHELL and not is_usage else ""
