"""What a person already has: the advice that their agents load in a project, line by line, and the sessions there.

Invariant: nothing of a repository leads outside of it. A file of the project is read where it lies in it; an import
(`@docs/style.md`) is followed below the project and below the agents' own folders of the person, and named where it is
not. A file that the person names is read wherever it is. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reflector.curation.changes import advice_fault
from reflector.curation.watching import Line
from reflector.files import read_bounded
from reflector.locate import AGENT_FILES, agent_folder, agent_folders
from reflector.playbook.admissible import same_words
from reflector.playbook.bullet import Bullet, context_tokens
from reflector.playbook.markdown import load_markdown
from reflector.transcripts.discovery import Found, find_transcripts, project_hash

#: What the agents load in a project besides `AGENT_FILES`, below its folder.
_RULES: Final = (".claude/CLAUDE.md", ".claude/rules/**/*.md", ".github/instructions/**/*.instructions.md")
_MOST_BYTES: Final = 1 << 20
#: As often Claude Code follows an import of an import.
_HOPS: Final = 5
_IMPORT: Final = re.compile(r"(?:^|(?<=\s))@((?:~?/)?[\w.][\w./-]*\.\w+)", re.M)
_CODE: Final = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.M | re.S)


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice of a project's files.

    files     with the tokens of each
    left      what in them is no advice, stands there twice, or is an import that leads out of the project, in words
    """

    lines: tuple[Line, ...]
    files: Mapping[str, int]
    left: tuple[str, ...]


def advice_of(root: Path, named: Sequence[Path] = ()) -> Advice:
    """Return the advice of the files that a person names, else of those that agents load in a project. Each text
    stands once. Raises OSError for a named file that cannot be read."""
    lines: dict[str, Line] = {}
    files: dict[str, int] = {}
    left: list[str] = []
    unfollowed: list[str] = []
    for shown, raw in _texts(root, named, unfollowed):
        text = raw.decode("utf-8-sig", "replace")
        loaded = load_markdown(text, every=True)
        files[shown] = context_tokens(text)
        left += [f"{shown}: {one.removeprefix('left out: ')}" for one in loaded.notes]
        for bullet in sorted(loaded.bullets, key=lambda one: _number(loaded.places[one.name])):
            if what := advice_fault(bullet.text):
                left.append(f"{shown}: {loaded.places[bullet.name]}: {what}")
                continue
            own = None if bullet.name in loaded.named_here else bullet.name
            line = Line(shown, _number(loaded.places[bullet.name]), bullet.section, bullet.text, own)
            first = lines.setdefault(same_words(bullet.text), line)
            if first is not line and first.file == line.file:
                left.append(f"{shown}: line {line.number} repeats line {first.number}")
    return Advice(tuple(lines.values()), files, (*left, *(f"not followed: {one}" for one in unfollowed)))


def exempt(bullets: Iterable[Bullet], root: Path) -> dict[str, str]:
    """Return by name the bullets that no trial can withhold, each with the file that an agent loads by itself, the
    person's CLAUDE.md as well: all words of the bullet stand in a row there, whatever is between them."""
    texts, users = list(_texts(root, (), [])), Path(agent_folder()).expanduser() / "CLAUDE.md"
    with suppress(OSError):
        texts += _texts(root, [users], [])
    plain = [(shown, _in_a_row(raw.decode("utf-8", "replace"))) for shown, raw in texts]
    named = [(one.name, _in_a_row(one.text)) for one in bullets]
    return {name: shown for shown, text in plain for name, words in named if words.strip() and words in text}


def _in_a_row(text: str) -> str:
    return " ".join(["", *re.findall(r"\w+", text.lower()), ""])


def _number(place: str) -> int:
    return int(place.split()[1])


def _texts(root: Path, named: Sequence[Path], unfollowed: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (path as it is shown, content) of each file and of what it imports, each once."""
    inside = [root.resolve(), *(Path(one).resolve() for one in agent_folders())]
    seen: set[Path] = set()
    wanted: list[tuple[Path, int, str]] = []
    if named:
        wanted = [(path.absolute(), 0, "") for path in named]
    else:
        found = [root / name for name in AGENT_FILES] + sorted(path for one in _RULES for path in root.glob(one))
        wanted = [(path, 0, "?") for path in found if path.exists()]
    while wanted:
        path, hops, by = wanted.pop(0)
        real = path.resolve()
        if real in seen:
            continue
        shown = _shown(path, root)
        if by and not any(real.is_relative_to(one) for one in (inside[:1] if by == "?" else inside)):
            unfollowed.append(f"{shown}, a link" if by == "?" else f"@{shown} in {by}")
            continue
        try:
            raw = read_bounded(real, _MOST_BYTES)
        except OSError:
            if not by:
                raise
            if by != "?":
                unfollowed.append(f"@{shown} in {by}, which cannot be read")
            continue
        seen.add(real)
        yield shown, raw
        if hops < _HOPS:
            plain = _CODE.sub("", raw.decode("utf-8", "replace"))
            with suppress(RuntimeError):  # there is no home
                wanted += [(path.parent / Path(one).expanduser(), hops + 1, shown) for one in _IMPORT.findall(plain)]


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def sessions_of(
    root: Path, folders: Iterable[tuple[Path, str]], known: Mapping[tuple[str, int], str], since: float
) -> list[Found]:
    """Return the transcripts in the agents' folders, newest first, each with its `started_at` as a sortable time.

    folders  with the pattern of the files in it; `known` as for `find_transcripts`
    since    a time before which a file was not written any more
    The files of subagents are left out: their sessions tell what they were for.
    """
    hashes = {project_hash(root): str(root)}
    found: list[tuple[float, Found]] = []
    for folder, pattern in folders:
        for one in find_transcripts(folder, pattern, known) if folder.is_dir() else ():
            with suppress(OSError):
                at = one.path.stat().st_mtime
                if at >= since and not one.path.name.startswith("agent-") and one.path.parent.name != "subagents":
                    found.append((at, replace(one, cwd=hashes.get(one.cwd, one.cwd))))
    return [one for _, one in sorted(found, key=lambda pair: (-pair[0], str(pair[1].path)))]
