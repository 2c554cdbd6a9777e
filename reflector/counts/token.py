"""A token of a rule: a command, a path, an option or an identifier.

Invariant: a token depends on its rule's text alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from reflector.counts import subjects
from reflector.counts.deeds import Deed, deed_named
from reflector.counts.forms import (
    BARE,
    COMMANDS,
    DEED,
    FAILED_COMMIT,
    FAILED_PUSH,
    FILE,
    IMPORT,
    NEW_FILE,
    NEW_TEST,
    PASSED,
    PROGRAM,
    READ,
    READ_FIRST,
    SCRIPT,
    STAGED,
    SUPPRESSED,
    UNREAD,
    VERSIONS,
    WITH,
    WITHOUT,
)
from reflector.counts.spellings import has_spellings, versions_of
from reflector.text.lazy import lazy_pattern

PATH = (
    r"(?:[\w.*@-]+/)+(?:[\w*@-]*\.[\w*]+|(?![\w*]))|\*\.\w+"
    r"|(?![A-Z]\w*\.js\b)[\w-]+(?:\.[\w-]+)*\.(?:py|[jt]sx?|rs|go|md|json|ya?ml|toml|sh|sql|s?css"
    r"|html|proto|prisma|graphql|tf|lock|txt|vue|svelte|java|kt|rb|php|cs|swift)\b"
    r"|(?<!\w)\.env(?:\.[a-z]+)?\b"
)
_WORD = lazy_pattern(r"\w+")
#: Programs that a shell runs. A rule about one is about commands, not about code.
PROGRAMS = frozenset(
    "alembic apt awk brew bun bundle bunx cargo cat cmake conda cp curl deno docker"
    " docker-compose dotnet eslint find flake8 gh git go gradle grep helm hg jest jq just kubectl"
    " less ls make mise mocha mv mvn mypy node nox npm npx nvm perl php pip pip3 pipenv pipx pnpm"
    " podman poetry prettier psql pylint pytest python python2 python3 rake rg rm rsync ruby ruff"
    " rustc sed ssh sudo svn tail task tee terraform tox tsc tsx uv uvx vitest wget yarn".split()
)
#: First words of code that looks like a command, as in `pub use`.
KEYWORDS = frozenset(
    "abstract as assert async await case catch class const def delete elif else enum except export"
    " extends fn for from func if impl import in insert interface is let match mod mut new not or"
    " private protected pub public raise record return select static struct switch throw trait try"
    " type update use var while with yield".split()
)
#: The names of tokens on a page by their form, with a name of their text.
_SHOWN = {
    BARE: "{} without arguments",
    FAILED_COMMIT: "committed after {} failed",
    FAILED_PUSH: "pushed after {} failed",
    FILE: "changed {}",
    IMPORT: "wrote an import in a function",
    NEW_FILE: "created a new file {}",
    NEW_TEST: "created a new test {}",
    PASSED: "committed after {} passed",
    READ: "read {}",
    READ_FIRST: "read a file before the edit",
    STAGED: "staged {}",
    SUPPRESSED: "suppressed {}",
    UNREAD: "edited a file without reading it first",
}


class Token(NamedTuple):
    """A token of a rule.

    text      as a call contains it; for a pattern such as `*.ts`, the pattern
    negated   whether the rule speaks against it
    scope     "place", "purpose" or "condition" if it only shows where, why or when the rule
              applies, "mention" if the rule does not ask for it, "part" if the token alone does not
              show whether the rule was broken
    form      "before a file" if only a command with a file shows it, "script" and "program" for
              those to run, "deed" for each act of a kind, such as a push with force, "file" if only
              a change of such a file shows it, "new file" and "new test" for one to create, "name"
              if only a definition with such a name shows it, "import" for an import inside a
              function, "read" or "staged" for a file that is read or added to a commit,
              "suppressed" for a check that a comment or a setting suppresses, "any version" for
              each version of a program, "bare" for a command without arguments, "with an option"
              and "without an option" for a command of which the last word is such an option, and
              those of `subjects` for messages of commits; "" for other tokens
    """

    text: str
    negated: bool
    scope: str = ""
    form: str = ""

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern of files instead of a text."""
        return "*" in self.text and " " not in self.text

    @property
    def is_path(self) -> bool:
        """Whether it names a file or a folder."""
        return (
            " " not in self.text
            and self.form != SCRIPT
            and re.fullmatch(rf"(?:\.{{0,2}}/)?(?:{PATH})", self.text) is not None
        )

    @property
    def is_run(self) -> bool:
        """Whether a command with it is an act, not only a command about a file."""
        return not self.is_path or self.form in (READ, STAGED)

    @property
    def is_command(self) -> bool:
        """Whether it is a command with its arguments, such as `make lint`."""
        if self.form not in ("", VERSIONS):
            return self.form in (*COMMANDS, PROGRAM)
        is_code = self.text.partition(" ")[0] in KEYWORDS
        return (
            not is_code
            and re.match(r"\.?/?(?:[\w.-]+/)*[a-z][\w.-]* +(?![<>:!=]*= )[^\s<>]", self.text)
            is not None
        )

    @property
    def shown(self) -> str:
        """Its text as a page shows it."""
        if self.form in subjects.FORMS:
            return subjects.shown(self.form, self.text)
        if deed := self._deed:
            return deed.shown
        name = "tests" if self.text == "tests" else f"`{self.text}`"
        if self.form == WITHOUT:
            command, _, option = self.text.rpartition(" ")
            name = f"`{command}` without `{option}`"
        elif self.form == FILE and self.text.endswith("/"):
            name = f"files in {name}"
        elif self.form in (NEW_FILE, NEW_TEST) and self.text.endswith("/"):
            name = f"in {name}"
        return _SHOWN.get(self.form, "{}").format(name)

    @property
    def needs_branch(self) -> bool:
        """Whether it is an act that also depends on the branch, such as a commit on `main`."""
        return self._deed is not None and self._deed.on_main != ""

    @property
    def _deed(self) -> Deed | None:
        return deed_named(self.text) if self.form == DEED else None

    @property
    def anchors(self) -> tuple[str, ...]:
        """Words of which each call with the token contains one."""
        if deed := self._deed:
            return deed.words
        if self.form == VERSIONS:
            return versions_of(self.text.partition(" ")[0])
        if self.form in (WITH, WITHOUT) or (self.is_command and has_spellings(self.text)):
            return (_WORD.findall(self.text)[0],)
        return (max(_WORD.findall(self.text), key=len),)

    @property
    def is_plain(self) -> bool:
        """Whether it is written like an English word, such as `checkout`."""
        return self.form != DEED and re.fullmatch(r"[a-z][a-z\d]*", self.text) is not None

    @property
    def is_name(self) -> bool:
        """Whether it is a name in code, such as `cache_dir`, `readFile` or `print(`."""
        name = r"(?=\w*_|\w*[a-z][A-Z]|[\w.]*\()[A-Za-z_][\w.]*\(?"
        return self.form == "" and re.fullmatch(name, self.text) is not None

    @property
    def is_option(self) -> bool:
        """Whether it is an option of a command, such as `--force`."""
        return self.text.startswith("-")

    @property
    def is_program(self) -> bool:
        """Whether it is the name of a program, such as `npm`."""
        return self.text in PROGRAMS

    @property
    def is_distinct(self) -> bool:
        """Whether its words rarely mean something else."""
        return not self.is_path and re.search(r"[ _.:-]|[a-z][A-Z]|\(\)", self.text) is not None
