"""playbook.json in git: whether several clones share it, its version at HEAD, and the commits that
changed it.

Invariant: git is only read. If git does not answer or is not installed, there is no version of the
file in git.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reflector.files import read_bounded
from reflector.git import git_says
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import entry_text

#: The line of `.claude/.gitattributes` that shares playbook.json. It is committed, so it holds in
#: every clone.
ATTRIBUTES = "playbook.json merge=reflector"
_PATH = ".claude/playbook.json"
_MAX_ATTRIBUTES_BYTES = 1 << 20
_LOG = "log --format=%x00%H:%P -p -U1 --full-history -m --no-color HEAD --"

#: An entry of the file: the line of its name and that of its text.
Entry = tuple[bytes, bytes]


class Version(NamedTuple):
    """A file's version in git's index: its blob's id and its content."""

    blob: str
    content: bytes


class BranchHistory(NamedTuple):
    """The entries of playbook.json that commits of the present branch changed.

    changed   entries that a commit added or removed
    added     the commits that added an entry with its name, without merges
    removed   the commits that removed an entry with its name
    reworded  of an entry with a new text, the entries that it replaced
    texts_lost, texts_added  the commits that removed or reworded a text, and those that added it
    """

    root: Path
    changed: Set[Entry]
    added: Mapping[Entry, Set[str]]
    removed: Mapping[Entry, Set[str]]
    reworded: Mapping[Entry, Set[Entry]]
    texts_lost: Mapping[bytes, Set[str]]
    texts_added: Mapping[bytes, Set[str]]

    def is_back(self, entry: Entry) -> bool:
        """Return whether a commit added an entry after another one had removed it. A branch that
        added the entry beside the removal did not bring it back.
        """
        return self._is_later(self.removed.get(entry, set()), self.added.get(entry, set()))

    def has_lost(self, bullet: Bullet) -> bool:
        """Return whether a commit removed or reworded the text of a bullet, under any name, and no
        later one added it again. A commit that gave the text another name did neither.
        """
        _, text = entry_in_file(bullet)
        losses = self.texts_lost.get(text, set())
        additions = self.texts_added.get(text, set())
        is_back = self._is_later(losses - additions, additions - losses)
        return bool(losses - additions) and not is_back

    def _is_later(self, removals: Set[str], additions: Set[str]) -> bool:
        """Return whether one of these additions came after one of the removals."""
        later = frozenset(additions)
        return bool(later) and any(_is_before(self.root, removal, later) for removal in removals)

    def earlier(self, entry: Entry) -> Set[Entry]:
        """Return the entries from which commits of the branch reworded an entry."""
        earlier: set[Entry] = set()
        waiting = {entry}
        while waiting:
            replaced = self.reworded.get(waiting.pop(), set())
            waiting |= replaced - earlier
            earlier |= replaced
        return earlier


def attributes_file(root: Path) -> Path:
    """Return the path of the file that shares a project's playbook.json."""
    return root / ".claude" / ".gitattributes"


def is_shared(root: Path) -> bool:
    """Return whether a project's playbook.json is shared through git."""
    try:
        attributes = read_bounded(attributes_file(root), _MAX_ATTRIBUTES_BYTES)
    except OSError:
        return False
    return ATTRIBUTES.encode() in attributes.splitlines()


def in_git(root: Path, path: str = _PATH) -> Version | None:
    """Return the version of playbook.json, or of another file, that git last checked out or added;
    None if git does not have the file.
    """
    listed = git_says(root, "ls-files", "--stage", "-z", "--", path)
    if listed is None or listed.count(b"\0") != 1:
        return None
    mode, blob, *_ = listed.decode("utf-8", "replace").split()
    is_regular = mode.startswith("100")
    content = git_says(root, "cat-file", "blob", blob) if is_regular else None
    return Version(blob, content) if content is not None else None


def is_in_conflict(root: Path) -> bool:
    """Return whether git merged playbook.json with a conflict that was not added yet."""
    return bool(git_says(root, "ls-files", "--unmerged", "-z", "--", _PATH))


def has_blob(root: Path, content: bytes) -> bool:
    """Return whether git has exactly this content in its store, because it was committed, added or
    stashed.
    """
    blob = git_says(root, "hash-object", "--stdin", given=content)
    if blob is None:
        return False
    return git_says(root, "cat-file", "-e", blob.decode("ascii").strip()) is not None


def branch_history(root: Path) -> BranchHistory:
    """Return the changes of the present branch's commits in playbook.json, with one call of git."""
    # Merges are asked too: a name that two clones gave out is changed in one.
    log = git_says(root, *_LOG.split(), _PATH) or b""
    changed: set[Entry] = set()
    added: dict[Entry, set[str]] = {}
    removed: dict[Entry, set[str]] = {}
    texts_lost: dict[bytes, set[str]] = {}
    texts_added: dict[bytes, set[str]] = {}
    reworded: dict[Entry, set[Entry]] = {}
    # Only the heading of a commit begins with NUL: the lines of a file begin with a sign.
    for commit in (b"\n" + log).split(b"\n\0")[1:]:
        heading, *lines = commit.splitlines()
        name, _, parents = heading.decode("ascii").partition(":")
        before = _entries(lines, b" -")
        after = _entries(lines, b" +")
        changed |= before.keys() ^ after.keys()
        lost = before.keys() - after.keys()
        for entry in lost:
            texts_lost.setdefault(entry[1], set()).add(name)
            if before[entry] == b"-":
                removed.setdefault(entry, set()).add(name)
        is_merge = " " in parents
        for entry in after.keys() - before.keys():
            if after[entry] == b"+" and not is_merge:
                added.setdefault(entry, set()).add(name)
                texts_added.setdefault(entry[1], set()).add(name)
        for entry, replaced in _replaced(lost, after):
            reworded.setdefault(entry, set()).add(replaced)
    return BranchHistory(root, changed, added, removed, reworded, texts_lost, texts_added)


@cache
def _is_before(root: Path, commit: str, others: frozenset[str]) -> bool:
    """Return whether one of the other commits came after a commit. Git is asked once, because a
    text may have been added by many commits.
    """
    given = "\n".join([f"^{commit}", *sorted(others)])
    options = ("--ancestry-path", "--max-count=1", "--stdin")
    return bool(git_says(root, "rev-list", *options, given=given.encode()))


def _replaced(lost: Iterable[Entry], after: Iterable[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Yield each entry of one side with the lost entry of the same name. A text that has another
    name now was not replaced.
    """
    texts = {text for _, text in after}
    old_texts = {name: text for name, text in lost if text not in texts}
    for name, text in after:
        if name in old_texts:
            yield (name, text), (name, old_texts[name])


def _entries(lines: Sequence[bytes], signs: bytes) -> dict[Entry, bytes]:
    """Return the entries in one side of a diff, each with the sign of its name's line."""
    side = [line for line in lines if line[:1] in signs]
    return {_entry(name[1:], text[1:]): name[:1] for name, text in pairwise(side)}


def entry_in_file(bullet: Bullet) -> Entry:
    """Return the file's entry for a bullet."""
    name, text = entry_text(bullet).encode().splitlines()
    return _entry(name, text)


def _entry(name: bytes, text: bytes) -> Entry:
    return name.strip(), text.strip().removesuffix(b",")
