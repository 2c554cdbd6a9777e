"""Finds, checks and fills the prompt templates.

Invariant: a filled-in text is never read as a template. A placeholder is a word in braces, and a
literal brace is doubled, as for `str.format`. The template is filled in one pass, so braces in a
transcript or a bullet are ordinary text. A template without its placeholders is refused before a
judge is asked.

A user's own file replaces the packaged one: `.claude/reflector/prompts/<name>` in the project, then
`reflector/prompts/<name>` in the user's configuration folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from reflector.files import open_ours, open_regular
from reflector.git import GitUnavailable, tracked_below
from reflector.locate import user_settings
from reflector.resources import resource_dir
from reflector.text.lazy import lazy_pattern

#: Placeholders of each template, each exactly once.
PLACEHOLDERS = {
    "playbook.txt": ("key_points",),
    "reflector.txt": ("playbook", "transcript", "cited_ids"),
    "turn.txt": ("user_request", "score", "response", "tool_errors"),
    "revision.txt": ("user_request", "response", "reflection", "how"),
    "step.txt": ("goal", "step_description", "response", "tool_results", "lessons"),
    "improvement.txt": ("goal", "original_response", "issues"),
    "check.txt": ("playbook", "transcript"),
    "learn.txt": (),
}
MAX_TEMPLATE = 256 * 1024
#: The most times that a template may repeat a value, because a value may have megabytes.
_MOST_TIMES = 4
_PART = lazy_pattern(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")


class TemplateError(ValueError):
    """A template that cannot be used; the text names the file, the place and the way out."""


class Template(NamedTuple):
    """A template's text and its path."""

    name: str
    path: Path
    text: str

    @property
    def sha256(self) -> str:
        """Hex digest of the text, by which an answer's event names its template."""
        from hashlib import sha256

        return sha256(self.text.encode()).hexdigest()

    @property
    def asks_for_quotes(self) -> bool:
        """Whether its answer format has the key `quote`."""
        return '"quote"' in self.text

    @property
    def is_users(self) -> bool:
        """Whether it is in the user's own folder."""
        return self.path.parent == Path(user_settings(), "prompts")

    def counts_unquoted(self, allowed: Collection[str]) -> bool:
        """Return whether verdicts count without a quote: the template does not ask for quotes, and
        it is the user's own, or the user `allowed` its SHA-256.
        """
        return not self.asks_for_quotes and (self.is_users or self.sha256 in allowed)

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with each placeholder's value in its place."""
        return fill(self.text, values)

    def split(self, values: Mapping[str, str], at: str) -> tuple[str, str]:
        """Return the filled text in two: up to the value of `at`, and from it on."""
        before, after = self.text.split(f"{{{at}}}")
        return fill(before, values), fill(f"{{{at}}}{after}", values)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Return a checked template's text with each placeholder's value in its place."""
    return _PART.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], text)


def load_template(name: str, project: Path | None = None) -> str:
    """Return the text of a prompt template, such as `playbook.txt`: the project's own, the user's,
    or ours. Literal braces in it are doubled.

    Raises: TemplateError.
    """
    return find_template(name, project).text


def find_template(name: str, project: Path | None = None) -> Template:
    """Return the template in force, checked.

    Raises: TemplateError.
    """
    if name not in PLACEHOLDERS:
        raise TemplateError(
            f"{name!r} is not a prompt template; the templates are {', '.join(PLACEHOLDERS)}"
        )
    return find_own(name, project) or read_template(name, resource_dir("prompts") / name)


def find_own(
    name: str, project: Path | None = None, known: Collection[str] = ()
) -> Template | None:
    """Return the template with which the user replaced ours, checked; None without one. `known` are
    the placeholders of a template that need not contain each of them once.

    Raises: TemplateError.
    """
    own = project / ".claude" / "reflector" / "prompts" / name if project is not None else None
    # A folder or a dead link in a template's place is an error, not the absence of one.
    if own is None or not os.path.lexists(own):
        users = Path(user_settings(), "prompts", name)
        return read_template(name, users, known=known) if os.path.lexists(users) else None
    # A template that came with its repository would act in the user's name.
    try:
        tracked = tracked_below(own)
    except GitUnavailable as error:
        raise TemplateError(
            f"{own}: git did not answer ({error}), so reflector cannot check who wrote this "
            "template"
        ) from None
    if tracked is not None:
        raise TemplateError(
            f"{own} is tracked by git, so this file came with the repository. Read the template; "
            f"to use this template, run: git rm --cached {tracked}"
        )
    return read_template(name, own, opener=open_ours, known=known)


def read_template(
    name: str,
    path: Path,
    *,
    opener: Callable[[Path], BinaryIO] = open_regular,
    known: Collection[str] = (),
) -> Template:
    """Return the template `name` from a file, checked; `known` as in `find_own`.

    Raises: TemplateError.
    """
    try:
        with opener(path) as file:
            raw = file.read(MAX_TEMPLATE + 1)
    except OSError as error:
        raise TemplateError(
            f"{path}: reflector cannot read the template ({error.strerror}); correct or remove "
            "this file"
        ) from None
    if len(raw) > MAX_TEMPLATE:
        raise TemplateError(
            f"{path}: the template is longer than {MAX_TEMPLATE // 1024} KiB; shorten it"
        )
    try:
        # An editor's mark at the beginning is not part of the prompt.
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TemplateError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        ) from None
    wanted = known or PLACEHOLDERS[name]
    used: list[str] = []
    for match in _PART.finditer(text):
        if match[1] in wanted:
            used.append(match[1])
        elif match[0] not in ("{{", "}}"):
            line = text.count("\n", 0, match.start()) + 1
            names = ", ".join(f"{{{placeholder}}}" for placeholder in wanted)
            way_out = f"write {{{{ and }}}} for braces, or use {names}"
            raise TemplateError(
                f"{path}, line {line}: {match[0]!r} is not a placeholder; {way_out}"
            )
    for placeholder in wanted:
        count = used.count(placeholder)
        is_wrong = count > _MOST_TIMES if known else count != 1
        if is_wrong:
            times = "is missing" if not count else f"appears {count} times"
            often = f"at most {_MOST_TIMES} times" if known else "once"
            raise TemplateError(
                f"{path}: the placeholder {{{placeholder}}} {times}; it must appear {often}"
            )
    return Template(name, path, text)


def listed(texts: Iterable[str]) -> str:
    """Return the texts as a list of a prompt."""
    return "\n".join(f"- {text}" for text in texts) or "none"
