"""The spellings of a command: short and long options in any order, and short names of programs and
their commands.

Invariant: only well-known spellings are in the tables. Another option has its own spelling only.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class _Options(NamedTuple):
    """The options of a command.

    long    the long name of each letter
    valued  the letters that may have their value directly after them, as in `-mfix`
    """

    long: dict[str, str]
    valued: str = ""


def _options(names: str, valued: str = "") -> _Options:
    return _Options({name[0]: name[2:] for name in names.split()}, valued)


_INSTALLING = _options("g=global D=save-dev E=save-exact f=force")
_OPTIONS = {
    "curl": _options("k=insecure L=location s=silent f=fail i=include", "dHXobAuFeTxmw"),
    "git add": _options("A=all f=force u=update p=patch n=dry-run"),
    "git branch": _options("d=delete f=force m=move r=remotes"),
    "git clean": _options("f=force n=dry-run", "e"),
    "git commit": _options("a=all n=no-verify s=signoff e=edit p=patch", "mFCcStu"),
    "git push": _options("d=delete f=force n=dry-run u=set-upstream", "o"),
    "git rebase": _options("i=interactive r=rebase-merges x=exec", "sX"),
    "grep": _options(
        "r=recursive R=recursive i=ignore-case n=line-number l=files-with-matches v=invert-match"
        " w=word-regexp c=count E=extended-regexp F=fixed-strings P=perl-regexp",
        "ABCDdefm",
    ),
    "npm install": _INSTALLING,
    "pnpm install": _INSTALLING,
    "pytest": _options("x=exitfirst v=verbose q=quiet", "knmpcor"),
    "rm": _options("r=recursive R=recursive f=force i=interactive v=verbose"),
    "sed": _options("i=in-place n=quiet E=regexp-extended r=regexp-extended", "efl"),
}
#: Other names of the second word of a command.
_ALIASES = {
    "cargo build": "build|b",
    "cargo run": "run|r",
    "cargo test": "test|t",
    "npm install": "install|i|add",
    "npm test": "test|t",
    "pnpm install": "install|i",
    "pnpm test": "test|t",
}
#: Programs with versions in their names, or that another program runs.
_RUNNER = r"(?:(?:npx|bunx|(?:p?npm|yarn)(?: +(?:exec|dlx))?)(?: +-\S+)* +)?"
_VERSIONS = {
    **{name: (_RUNNER + name, (name,)) for name in ("eslint", "jest", "prettier", "tsc", "vitest")},
    "pip": (r"(?:python[\d.]* +-m +)?pip[\d.]*", ("pip", "pip3")),
    "pytest": (r"(?:python[\d.]* +-m +)?pytest", ("pytest",)),
    "python": (r"python[\d.]*", ("python", "python2", "python3")),
}
_ARGUMENTS = r"[^;&|\n]*?\s"


def versions_of(program: str) -> tuple[str, ...]:
    """Return the names of a program with versions; none for another program."""
    return _VERSIONS[program][1] if program in _VERSIONS else ()


def words_of(text: str, *, any_version: bool = False) -> list[str]:
    """Return an expression for each word of a command.

    any_version  whether its program may have a version in its name, such as `pip3`
    """
    words = [re.escape(word) for word in text.split()]
    if alias := _ALIASES.get(" ".join(text.split()[:2])):
        words[1] = f"(?:{alias})"
    if any_version:
        words[0] = _VERSIONS[words[0]][0]
    return words


def has_spellings(text: str) -> bool:
    """Return whether a command may be written in other words."""
    commands = _commands_of(text.split())
    return any(command in _OPTIONS or command in _ALIASES for command in commands)


def with_any_options(text: str, between: str) -> str:
    """Return an expression for a command whose options are in the table, with these options in any
    order and spelling; "" for another command.

    between  an expression for the options between a program and its command
    """
    words = text.split()
    command = next((each for each in _commands_of(words) if each in _OPTIONS), "")
    others = words[len(command.split()) :]
    if not command or not any(word.startswith("-") for word in others):
        return ""
    parts = [_part(_OPTIONS[command], word) for word in others]
    if "" in parts:
        return ""
    begin = rf"{between} +".join(words_of(command))
    return rf"{begin}(?![\w-]){''.join(parts)}"


def option_ahead(command: str, option: str) -> str:
    """Return an expression that looks ahead for an option of a command in each of its spellings."""
    words = command.split()
    known = next((_OPTIONS[each] for each in _commands_of(words) if each in _OPTIONS), None)
    part = _part(known, option) if known else ""
    return part if part.count("(?=") == 1 else rf"(?={_ARGUMENTS}{re.escape(option)}(?![\w-]))"


def _commands_of(words: list[str]) -> list[str]:
    return [" ".join(words[:2]), words[0]]


def _part(options: _Options, word: str) -> str:
    """Return expressions that look ahead for a word of a command; "" for an unknown option."""
    if not word.startswith("-"):
        return rf"(?={_ARGUMENTS}{re.escape(word)}(?![^\s;&|)\"'`]))"
    if word.startswith("--"):
        return _ahead(options, word[2:]) if word[2:] in options.long.values() else ""
    names = [options.long.get(letter, "") for letter in word[1:]]
    return "".join(_ahead(options, name) for name in names) if all(names) else ""


def _ahead(options: _Options, name: str) -> str:
    """Return an expression that looks ahead for an option. A cluster ends at a letter with a
    value.
    """
    letters = "".join(letter for letter, long in options.long.items() if long == name)
    before = rf"[^\W\d_{options.valued}]" if options.valued else r"[^\W\d_]"
    return rf"(?={_ARGUMENTS}(?:--{name}(?![\w-])|-{before}*[{letters}]))"
