"""A project: the folder in which an agent works, and the places of its playbook, ledger and spool.

Invariant: all our files except the playbook are in `.claude/reflector/`, which only its owner can
read and which its own .gitignore excludes from git.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from reflector import authorship, entries, extensions, locate
from reflector.config import SETTINGS, Config, Layer, load_config
from reflector.files import absolute, open_state
from reflector.handover import read_own, write_own
from reflector.ledger.errors import LedgerCorrupt, LedgerError, LedgerUnavailable
from reflector.ledger.sqlite_file import can_be_written, had_ledger
from reflector.ledger.store import Ledger
from reflector.ledger.url import sqlite_url
from reflector.locate import own_folder
from reflector.mistakes import Mistake
from reflector.playbook.names import USER_FIRST

#: Settings that the user's playbook does not share with the projects, and the layers that may set
#: them for it. A ledger that is named for all projects is not its own. A user who lets a model
#: judge one project does not thereby permit it for all projects that cite the user's playbook.
_NOT_SHARED: Mapping[str, tuple[Layer, ...]] = {
    "ledger_url": (),
    "playbook": ("project",),
    "backend": ("project", "environment", "flag"),
}


_DATASET = re.compile(r"\w[\w+-]*(?:\.[\w+-]+)*")
_LONGEST_DATASET = 64
#: More bytes than a year of sessions needs.
_MOST_KEPT_BYTES = 64 << 20


class DatasetRefused(Mistake):
    """A text that cannot be a dataset's name."""


def checked_dataset(name: object) -> str:
    """Return a dataset's name, which becomes the name of a file, a folder and a playbook. It has 1
    to 64 letters, digits, '-', '_', '+' and single dots inside, and is the same text in every
    normal form.

    Raises: DatasetRefused, which is a ValueError.
    """
    text = name if isinstance(name, str) and unicodedata.normalize("NFKC", name) == name else ""
    is_name = len(text) <= _LONGEST_DATASET and _DATASET.fullmatch(text) is not None
    if not is_name or text.lower() == "bullet_evaluation":  # a template
        raise DatasetRefused(
            f"{ascii(name)[:80]} cannot be the name of a dataset. Use 1 to 64 plain letters, "
            "digits, '-', '_', '+' or single dots. Begin with a letter, a digit or '_', and do not "
            "end with a dot. The name bullet_evaluation is reserved"
        )
    return text


@dataclass(frozen=True)
class Project:
    """A project's folder and its settings. For the playbook of a dataset, `outer` is the project
    that the dataset belongs to.
    """

    root: Path
    config: Config
    outer: Path | None = None

    @classmethod
    def at(cls, root: Path, *, flags: Mapping[str, Any] | None = None) -> Project:
        """Return the project in a folder. The user's own playbook gets the settings of
        `_NOT_SHARED` only from the layers that are listed there.

        Raises: ConfigError.
        """
        config = load_config(root, flags=flags)
        extensions.open_for(root, config)
        if not _is_users(root):
            return cls(root, config)
        foreign = [key for key, layers in _NOT_SHARED.items() if config.layer(key) not in layers]
        defaults: dict[str, Any] = {key: SETTINGS[key].default for key in foreign}
        return cls(root, replace(config, **defaults))

    @classmethod
    def of_user(cls, *, flags: Mapping[str, Any] | None = None) -> Project:
        """Return the user's own playbook, which applies in every project.

        Raises: ConfigError.
        """
        return cls.at(Path(locate.user_folder()).absolute(), flags=flags)

    @classmethod
    def of_dataset(
        cls, root: Path, dataset: str, *, flags: Mapping[str, Any] | None = None
    ) -> Project:
        """Return the playbook of a dataset in a project, with the project's settings.

        With a `ledger_url`, its name must differ from that of the project's own playbook, because
        both are in one ledger.

        Raises: ConfigError, Mistake.
        """
        dataset = checked_dataset(dataset)
        outer = cls.at(root.absolute(), flags=flags)
        if outer.config.ledger_url and outer.config.playbook == dataset:
            raise Mistake(
                f"the dataset {dataset!r} has the same name as the project's own playbook, and "
                "ledger_url puts both into one ledger; choose another name for the dataset"
            )
        config = replace(load_config(outer.root, flags=flags), playbook=dataset)
        layers: Mapping[str, Layer] = {**config.layers, "playbook": "default"}
        return cls(
            outer.state_dir / "datasets" / dataset, replace(config, layers=layers), outer.root
        )

    @property
    def is_users(self) -> bool:
        return _is_users(self.root)

    @property
    def first_number(self) -> int:
        return USER_FIRST if self.is_users else 0

    @cached_property  # a command uses the paths dozens of times
    def playbook_json(self) -> Path:
        return self.root / ".claude" / "playbook.json"

    @cached_property
    def state_dir(self) -> Path:
        """The folder of ledger, spool and rendered text."""
        return self.root / ".claude" / "reflector"

    @property
    def own_dir(self) -> Path | None:
        """The user's own folder of the project, outside of it, so that a copy of the project does
        not contain it. None for a user without a home.
        """
        folder = own_folder(str(self.root))
        return Path(folder) if folder else None

    def read_kept(self, name: str) -> Any:
        """Return the JSON value in a file of the user's own folder; None without one."""
        with suppress(ValueError, RecursionError):
            return json.loads(read_own(str(self.root), name, _MOST_KEPT_BYTES))
        return None

    def keep(self, name: str, value: object) -> None:
        """Keep a JSON value in the user's own folder, if the folder can be written."""
        with suppress(OSError):
            write_own(str(self.root), name, json.dumps(value).encode())

    @property
    def spool_dir(self) -> Path:
        """The folder of the hook's deliveries that wait for the drain."""
        return self.state_dir / "spool"

    @cached_property
    def ledger_file(self) -> Path:
        """The file of the ledger if no URL is configured."""
        return self.state_dir / "ledger.db"

    def make_state_dir(self) -> Path:
        """Create the state folder, private and ignored by git.

        Raises: LedgerUnavailable.
        """
        try:
            if self.outer is not None:
                open_state(absolute(self.outer))
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700 if self.is_users else 0o777)
            open_state(absolute(self.root))
        except OSError as error:
            raise LedgerUnavailable(
                f"{error.filename or self.state_dir} cannot be created or used ({error.strerror}); "
                "check the permissions, "
                "or name another project with --project"
            ) from error
        return self.state_dir

    @property
    def is_only_read(self) -> bool:
        """Whether the project's own ledger cannot be written or, if it is missing, created."""
        folder = next(one for one in (self.state_dir, *self.state_dir.parents) if one.exists())
        there = self.ledger_file if folder == self.state_dir else folder / "any"
        return not self.config.ledger_url and not can_be_written(there)

    def has_ledger(self) -> bool:
        """Return whether this project ever had a ledger file of its own, or has a configured URL.

        True also for a ledger that is gone. Opening it then reports that.
        """
        if (
            self.config.ledger_url
            or os.path.lexists(self.ledger_file)
            or had_ledger(self.ledger_file)
        ):
            return True
        return entries.copy_end(self.root).position > 0

    @property
    def database_url(self) -> str:
        """The URL of the ledger's database: the one in the settings, or the project's own file."""
        return self.config.ledger_url or sqlite_url(self.ledger_file)

    def open_ledger(self, *, accepts_newer: bool = False, walks: bool = True) -> Ledger:
        """Open the project's ledger; create it on first use. If it cannot be written, a copy is
        opened that refuses to append.

        accepts_newer  open it even if a table shows that a newer version wrote it
        walks          without it, a file that must be proved first is refused

        Raises: LedgerError.
        """
        if self.config.ledger_url:
            shared = Ledger.open(
                self.config.ledger_url, self.config.playbook, accepts_newer=accepts_newer
            )
            shared.draw = authorship.draw
            return shared
        is_asked = self.is_only_read and self.ledger_file.exists()
        if not is_asked:
            self.make_state_dir()
        is_noted = entries.admit(
            self.place, walks=walks, accepts_newer=accepts_newer, writes=not is_asked
        )
        try:
            if is_asked:
                ledger = Ledger.open_copy(
                    self.ledger_file,
                    self.config.playbook,
                    accepts_newer=accepts_newer,
                    rebuilds=not is_noted,
                )
            else:
                ledger = Ledger.open_file(
                    self.ledger_file, self.config.playbook, accepts_newer=accepts_newer
                )
        except LedgerCorrupt as error:
            back = entries.way_back(self.root, self.ledger_file)
            raise type(error)(f"{error}; {back}") if back else error from error
        ledger.on_close = self._keep
        ledger.file = entries.file_identity(self.ledger_file)
        ledger.draw = authorship.draw
        return ledger

    @property
    def place(self) -> entries.Place:
        """The ledger's place, as the user's own folder knows it."""
        return entries.Place(self.root, self.ledger_file, self.config.playbook)

    def _keep(self, ledger: Ledger) -> None:
        with suppress(OSError, LedgerError):  # `doctor` reports the fault of the copy
            entries.update_copy(ledger, self.place, ledger.file)

    def is_in_place(self, ledger: Ledger) -> bool:
        """Return whether the ledger's file is still the opened one."""
        return entries.file_identity(self.ledger_file) == ledger.file


def _is_users(root: Path) -> bool:
    users = Path(locate.user_folder())
    return root.name == users.name and root.resolve() == users.resolve()


def find_project(start: Path | None = None) -> Path:
    """Return the project's folder, as the hook finds it: REFLECTOR_PROJECT, else the project of
    CLAUDE_PROJECT_DIR, else that of `start` (default: the working folder).
    """
    if named := os.environ.get("REFLECTOR_PROJECT"):
        return Path(named).resolve()
    return project_of(Path(os.environ.get("CLAUDE_PROJECT_DIR") or start or Path.cwd()))


def project_of(folder: Path) -> Path:
    """Return the project of a folder, which may be gone. The project that is named for this command
    does not matter.
    """
    found = locate.find_project(
        folder.resolve().as_posix(),
        Path(locate.home_folder() or "/").resolve().as_posix(),
        users_config=locate.user_config(),
        notes=locate.worktree_notes(),
    )
    return Path(found)
