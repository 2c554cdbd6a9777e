"""The files that a command of a shell changes: edits in place, outputs into files, moves.

Invariant: only a file that the command names counts, and only if a well-known program changes it.
The output of another program may be generated, so it does not count. Scratch files never count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reflector.text.lazy import lazy_pattern

_STRINGS = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'"
_LEXEME = lazy_pattern(
    r"(?P<into>\d?>{1,2}\|?)|(?P<end>\n|[;&|()<]+)"
    rf"|(?P<word>(?:[^\s;&|()<>\"'\\]|\\.|{_STRINGS})+)",
    re.DOTALL,
)
_QUOTES = lazy_pattern(rf"(?P<string>{_STRINGS})|\\(?P<sign>.)", re.DOTALL)
_MAY_CHANGE = lazy_pattern(r">|\b(?:sed|perl|tee|mv|cp|rm)\b")
#: Words before a program.
_BEFORE_PROGRAM = lazy_pattern(
    r"\w+=.*|sudo|env|time|nohup|exec|command|then|do|else|if|!|\{", re.S
)
#: Programs that only pass on a text that the agent wrote or a file contains.
_PASSING_ON = frozenset(
    ": echo printf cat sed awk gawk perl tee head tail grep egrep rg sort uniq cut tr jq yq".split()
)
#: Files of no project, and names that only the shell knows.
_SCRATCH = lazy_pattern(r"/(?:private/)?(?:tmp|dev|var|proc)(?:/|\Z)|.*[$`]|~|-\Z|\Z", re.DOTALL)
_BACKUP = lazy_pattern(r"\.(?:bak|orig|old|backup)\Z")


class Change(NamedTuple):
    """A change to a file. `is_gone` is true if the command removes or moves the file."""

    file: str
    is_gone: bool = False


class _Part(NamedTuple):
    """One program of a pipeline, with its arguments, and the files into which its output goes."""

    program: str
    arguments: list[str]
    outputs: list[str]


def changes_in(command: str) -> Iterator[Change]:
    """Yield the changes to files in a command without the texts that it contains."""
    if not _MAY_CHANGE.search(command):
        return
    for pipeline in _pipelines_in(command):
        if any(map(_leaves_project, pipeline)):
            return
        passes_on = all(part.program in _PASSING_ON for part in pipeline)
        for part in pipeline:
            changed_by = _CHANGED_BY.get(part.program)
            changes = list(changed_by(part.arguments)) if changed_by else []
            outputs = [*part.outputs, *(_files_of_tee(part) if part.program == "tee" else ())]
            changes += map(Change, outputs) if passes_on else ()
            yield from (each for each in changes if not _SCRATCH.match(each.file))


def _pipelines_in(command: str) -> Iterator[list[_Part]]:
    pipeline: list[_Part] = []
    words: list[str] = []
    outputs: list[str] = []
    into = ""
    for lexeme in _LEXEME.finditer(f"{command}\n"):
        if lexeme["word"]:
            word = _QUOTES.sub(_unquoted, lexeme["word"])
            if not into:
                words.append(word)
            elif not into.startswith("2"):
                outputs.append(word)
            into = ""
        elif lexeme["into"]:
            into = lexeme["into"]
        elif not lexeme["end"].startswith("<"):
            if words or outputs:
                pipeline.append(_part_of(words, outputs))
            if lexeme["end"] not in ("|", "|&"):
                yield pipeline
                pipeline = []
            words, outputs, into = [], [], ""


def _unquoted(text: re.Match[str]) -> str:
    return text["string"][1:-1] if text["string"] else text["sign"]


def _part_of(words: Sequence[str], outputs: list[str]) -> _Part:
    named = list(words)
    while named and _BEFORE_PROGRAM.fullmatch(named[0]):
        del named[0]
    program = named[0].rpartition("/")[2] if named else ":"
    return _Part(program, named[1:], outputs)


def _leaves_project(part: _Part) -> bool:
    """Return whether the files of later parts are outside of the project."""
    return part.program == "cd" and _SCRATCH.match((part.arguments or ["~"])[-1]) is not None


def _files_of_tee(part: _Part) -> list[str]:
    return [word for word in part.arguments if not word.startswith("-")]


def _by_sed(arguments: Sequence[str]) -> Iterator[Change]:
    is_in_place = any(re.match(r"-[nErsuz]*i|--in-place", word) for word in arguments)
    files, has_script = _after_scripts(arguments, r"-[nErsuz]*[ef]|--expression|--file")
    if is_in_place:
        yield from map(Change, files if has_script else files[1:])


def _by_perl(arguments: Sequence[str]) -> Iterator[Change]:
    is_in_place = any(re.match(r"-(?![MIm])[\w.]*i", word) for word in arguments)
    files, has_script = _after_scripts(arguments, r"-(?![MIm])[\w.]*[eE]")
    if is_in_place and has_script:
        yield from map(Change, files)


def _after_scripts(arguments: Sequence[str], option: str) -> tuple[list[str], bool]:
    """Return the arguments that are neither options nor scripts, and whether an option has a
    script.

    option  an expression for an option that a script follows
    """
    others: list[str] = []
    is_script = has_script = False
    for word in arguments:
        if is_script:
            is_script = False
        elif re.fullmatch(option, word):
            is_script = has_script = True
        elif re.match(r"--expression=|-e.", word):
            has_script = True
        elif word and not word.startswith("-"):
            others.append(word)
    return others, has_script


def _by_copy(arguments: Sequence[str]) -> Iterator[Change]:
    *sources, target = [word for word in arguments if not word.startswith("-")] or [""]
    if not sources or _is_restored(sources, target):
        return
    is_folder = target.endswith("/") or len(sources) > 1
    for source in sources:
        name = source.rstrip("/").rpartition("/")[2]
        yield Change(f"{target.rstrip('/')}/{name}" if is_folder else target)


def _is_restored(sources: Sequence[str], target: str) -> bool:
    """Return whether a file only gets the text of its own copy back."""
    return len(sources) == 1 and _BACKUP.sub("", sources[0]) == target


def _by_move(arguments: Sequence[str]) -> Iterator[Change]:
    yield from _by_copy(arguments)
    sources = [word for word in arguments if not word.startswith("-")][:-1]
    yield from (Change(source, is_gone=True) for source in sources)


def _by_removal(arguments: Sequence[str]) -> Iterator[Change]:
    """Yield the removed files. A folder or its files may be removed before a program writes them
    again.
    """
    if not any(re.match(r"-[a-zA-Z]*[rR]|--(?:recursive|cached)", word) for word in arguments):
        files = (word for word in arguments if not re.match(r"-|.*\*", word))
        yield from (Change(file, is_gone=True) for file in files)


def _by_git(arguments: Sequence[str]) -> Iterator[Change]:
    command, *others = arguments or [""]
    changed_by = {"mv": _by_move, "rm": _by_removal}.get(command)
    if changed_by:
        yield from changed_by(others)


_CHANGED_BY: Mapping[str, Callable[[Sequence[str]], Iterator[Change]]] = {
    "cp": _by_copy,
    "git": _by_git,
    "mv": _by_move,
    "perl": _by_perl,
    "rm": _by_removal,
    "sed": _by_sed,
}
