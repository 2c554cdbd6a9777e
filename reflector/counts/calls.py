"""The commands that an agent's calls run, and the text that they add to files.

Invariant: text that an edit removes or keeps is not added text. So an edit that removes a forbidden
word is not counted against the rule. A call that you refused does not count.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from reflector.counts.changes import Change, changes_in
from reflector.counts.shell import BEGIN, OPTIONS
from reflector.text.lazy import lazy_pattern
from reflector.transcripts.building import fields, objects, plain_text
from reflector.transcripts.message import Message, ToolCall, ToolResult

_SHELLS = frozenset(("Bash", "PowerShell", "Shell"))
_EDITORS = frozenset(("Edit", "MultiEdit", "Write", "NotebookEdit"))
_ADDED = ("new_string", "newText", "content", "new_source")
_REMOVED = ("old_string", "oldText")
_PATCHES = ("input", "patch")
_FILES = ("file_path", "notebook_path", "path")
_READ = ("file_path", "path", "pattern", "glob", "skill")
_HEREDOC = lazy_pattern(
    r"^(?P<line>.*<<-?\s*(['\"]?)(?P<end>\w+)\2.*)\n(?P<body>(?s:.*?))^\s*(?P=end)\b", re.M
)
_INTO_FILE = lazy_pattern(
    r"(?<![<>&\d-])>{1,2}\s*(?P<file>[\w./~$-]+)|\btee (?:-a )?(?P<tee>[\w./~$-]+)"
)
#: A string of a shell, and a command that contains words for people, such as the message of a
#: commit.
_STRING = r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*')(?:\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*')*"
_WRITING = lazy_pattern(rf"\b(?:git|gh|glab|hg) (?:\\.|{_STRING}|[^;&|\n\"'\\])*", re.DOTALL)
_WORDS = lazy_pattern(
    rf"(?P<option>\s(?:-[a-z]*m|--message|--body|--title|--notes)[ =]?|\bbody=){_STRING}", re.DOTALL
)
#: Commands that print or search for text, with their arguments. What they name is not run.
_ARGUMENTS = rf"(?P<arguments>(?:\\.|{_STRING}|[^;&|\n\"'\\])*)"
_NAMING = lazy_pattern(
    rf"(?P<program>(?:{BEGIN})(?:(?P<prints>echo|printf)|rg|[ef]?grep|ag|ack"
    rf"|git{OPTIONS} +(?:grep|log))(?=\s)){_ARGUMENTS}",
    re.MULTILINE | re.DOTALL,
)
_MAY_NAME = lazy_pattern(r"\b(?:echo|printf|rg|[ef]?grep|ag|ack|log)\s")
#: The text that a search names: a string, the value of an option, or the words after `--`.
_SOUGHT = lazy_pattern(rf"{_STRING}|(?<=\s--grep=)\S+|(?<=\s--\s).*", re.DOTALL)
_PRINTED = lazy_pattern(r"\A[^>]+")
_COMMITS = lazy_pattern(rf"\bgit{OPTIONS} +commit(?![\w-])")
#: The beginning of words that a text of the shell contains, as in `-m "$(cat <<'EOF'`.
_INTO_WORDS = lazy_pattern(r"\A\$\(cat <<-?\s*(['\"]?)\w+\1")
_COMMENT = lazy_pattern(r"^[ \t]*#.*", re.MULTILINE)
#: Files of the agent's own, outside of the project.
_SCRATCH = lazy_pattern(r"^/(?:private/)?tmp/[^/]+$|[/\\](?:Temp|scratchpad)[/\\]")
#: The most calls that wait for their results.
_MOST_WAITING = 64
_PATCH = "*** Begin Patch"
_PATCHED_FILE = lazy_pattern(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.M)


class Act(NamedTuple):
    """A command that a call runs, or its change of one file.

    command  "" for a change to a file
    file     its path, "" if it is not known
    read     words of a call that only reads, such as the path of a file
    commit   a command with the messages of its commits. It has an act of its own
    change   a file that a command changes or removes, as its act of its own
    is_new   whether the call may create the file
    """

    command: str = ""
    file: str = ""
    added: str = ""
    removed: str = ""
    read: str = ""
    commit: str = ""
    change: Change | None = None
    is_new: bool = False

    @property
    def changed_file(self) -> str:
        """The path of the file that it changes, "" for none and for a scratch file."""
        file = self.change.file if self.change else self.file
        return "" if _SCRATCH.search(file) else file


class Settled(NamedTuple):
    """A call that you did not refuse.

    result  None if the transcript does not contain it
    branch  the git branch before the call, and the folder; "" if they are unknown
    """

    call: ToolCall
    result: ToolResult | None = None
    branch: str = ""
    folder: str = ""

    @property
    def is_failed(self) -> bool:
        """Whether its result reports an error."""
        return self.result is not None and self.result.is_error

    def acts(self) -> Iterator[Act]:
        """Yield its commands and changes to files. An edit that failed changes nothing."""
        if self.is_failed and self.call.name in _EDITORS:
            return
        former = self.result.former if self.result and self.call.name == "Write" else None
        for act in acts_of(self.call):
            yield act if former is None else act._replace(removed=former, is_new=False)


@dataclass(slots=True)
class _Asked:
    """A call, and whether its result or the end of the waiting settled it."""

    call: ToolCall
    branch: str
    folder: str
    result: ToolResult | None = None
    is_settled: bool = False
    is_refused: bool = False


class Waiting:
    """Calls in their order until their results show whether you refused them."""

    def __init__(self) -> None:
        self._calls: deque[_Asked] = deque()

    def settled_after(self, message: Message) -> Iterator[Settled]:
        """Yield the calls that are settled after a message."""
        for result in message.results:
            for asked in self._calls:
                if asked.call.id == result.call_id and not asked.is_settled:
                    asked.is_settled = True
                    asked.result = result
                    asked.is_refused = message.origin == "refusal" and result.is_error
                    break
        if message.origin == "model":
            self._calls.extend(
                _Asked(call, message.branch, message.folder) for call in message.calls
            )
        while self._calls and (self._calls[0].is_settled or len(self._calls) > _MOST_WAITING):
            yield from self._next()

    def settled_at_end(self) -> Iterator[Settled]:
        """Yield the calls that have no result."""
        while self._calls:
            yield from self._next()

    def _next(self) -> Iterator[Settled]:
        asked = self._calls.popleft()
        if not asked.is_refused:
            yield Settled(asked.call, asked.result, asked.branch, asked.folder)


def acts_of(call: ToolCall) -> Iterator[Act]:
    """Yield the commands and changes to files of a call."""
    if call.name in _SHELLS:
        yield from _acts_of_shell(plain_text(call.whole.get("command")))
    elif call.name in _EDITORS:
        yield from _acts_of_editor(call.whole, is_new=call.name == "Write")
    else:
        yield Act(read=" ".join(plain_text(call.whole.get(name)) for name in _READ))


def _acts_of_shell(command: str) -> Iterator[Act]:
    """Yield a command without the texts in it, and the texts that it writes into files."""
    without_texts = _HEREDOC.sub(r"\g<line>", command) if "<<" in command else command
    without_words = _with_words(without_texts, lambda words: f'{words["option"]}"…"')
    if _MAY_NAME.search(without_words):
        without_words = _NAMING.sub(_without_named_text, without_words)
    yield Act(without_words)
    yield from (Act(change=change) for change in changes_in(without_words))
    if " commit" in command:
        yield Act(commit=command)
    for text in _HEREDOC.finditer(command):
        target = _INTO_FILE.search(text["line"])
        if _PATCH in text["body"]:
            yield from _acts_of_patch(text["body"])
        elif target:
            is_new = ">>" not in target[0] and " -a" not in target[0]
            yield Act(file=target["file"] or target["tee"], added=text["body"], is_new=is_new)


def _without_named_text(naming: re.Match[str]) -> str:
    """Return a command without the text that it prints or searches for, in as many lines."""
    if "$(" in naming["arguments"]:
        return naming[0]
    named = _PRINTED if naming["prints"] else _SOUGHT
    shown = named.sub(lambda text: " …" + "\n" * text[0].count("\n"), naming["arguments"])
    return f"{naming['program']}{shown}"


def messages_in(command: str) -> Iterator[str]:
    """Yield the messages of the commits in a command. A paragraph follows each further `-m`."""
    for writing in _WRITING.finditer(_HEREDOC.sub(_with_body, command)):
        words = [text[0].removeprefix(text["option"]) for text in _WORDS.finditer(writing[0])]
        if _COMMITS.match(writing[0]) and words:
            paragraphs = (_INTO_WORDS.sub("", text.strip("\"'")).strip() for text in words)
            yield "\n\n".join(paragraphs)


def _with_body(text: re.Match[str]) -> str:
    """Return the line of a commit with the text that follows it as its message."""
    line = text["line"].partition("<<")[0].removesuffix("$(cat ").rstrip(" \"'")
    body = text["body"].replace("'", "’").strip()
    option = re.compile(r"(?: -F *-| --file[= ]-| -m| -\w*m| --message=?)\Z")
    return f"{option.sub('', line)} -m '{body}'" if _COMMITS.search(line) else ""


def readable(command: str) -> str:
    """Return a command as it is shown, line by line as in its act. Each text in it has only its
    first line, such as the subject of a commit.
    """
    return _with_words(_HEREDOC.sub(_with_first_line, command), _first_line)


def _with_first_line(text: re.Match[str]) -> str:
    subject = text["body"].strip().partition("\n")[0] if "$(" in text["line"] else ""
    shown = subject.replace('"', "")
    return f"{text['line']} {shown}".rstrip()


def _first_line(words: re.Match[str]) -> str:
    written = words[0].removeprefix(words["option"]).strip("\"'")
    subject = _INTO_WORDS.sub("", written).strip().partition("\n")[0]
    return f'{words["option"]}"{subject}"'


def _with_words(command: str, shown: Callable[[re.Match[str]], str]) -> str:
    """Return a command without its comments. Its words for people, such as the message of a commit,
    are replaced by `shown`, because they run nothing.
    """
    if "#" in command:
        command = _COMMENT.sub("", command)
    if "'" not in command and '"' not in command:
        return command
    return _WRITING.sub(lambda writing: _WORDS.sub(shown, writing[0]), command)


def _acts_of_editor(arguments: Mapping[str, Any], *, is_new: bool) -> Iterator[Act]:
    file = _first_text(arguments, _FILES)
    patch = _first_text(arguments, _PATCHES)
    if _PATCH in patch:
        yield from _acts_of_patch(patch)
        return
    for edit in objects(arguments.get("edits")) or [fields(arguments)]:
        added, removed = _first_text(edit, _ADDED), _first_text(edit, _REMOVED)
        yield Act(file=file, added=added, removed=removed, is_new=is_new)


def _acts_of_patch(patch: str) -> Iterator[Act]:
    """Yield the changes to files in a patch as Codex CLI writes it."""
    _, *parts = _PATCHED_FILE.split(patch)
    for deed, file, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = body.splitlines()
        added = [line[1:] for line in lines if line.startswith("+")]
        removed = [line[1:] for line in lines if line.startswith("-")]
        text, former = "\n".join(added), "\n".join(removed)
        yield Act(file=file, added=text, removed=former, is_new=deed == "Add")


def _first_text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next(filter(None, (plain_text(arguments.get(name)) for name in names)), "")
