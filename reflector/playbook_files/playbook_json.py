"""Writes the ledger's playbook to playbook.json for agents and users, records their edits of it,
and adopts other playbook files with their counters as the baseline.

Invariant: the file is never overwritten while it contains something that the ledger lacks. Nothing
that the ledger's user did not write becomes an event by `human`. `examine_playbook` alone decides
the relation of a file to a ledger. A file is adopted completely, or refused with each faulty entry,
and no name ever means two bullets. Only its owner can read a copy that is kept aside.

A file of ours identifies itself: `last_updated` is the time of one event, and the playbook folded
up to that event gives the file's bytes. So an older export that came back (a checkout of another
branch, a backup, a colleague's machine, a killed write) is not mistaken for an edit by hand, and an
edit is compared with exactly the state that was edited. The digest of the last write is kept only
to save that fold. A question records an edit without writing the file, so it keeps a copy, with
which the next edit is compared. If a file names an unknown moment, it belongs to another ledger, or
to this one before an older copy of it came back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from reflector.changes.apply import advice_fault
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.registry import ADVICE, fold
from reflector.events.state import REDACTED
from reflector.files import Changed, replace_file, replace_read
from reflector.ledger.store import BulletRow, Ledger
from reflector.mistakes import Finding
from reflector.playbook.admissible import hidden_fault
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import Loaded, dump, dump_shared, load
from reflector.playbook_files.admission import (
    PlaybookRefused,
    bullets_to_import,
    names_taken,
    unfit,
)
from reflector.playbook_files.edits import (
    Base,
    EditedFile,
    Wordings,
    in_names_of,
    new_names_of,
    take_in_turn,
    take_version,
)
from reflector.playbook_files.git_versions import (
    Version,
    entry_in_file,
    has_blob,
    in_git,
    is_in_conflict,
    is_shared,
)
from reflector.playbook_files.kept_copies import (
    ANOTHERS,
    content_digest,
    keep_copy,
    kept_folder,
    read_playbook,
)
from reflector.project import Project

#: Names of a ledger's checkpoints: the file as it was last written or adopted; the `last_updated`
#: of the adopted file, which stays in it until it is written; and the version in git that was
#: recorded last.
WRITTEN = "playbook.json"
_STAMP = "playbook.json adopted"
_IN_GIT = "playbook.json in git"
#: Events that change the content of a file that is shared without counters.
_ADVICE = (ADVICE - {ev.BULLET_RECOUNTED}) | {ev.EVENT_REDACTED}

#: The kinds of a playbook.json for a ledger:
#: missing     the file does not exist
#: written     unchanged since it was last written
#: ours        an export of this ledger from some position, perhaps edited since
#: shared      from git, where it does not have a time or counts, and perhaps edited since
#: baseline    of no ledger, or of another one while this one never had a bullet: it is adopted with
#:             its counters
#: another's   of another ledger, or of a later state that this one lost
#: foreign     of another tool: it does not have the form of a playbook, this ledger never wrote it,
#:             and it is not changed
#: unreadable  cannot be recorded, for example because of an extra comma or a counter below 0; only
#:             a rebuild overwrites it
Kind = Literal[
    "missing", "written", "ours", "shared", "baseline", "another's", "foreign", "unreadable"
]

_NOTHING = Loaded("sections")
#: The copy of an edited file that a read-only command recorded and did not write. A later edit is
#: compared with it.
_EDITED = "edited.json"


_CONFLICT = Finding(
    "playbook",
    "the file",
    "has a conflict that git lists as unresolved",
    "resolve the conflict, then run `git add .claude/playbook.json`",
)


class FileState(NamedTuple):
    """The kind of a playbook.json for a ledger. For one of ours, it has the position at which the
    file was written.
    """

    kind: Kind
    raw: bytes = b""
    loaded: Loaded = _NOTHING
    position: int = 0

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The faults that make the file unreadable."""
        return self.loaded.problems if self.kind == "unreadable" else ()


class Synced(NamedTuple):
    """The result of a synchronisation.

    state       the file's state now; None if the user saved it meanwhile
    of_another  the copy of a file that another ledger wrote
    renamed     the names that the ledger gave to bullets of the file, by those in the file
    returned    the removed bullets that git brought back
    """

    state: FileState | None
    of_another: Path | None = None
    renamed: Mapping[str, str] = MappingProxyType({})
    returned: Sequence[str] = ()

    def news(self, path: Path) -> Iterator[str]:
        """Yield a sentence on each rule that got another name or that git brought back."""
        for theirs, ours in self.renamed.items():
            yield (
                f"the rule {theirs} in {path} got the new name {ours}, because another rule "
                f"already had the name {theirs}"
            )
        for name in self.returned:
            yield (
                f"{name} was removed, but git brought the rule back; to remove the rule again, "
                f"run `reflector remove {name}`"
            )

    @property
    def is_foreign(self) -> bool:
        """Whether the file belongs to another tool."""
        return self.state is not None and self.state.kind == "foreign"

    @property
    def problems(self) -> Sequence[Finding]:
        """The faults of an unreadable file."""
        return self.state.problems if self.state is not None else ()


class Known(NamedTuple):
    """The state of a ledger: its bullets, the names of removed ones, and the state of
    playbook.json.
    """

    bullets: Sequence[Bullet]
    removed: Collection[str]
    found: FileState


class _Checkpoint(NamedTuple):
    """The remembered position and digest of a file in a ledger; 0 and "" before the first."""

    position: int = 0
    digest: str = ""


class _Taken(NamedTuple):
    """The result of recording a file's content.

    events      the number of events for its edits
    is_edited   whether it differs from the state that was written, even if the ledger has the edit
                already
    may_stay    whether it is as git brought it
    of_another  the copy of a file that another ledger wrote
    """

    events: int = 0
    is_edited: bool = False
    may_stay: bool = True
    of_another: Path | None = None


def sync(
    ledger: Ledger,
    project: Project,
    *,
    write: bool = True,
    later: bool = False,
    shared: bool | None = None,
) -> Synced:
    """Record the changes in playbook.json, then write the ledger's state to it. Return the result.

    write   False for a read-only command, which only writes a file that is behind and not edited
    later   the same process writes the file later
    shared  whether the project shares the file through git, if that was read already

    Raises: OSError, LedgerError; PlaybookRefused if the ledger does not have bullets either.
    """
    return _File(ledger, project, shared).sync(write=write, later=later)


def examine_playbook(ledger: Ledger, project: Project) -> FileState:
    """Return the state of playbook.json for a ledger.

    Raises: OSError, LedgerError; PlaybookRefused if the file cannot be recorded and the ledger does
    not have bullets either.
    """
    return _File(ledger, project).examine()


def known(ledger: Ledger, project: Project, state: FileState | None = None) -> Known:
    """Return the content for a session: the ledger's bullets, and the state of playbook.json. It is
    only examined if `state` is None.

    Raises: as `examine_playbook`.
    """
    rows = ledger.rows()
    live = [row.bullet for row in rows if row.status == "live"]
    removed = {row.name for row in rows if row.status != "live"}
    return Known(live, removed, state or examine_playbook(ledger, project))


class _File:
    """A project's playbook.json in one synchronisation.

    The file, `.gitattributes`, git's version and the last checkpoint are read once, and the bullets
    of each position are folded once. A write by another process is noticed at the last look before
    the file is replaced, or by the next synchronisation.
    """

    def __init__(self, ledger: Ledger, project: Project, shared: bool | None = None) -> None:
        self._ledger = ledger
        self._project = project
        self._is_shared = is_shared(project.root) if shared is None else shared
        self._written = _checkpoint(ledger, project)
        self._bullets: dict[int, Sequence[Bullet]] = {}

    @cached_property
    def _version(self) -> Version | None:
        return in_git(self._project.root)

    @cached_property
    def _read_by_question(self) -> bytes | None:
        """The edited file that a read-only command recorded, if nothing was written since."""
        copy = read_playbook(self._project.state_dir / "kept" / _EDITED)
        is_last = copy is not None and self._written.digest == content_digest(copy)
        return copy if is_last else None

    def sync(self, *, write: bool, later: bool) -> Synced:
        """Record the edits of the file. Then write the file, unless git brought it as it is.

        If edits were recorded but the file is not written, a copy of the file is kept. The next
        edits are compared with this copy.
        """
        state = self.examine()
        if state.kind in ("unreadable", "foreign"):
            return Synced(state)
        may_stay = self._is_shared and self._says_present_advice(state)
        position = self._ledger.head().position
        taken = self._take(state)
        new_names: Mapping[str, str] = {}
        returned: Sequence[str] = ()
        if taken.events:
            new_names = new_names_of(self._ledger, state.loaded)
            restorations = self._ledger.events(after=position, types=[ev.BULLET_RESTORED])
            returned = [event.facts["name"] for event in restorations]
        if may_stay and taken.may_stay:
            if state.kind == "shared":
                self._remember(state.raw)
            return Synced(state, taken.of_another, new_names, returned)
        after: FileState | None = state
        if write:
            after = self._write(state)
        elif self._is_behind(state):
            # A read-only command must answer even if the file cannot be written.
            with suppress(OSError):
                after = self._write(state)
        is_left = after is None or after is state
        has_news = taken.events > 0 or taken.is_edited
        if has_news and is_left and not later:
            replace_file(kept_folder(self._project) / _EDITED, state.raw, 0o600)
            self._remember(state.raw)
        return Synced(after, taken.of_another, new_names, returned)

    def examine(self) -> FileState:
        """Return the file's state. One of ours or a shared one is unreadable if a new text is
        unfit.
        """
        state = self._origin()
        if state.kind not in ("ours", "shared"):
            return state
        if state.kind == "shared" and self._version is None and is_in_conflict(self._project.root):
            # Git may have given names of this ledger to other rules. After `git add`, the file is
            # git's version, in which rules are recognised by their texts.
            return FileState("unreadable", state.raw, replace(state.loaded, problems=(_CONFLICT,)))
        texts = {bullet.name: bullet.text for bullet in self._bullets_at(state.position)}
        new = [bullet for bullet in state.loaded.bullets if bullet.text not in texts.values()]
        # If an older export brings back an erased text, the text is not new. `take_in_turn` handles
        # it.
        problems = unfit((b for b in new if texts.get(b.name) != REDACTED), advice_fault)
        if not problems:
            return state
        return FileState("unreadable", state.raw, replace(state.loaded, problems=problems))

    def _origin(self) -> FileState:
        """Return the file's state by its origin: this ledger, another ledger, another tool or git.

        Raises: PlaybookRefused if the file has faults and the ledger does not have bullets either.
        """
        raw = read_playbook(self._project.playbook_json)
        if raw is None:
            return FileState("missing")
        digest = self._written.digest
        if digest == content_digest(raw) or raw == self.rendered():
            return FileState("written", raw)
        rows = self._ledger.rows()
        loaded = self._load(raw)
        if loaded.format == "foreign" and not digest:
            return FileState("foreign", raw, loaded)
        if loaded.problems:
            return self._refused(raw, loaded, rows)
        is_timed = loaded.last_updated is not None
        if not is_timed and self._is_shared and (digest or (rows and self._version)):
            return FileState("shared", raw, loaded, self._written.position)
        position = self._position_of(loaded)
        if position is not None:
            return FileState("ours", raw, loaded, position)
        return self._of_another(raw, loaded, rows)

    def _of_another(self, raw: bytes, loaded: Loaded, rows: Sequence[BulletRow]) -> FileState:
        """Return the state of a file that this ledger never wrote."""
        is_timed = loaded.last_updated is not None  # by another ledger
        if is_timed and rows and not _is_adopted(self._ledger, content_digest(raw)):
            return FileState("another's", raw, loaded)
        problems = names_taken(rows, loaded) or unfit(loaded.bullets, hidden_fault)
        if problems:
            return self._refused(raw, replace(loaded, problems=problems), rows)
        return FileState("baseline", raw, loaded)

    def _refused(self, raw: bytes, loaded: Loaded, rows: Sequence[BulletRow]) -> FileState:
        if not rows:
            raise PlaybookRefused(self._project.playbook_json, loaded.problems)
        return FileState("unreadable", raw, loaded)

    def _position_of(self, loaded: Loaded) -> int | None:
        """Return the position from which a file was written or edited; None if it is not ours."""
        if loaded.last_updated is None:
            return self._nearest_position(loaded) if self._written.digest else None
        position = _exported_at(self._ledger, self._project, loaded.last_updated)
        if position is not None and loaded.last_updated == self._ledger.updated_at():
            self._bullets[position] = self._ledger.bullets()  # nothing changed since
        return position

    def _nearest_position(self, loaded: Loaded) -> int:
        """Return the position from which the user edited a file without a time. It is the position
        from which the file differs least: of the last write, of git's version or of an adopted
        file.
        """
        positions: list[int | None] = [self._written.position]
        if self._version is not None:
            time = load(self._version.content).last_updated
            positions.append(_exported_at(self._ledger, self._project, time))
        adoptions = self._ledger.events(types=[ev.PLAYBOOK_IMPORTED])
        positions += [event.position for event in adoptions]

        def difference(position: int) -> int:
            return len(loaded.edits_of(self._bullets_at(position)))

        return min((at for at in positions if at is not None), key=difference)

    def _bullets_at(self, position: int) -> Sequence[Bullet]:
        if position not in self._bullets:
            self._bullets[position] = fold(self._ledger.history(upto=position)).bullets()
        return self._bullets[position]

    def _load(self, raw: bytes, others: Iterable[Bullet] = ()) -> Loaded:
        """Read a file. An entry without a name gets a name that neither a bullet of the ledger nor
        one of `others` has.
        """
        taken = [row.name for row in (*self._ledger.rows(), *others)]
        return load(raw, taken=taken, first=self._project.first_number)

    def rendered(self) -> bytes:
        """Return the file's content for the ledger's state."""
        return self._dumped(self._ledger.bullets(), self._ledger.updated_at())

    def _dumped(self, bullets: Sequence[Bullet], updated_at: str | None) -> bytes:
        return dump_shared(bullets) if self._is_shared else dump(bullets, updated_at)

    def _take(self, state: FileState) -> _Taken:
        """Record the content of a file that the ledger does not have."""
        match state.kind:
            case "another's":
                return _Taken(of_another=keep_copy(self._project, state.raw, ANOTHERS))
            case "baseline":
                import_bullets(self._ledger, self._project, state.loaded, state.raw)
                self._remember_adopted(state)
            case "ours":
                return self._take_ours(state)
            case "shared":
                return self._take_shared(state)
            case "written":
                # Otherwise this version would be new again after git has shown another one.
                if self._written.digest != content_digest(state.raw):
                    self._remember(state.raw)
        return _Taken()

    def _remember_adopted(self, state: FileState) -> None:
        """Remember an adopted file as ours until it is written. A read-only command does not write
        it.
        """
        if not self._ledger.rows():
            return
        self._remember(state.raw)
        time = state.loaded.last_updated
        if time is not None:
            stamp = checkpoint_of(self._project, _STAMP)
            self._ledger.set_checkpoint(stamp, self._written.position, content_digest(time))

    def _take_ours(self, state: FileState) -> _Taken:
        copy = self._read_by_question
        if copy is not None and self._was_left_by_git(copy):
            copy = None
        events = self._take_edits(state, copy)
        # An edit with the same result as the ledger gives no event. It must still be remembered, or
        # it would be new at the next reading. Another layout of the same entries is not an edit.
        is_edited = bool(state.loaded.edits_of(self._bullets_at(state.position)))
        return _Taken(events, is_edited=is_edited)

    def _was_left_by_git(self, copy: bytes) -> bool:
        """Return whether an edited file came from git: git has it in its store, and another version
        checked out.
        """
        version = self._version
        if version is None or version.content == copy:
            return False
        return has_blob(self._project.root, copy)

    def _take_edits(self, state: FileState, read_by_question: bytes | None) -> int:
        """Append the user's changes in a file since it was written. Return the number of events.

        read_by_question  the content of the file when a read-only command read it later; the
                          changes are those since then
        """
        if read_by_question is None:
            base = Base(self._bullets_at(state.position), state.position)
            return self._append(base, self._version_edited_from(base, state), state)
        before = self._load(read_by_question, state.loaded.bullets)
        bullets, loaded = in_names_of(self._ledger, before, state.loaded)
        base = Base(bullets, self._written.position)
        return self._append(base, None, state._replace(loaded=loaded))

    def _version_edited_from(self, base: Base, state: FileState) -> Loaded | None:
        """Return git's version if it is an edit of the base: it then shows which changes git made.
        Return None if it is the base, or if it has another time or faults.
        """
        version = self._version
        time = state.loaded.last_updated
        if version is None or version.content == self._dumped(base.bullets, time):
            return None
        # The base of a shared file contains all changes that git made before. git makes a further
        # one only if it gives the version back as it is.
        if state.kind == "shared" and state.raw != version.content:
            return None
        loaded = self._load(version.content)
        return None if loaded.problems or loaded.last_updated != time else loaded

    def _append(self, base: Base, by_git: Loaded | None, state: FileState) -> int:
        edited = EditedFile(base, by_git, state.loaded, content_digest(state.raw))
        return take_in_turn(self._ledger, edited, self._project.first_number)

    def _take_shared(self, state: FileState) -> _Taken:
        """Record the version from git as git's, and then the user's edits of it.

        `version` is the file in git. It is new if git changed it since the ledger last recorded
        one. It is written if the ledger wrote this content last and it was committed since.
        """
        version = self._version
        is_news = version is not None and self._is_new_in_git(version, state)
        is_written = version is not None and self._written.digest == content_digest(version.content)
        if version is None or not (is_news or is_written):
            return _Taken(self._take_edits(state, self._read_by_question), may_stay=False)

        theirs = self._load(version.content)
        events = 0
        if is_news and not theirs.problems:
            digest = content_digest(version.content)
            before = self._load(self._last_file(state))
            events = take_version(self._ledger, self._project.root, theirs, digest, before)
        is_unedited = state.raw == version.content
        if is_news and is_unedited:
            return _Taken(events, may_stay=self._has_names_of(state.loaded))

        # The user's edits are the differences from git's version. Conflicts are searched from the
        # position at which the file was written, because the user did not see later changes.
        names = {row.name for row in self._ledger.rows()}
        known_bullets = [bullet for bullet in theirs.bullets if bullet.name in names]
        events += self._append(Base(known_bullets, state.position), None, state)
        return _Taken(events, may_stay=False)

    def _is_new_in_git(self, version: Version, state: FileState) -> bool:
        """Return whether git changed the file since the ledger last saw git's version.

        Git then has another version than the one recorded last, or it has the same version again
        because a commit or a stash of our file was undone. Our file may also be in git's store
        because it equals an older version, so its edits must be from git's version.
        """
        if _checkpoint(self._ledger, self._project, _IN_GIT).digest != content_digest(version.blob):
            return True
        last_file = self._last_file(state)
        edits_of_git = state.loaded.edits_of(self._load(version.content).bullets)
        edits_of_ours = state.loaded.edits_of(self._load(last_file).bullets)
        is_nearer_to_git = len(edits_of_git) < len(edits_of_ours)
        return is_nearer_to_git and has_blob(self._project.root, last_file)

    def _last_file(self, state: FileState) -> bytes:
        """Return the file as a question read it or as a command wrote it last."""
        return self._read_by_question or dump_shared(self._bullets_at(state.position))

    def _has_names_of(self, loaded: Loaded) -> bool:
        """Return whether each bullet of a file has its name in the ledger."""
        if loaded.named_here:
            return False
        rows = self._ledger.rows_by_name()
        live = [row for row in rows.values() if row.status == "live"]
        live_texts = {(row.section, row.text) for row in live}
        wordings = Wordings(self._ledger)
        for bullet in loaded.bullets:
            row = rows.get(bullet.name)
            if row is None:
                return False
            if row.status == "live":
                continue
            is_its_own = entry_in_file(bullet) in wordings.entries(row)
            if not is_its_own or (bullet.section, bullet.text) in live_texts:
                return False
        return True

    def _says_present_advice(self, state: FileState) -> bool:
        """Return whether a shared file need not be written, because the ledger's advice did not
        change since. The file of another branch may have less advice than the ledger. It returns to
        git unchanged.
        """
        if state.kind == "shared":
            position = state.position
        elif state.kind == "written" and self._is_written_as_shared(state.raw):
            is_last = self._written.digest == content_digest(state.raw)
            position = self._written.position if is_last else self._ledger.head().position
        else:
            return False
        return next(self._ledger.events(after=position, types=_ADVICE), None) is None

    def _is_written_as_shared(self, raw: bytes) -> bool:
        """Return False if a file was written before it was shared, or if a read-only command
        recorded it and did not write it.
        """
        loaded = load(raw)
        has_counts = len(loaded.uncounted) < len(loaded.bullets)
        if has_counts or loaded.last_updated is not None:
            return False
        return self._read_by_question is None

    def _is_behind(self, state: FileState) -> bool:
        """Return whether an unedited file lacks a recorded change. This happens if the command was
        killed before it wrote the file, or if the folder was cleaned. A file in git is left to the
        user.
        """
        if self._is_shared or self._read_by_question is not None:
            return False
        if state.kind == "missing":
            lacks_rules = bool(self._ledger.bullets())
        else:
            has_moved = self._ledger.head().position > self._written.position
            lacks_rules = state.kind == "written" and has_moved and state.raw != self.rendered()
        return lacks_rules and in_git(self._project.root) is None

    def _write(self, state: FileState) -> FileState | None:
        """Write the file if it differs from the ledger, and return its state. Return None if the
        file was saved meanwhile, because that edit must be recorded first.

        Without a rule, a missing file stays missing, so that you can delete an empty file.
        """
        raw = None if state.kind == "missing" else state.raw
        if raw is None and not self._ledger.bullets():
            return state
        position = self._ledger.head().position
        content = self.rendered()
        if raw != content:
            try:
                replace_read(self._project.playbook_json, raw, content)
            except Changed:
                return None
        if self._written.digest != content_digest(content):
            self._remember(content, position)
        return FileState("written", content)

    def _remember(self, content: bytes, position: int | None = None) -> None:
        """Set the checkpoint of the file, and that of git's current version."""
        if position is None:
            position = self._ledger.head().position
        self._written = _Checkpoint(position, content_digest(content))
        self._ledger.set_checkpoint(checkpoint_of(self._project), *self._written)
        if self._is_shared and self._version is not None:
            blob = content_digest(self._version.blob)
            self._ledger.set_checkpoint(checkpoint_of(self._project, _IN_GIT), position, blob)


def render_playbook(ledger: Ledger, project: Project) -> bytes:
    """Return playbook.json for the ledger's state. The same ledger gives the same bytes, including
    `last_updated`.
    """
    return _File(ledger, project).rendered()


def dump_for(project: Project, bullets: Sequence[Bullet], updated_at: str | None) -> bytes:
    """Return a playbook's bullets in the form of the project's playbook.json."""
    return dump_shared(bullets) if is_shared(project.root) else dump(bullets, updated_at)


def set_aside(project: Project) -> tuple[Path, str] | None:
    """Keep a copy of playbook.json. Return its path and digest.

    Return None if there is no such file, or if the file belongs to another tool.

    Raises: OSError.
    """
    raw = read_playbook(project.playbook_json)
    if raw is None or load(raw).format == "foreign":
        return None
    return keep_copy(project, raw), content_digest(raw)


def settle_file(ledger: Ledger, project: Project) -> Path | None:
    """Compare playbook.json with a history that replaced the whole ledger.

    If the file belongs to that history or comes from git, the changes in it are recorded as usual.
    Any other file is not an edit: it is kept aside, and the next `sync` writes the file. Return the
    copy; None if nothing had to be kept.

    Raises: LedgerError, OSError.
    """
    file = _File(ledger, project)
    state = file.examine()
    is_from_git = state.kind == "shared"
    if state.kind in ("missing", "foreign") or is_from_git or state.raw == file.rendered():
        return None
    is_ours = _exported_at(ledger, project, load(state.raw).last_updated) is not None
    return None if is_ours else _give_up(ledger, project, state.raw)


def set_unreadable_aside(ledger: Ledger, project: Project) -> Path | None:
    """Keep an unreadable playbook.json aside, so that the next `sync` writes the file.

    Return the path of the copy; None if the file is readable.

    Raises: PlaybookRefused, also if the ledger does not have bullets to write; LedgerError,
    OSError.
    """
    state = examine_playbook(ledger, project)
    return _give_up(ledger, project, state.raw) if state.kind == "unreadable" else None


def _give_up(ledger: Ledger, project: Project, raw: bytes) -> Path:
    # Position 0 is before all events. From a later position, a shared file that was written after
    # the last change of advice would not be written again.
    ledger.set_checkpoint(checkpoint_of(project), 0, content_digest(raw))
    return keep_copy(project, raw)


def untaken(ledger: Ledger, project: Project) -> tuple[Finding, ...]:
    """Return the problems that make playbook.json unreadable.

    Raises: LedgerError.
    """
    try:
        return examine_playbook(ledger, project).problems
    except PlaybookRefused as error:
        return error.problems
    except OSError:  # the file does not have entries to report
        return ()


def remember_opened(ledger: Ledger, project: Project, position: int, content: bytes) -> None:
    """Remember the content and position of playbook.json when an editor opened it. Another process
    may have written the file since, and a shared file does not contain its time.
    """
    ledger.set_checkpoint(checkpoint_of(project), position, content_digest(content))


def checkpoint_of(project: Project, name: str = WRITTEN) -> str:
    """Return the name under which a ledger remembers a project's file. A ledger at a URL may serve
    several projects and clones on several machines, so each clone has its own checkpoints.
    """
    if not project.config.ledger_url:
        return name
    import platform

    clone = content_digest(f"{platform.node()}:{project.root.resolve()}")
    return f"{name} of {clone[:16]}"


def _checkpoint(ledger: Ledger, project: Project, name: str = WRITTEN) -> _Checkpoint:
    return _Checkpoint(*(ledger.checkpoint(checkpoint_of(project, name)) or ()))


def _exported_at(ledger: Ledger, project: Project, last_updated: str | None) -> int | None:
    """Return the position whose export has this time, or the position of the adopted file with it;
    None for neither.
    """
    if last_updated is None:
        return None
    position = ledger.position_at(last_updated)
    events = ledger.at([position])
    if events and events[0].recorded_at == last_updated:
        return position
    adopted = _checkpoint(ledger, project, _STAMP)
    return adopted.position if adopted.digest == content_digest(last_updated) else None


def _is_adopted(ledger: Ledger, digest: str) -> bool:
    """Return whether a file of this digest was imported. The process may have been killed before it
    remembered the file.
    """
    adoptions = ledger.events(types=[ev.PLAYBOOK_IMPORTED])
    return any((event.data or {}).get("sha256") == digest for event in adoptions)


def import_bullets(
    ledger: Ledger,
    project: Project,
    loaded: Loaded,
    raw: bytes,
    path: Path | None = None,
    tx: str | None = None,
) -> None:
    """Adopt a playbook file's bullets with their counters as the baseline.

    path  the file, if it is not the project's own playbook.json
    tx    the transaction of the user's command

    Bullets that the ledger has with the same section and text are omitted. The original file is
    kept in the state folder.

    Raises: PlaybookRefused if a name of the file means another bullet in the ledger.
    """
    new = bullets_to_import(ledger, loaded, path or project.playbook_json)
    if not new:
        return
    keep_copy(project, raw)
    ledger.append([_adoption(loaded, raw, new)], tx=tx)


@contextmanager
def adopted_in_memory(project: Project) -> Iterator[Ledger]:
    """Open a ledger in memory with the bullets of a playbook.json, for a project that can only be
    read.

    Raises: PlaybookRefused, OSError, LedgerError.
    """
    with Ledger.open("sqlite://", project.config.playbook) as ledger:
        state = examine_playbook(ledger, project)
        if state.kind == "baseline":
            ledger.append([_adoption(state.loaded, state.raw, state.loaded.bullets)])
        yield ledger


def _adoption(loaded: Loaded, raw: bytes, bullets: Sequence[Bullet]) -> NewEvent:
    digest = content_digest(raw)
    event_id = identity(ev.PLAYBOOK_IMPORTED, digest, *(bullet.name for bullet in bullets))
    data = {
        "sha256": digest,
        "format": loaded.format,
        "bullets": [asdict(bullet) for bullet in bullets],
    }
    return NewEvent(ev.PLAYBOOK_IMPORTED, event_id, data, actor=ev.IMPORT)


def is_foreign(ledger: Ledger, project: Project) -> bool:
    """Return whether playbook.json belongs to another tool.

    Raises: LedgerError, OSError.
    """
    try:
        return examine_playbook(ledger, project).kind == "foreign"
    except PlaybookRefused:
        return False
