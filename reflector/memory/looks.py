"""The last look at each watched file.

Invariant: looks are kept in the user's own folder, together with the events that lead to them. The
events are written there before the ledger gets them, and removed after the ledger has them. So if a
recording is killed at any point, the next one finishes it with the same events. The digests in the
user's own folder are plain.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple

from reflector.attribution.files import Table, Watched
from reflector.attribution.steps import NO_FILE, Content, Difference, content_of
from reflector.events.event import NewEvent
from reflector.events.memory import UNSEEN
from reflector.handover import write_own
from reflector.project import Project

_LOOKS = "memory-looks.json"


class Look(NamedTuple):
    """A watched file at one time.

    digest  plain, of its bytes; "" if the file was missing, "?" if it was not read
    at      the time of the look, in seconds since the epoch
    """

    digest: str
    at: float


class Seen(NamedTuple):
    """The times of the first and the last look at the files of a project.

    reflog  the size of the reflog at the last look
    """

    first: float
    last: float
    reflog: int = 0


@dataclass
class Looks:
    """The last looks of one store.

    files   the look at each file, by its name in the ledger
    seen    the looks at the files of each project, by its folder
    events  those that the ledger may not have yet
    filled  the folders of the projects whose past changes the ledger has
    """

    files: dict[str, Look] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    events: list[NewEvent] = field(default_factory=list)
    filled: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, project: Project) -> Looks:
        """Return the kept looks. A file in another format counts as no looks.

        Earlier versions kept a third value of each look, the state of the file.
        """
        kept = project.read_kept(_LOOKS)
        with suppress(TypeError, KeyError, AttributeError):
            return cls(
                {name: Look(*look[:2]) for name, look in kept["files"].items()},
                {root: Seen(*times) for root, times in kept["seen"].items()},
                [NewEvent(**event) for event in kept["events"]],
                list(kept["filled"]),
            )
        return cls()

    def save(self, project: Project) -> None:
        """Keep the looks and the events.

        Raises: OSError, and nothing has changed.
        """
        write_own(str(project.root), _LOOKS, json.dumps(asdict(self)).encode())

    def before(self, file: str, seen_at: float) -> Look:
        """Return the earlier look at a new file: a missing file, or unknown if its folder was
        unreadable.
        """
        looks = (self.files.get(str(folder)) for folder in Path(file).parents)
        is_unread = any(look and look.digest == UNSEEN for look in looks)
        return Look(UNSEEN if is_unread else "", seen_at)


def compare(table: Table, looks: Looks, checked_at: float = 0.0) -> list[Difference]:
    """Return the files of a project that are new or changed since the last looks, and update the
    looks.

    At the first look there is nothing to compare: both contents are equal. The same is true of a
    new file that is older than the last look. A file that cannot be read keeps its last look.

    checked_at  the last time at which the files were as in these looks
    """
    differences: list[Difference] = []
    seen = looks.seen.get(str(table.root))
    seen_at = max(seen.last, checked_at) if seen else inf
    for watched in (*table.files.values(), *_gone(table, looks)):
        file = watched.file
        now = time.time()
        try:
            until = min(now, watched.path.lstat().st_ctime)
            # A link to another watched file counts as that file.
            content = NO_FILE if watched.path.is_symlink() else content_of(watched.read())
        except (FileNotFoundError, NotADirectoryError):
            content = NO_FILE
            until = now
        except OSError as error:
            table.unwatched[file] = f"cannot be read ({error.strerror})"
            continue
        look = Look(content.digest, now)
        is_new = file not in looks.files and until > seen_at
        last = looks.before(file, seen_at) if is_new else looks.files.get(file, look)
        looks.files[file] = look
        if last.digest != look.digest or last is look:
            since = max(last.at, checked_at)
            differences.append(Difference(file, Content(last.digest), content, since, until))
    for file in table.unwatched:  # they are not new when they become readable
        if file not in looks.files or not looks.files[file].digest:
            looks.files[file] = Look(UNSEEN, time.time())
    return differences


def _gone(table: Table, looks: Looks) -> list[Watched]:
    """Return the watched files of the last look that were not found and may be deleted."""
    missing = [
        file
        for file in looks.files
        if file not in table.files and not any(map(Path(file).is_relative_to, table.unwatched))
    ]
    return list(filter(None, map(table.watch_of, missing)))
