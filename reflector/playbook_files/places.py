"""The places of rules that stay in your own files, such as CLAUDE.md:33.

Invariant: a place is found in the current file by the words of the rule. If the file does not
contain the rule any more, its place is the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.files import absolute
from reflector.ledger.store import Ledger
from reflector.locate import AGENT_FILES, agent_folder, agent_folders
from reflector.playbook.entry import BulletRow

# Loaded on demand, because most questions are about rules outside files, and reading files loads a
# lot.
if TYPE_CHECKING:
    from reflector.playbook_files.watching import Line


def places(ledger: Ledger, root: Path, rows: Iterable[BulletRow]) -> dict[str, str]:
    """Return the places of those rules that are in files, by name.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    in_files = {row.name: row for row in rows if row.status == "watched"}
    if not in_files:
        return {}
    from reflector.playbook_files.watching import files_of

    file_of = files_of(ledger)
    files = {root / file_of[name] for name in in_files if name in file_of}
    lines = lines_of_rules(in_files, root, files)
    by_name = {name: line.place for name, line in lines.items()}
    return {name: by_name.get(name, file_of.get(name, "")) for name in in_files}


def lines_of_rules(
    rules: Mapping[str, BulletRow], root: Path, files: Iterable[Path]
) -> dict[str, Line]:
    """Return the lines of files that contain these rules, by name."""
    from reflector.playbook_files.watching import advice_of, matched

    there = sorted(file for file in files if file.is_file())
    lines, _ = matched(rules, advice_of(root, there).lines if there else ())
    return lines


def name_at(ledger: Ledger, root: Path, text: str) -> str | None:
    """Return the name of the rule at a place, such as CLAUDE.md:33; None if no rule begins there.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    from reflector.playbook_files.watching import advice_of, matched

    shown, _, number = text.rpartition(":")
    file = root / shown
    lines = advice_of(root, [file]).lines
    here = [line for line in lines if root / line.file == file and line.number == int(number)]
    names, _ = matched(ledger.rows_by_name(), here)
    return next((name for name in names), None)


def is_loaded(root: Path, file: Path) -> bool:
    """Return whether an agent loads a file in this project without reflector."""
    from reflector.playbook_files.watching import loaded_files

    path = Path(absolute(file)).resolve()
    if path in {loaded.resolve() for loaded in loaded_files(root)}:
        return True
    if path.is_relative_to((Path(agent_folder()).expanduser() / "rules").resolve()):
        return True
    folders = [root, *map(Path, agent_folders())]
    is_below = any(path.is_relative_to(folder.resolve()) for folder in folders)
    return is_below and path.name in AGENT_FILES
