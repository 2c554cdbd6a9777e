"""Reads and writes files and folders that may come from somebody else, for example with a clone.

Invariant: no link below a `.claude` is followed. A read ends, is bounded and never waits. A written
file is completely on disk before the call returns. Only regular files are opened, and a limited
number of bytes is read, because a repository can contain a link to `/dev/zero`, and opening a pipe
waits for its other end. Our own files are reached through an open folder, so a path that changes
meanwhile leads nowhere else.

The hook loads this module at every start, so it imports very little.
"""

# pathlib and os would cost more time than everything in this module:
# ruff: noqa: PTH100

import posix as system
from time import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path
    from typing import BinaryIO

NO_FOLLOW, NO_WAIT = system.O_NOFOLLOW, system.O_NONBLOCK
FOLDER = system.O_RDONLY | system.O_DIRECTORY
NEW = system.O_WRONLY | system.O_CREAT | system.O_EXCL
NOT_OURS = (
    "is a symbolic link, or a file instead of a folder; replace it with a folder, or use --project "
    "to name the project that the link leads to"
)
_NOT_REGULAR = "is not a regular file; replace it with a regular file, or remove it"
_NOT_COPIED = (
    "is a symbolic link, or not a regular file; replace the link with a copy of the file, or "
    "remove the link"
)
_TOO_LARGE = "has more than {:,} bytes; make the file smaller, or remove the file"
_LINKED = (
    "is a symbolic link, or a file instead of a folder; name the folder that the link leads to"
)
#: ELOOP on Linux and on macOS
_LINK_ERRORS = (40, 62)
#: The bits of a mode that contain the kind of file, and those of a regular file.
_KIND, _REGULAR = 0o170000, 0o100000
#: Distinguishes names that one process creates within one tick of a coarse clock.
SERIAL = iter(range(1 << 62))


class Changed(Exception):
    """Another program changed a file after it was read, so the file was not written."""

    exit_code = 1  # like a Refusal, which the hook would have to import


class Folder:
    """One of our folders, held open. Its files are reached through it, not by its path, which is
    absolute.

    Links are followed only down to `top` (default: the folder that contains the last `.claude`). A
    repository could contain a link below that, and we would read and write wherever it points.

    Raises: OSError for a link, for `.` and `..`, and for anything else that is not a folder.
    """

    def __init__(self, path: str, top: str = "") -> None:
        self.path = path
        if not top:
            above, claude, _ = f"{path}/".rpartition("/.claude/")
            top = above if claude else path
        fd = system.open(f"{top}/", FOLDER)
        reached = top.rstrip("/")
        try:
            for name in path[len(top) :].split("/"):
                if not name:
                    continue
                reached += f"/{name}"
                if name in (".", ".."):
                    raise OSError(20, "", reached)  # ENOTDIR
                above_fd = fd
                fd = system.open(name, FOLDER | NO_FOLLOW, dir_fd=fd)
                system.close(above_fd)
        except OSError as error:
            system.close(fd)
            raise with_path(error, reached) from None
        self.fd = fd

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        system.close(self.fd)

    def open(self, name: str, flags: int = system.O_RDONLY, mode: int = 0o600) -> int:
        """Return a descriptor of a file in it. A link is not followed, and the open of a pipe does
        not wait.
        """
        try:
            return system.open(name, flags | NO_FOLLOW | NO_WAIT, mode, dir_fd=self.fd)
        except OSError as error:
            if error.errno in _LINK_ERRORS:
                raise OSError(error.errno, _NOT_COPIED, f"{self.path}/{name}") from None
            # The user may not know the name of a new file, and its folder is the reason.
            is_new = flags & NEW == NEW and error.errno != 17  # EEXIST
            raise with_path(error, self.path if is_new else f"{self.path}/{name}") from None

    def reader(self, name: str) -> "BinaryIO":
        """Open a regular file in it for reading.

        Raises: OSError, also for anything else.
        """
        return _regular(self.open(name), f"{self.path}/{name}")

    def stat(self, name: str) -> "os.stat_result":
        """Return the state of a name in it, also of a link."""
        return system.stat(name, dir_fd=self.fd, follow_symlinks=False)

    def replace(self, old: str, new: str) -> None:
        try:
            system.replace(old, new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError as error:
            raise with_path(error, f"{self.path}/{new}") from None
        self.sync()

    def remove(self, name: str, *, missing_ok: bool = False) -> None:
        try:
            system.unlink(name, dir_fd=self.fd)
        except OSError as error:
            if not missing_ok or error.errno != 2:  # ENOENT
                raise with_path(error, f"{self.path}/{name}") from None

    def sync(self) -> None:
        """Make the names in it durable, if the file system can sync folders."""
        try:
            system.fsync(self.fd)
        except OSError as error:
            if error.errno != 22:  # EINVAL: this file system cannot sync folders
                raise


def expanded(path: str) -> str:
    """Return a path with its `~` or `~name` replaced by a home folder; unchanged if there is no
    such folder, or if no name can contain these characters.
    """
    from os.path import expanduser

    try:
        return expanduser(path)  # noqa: PTH111 - `Path.expanduser` fails without a home folder
    except ValueError:  # NUL, or half a character
        return path


def with_path(error: OSError, path: str) -> OSError:
    """Return an error with the whole path. If a link or a file has the place of a folder of ours,
    the text names that.
    """
    is_not_ours = error.errno in (20, *_LINK_ERRORS)  # ENOTDIR
    return OSError(error.errno, NOT_OURS if is_not_ours else error.strerror, path)


def error_words(error: BaseException) -> str:
    """Return an error's text. For an error of the system it is the path and the reason, without the
    number.
    """
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def folder_of(path: "Path") -> Folder:
    """Return the folder of a file, open, without following a link below a `.claude`.

    Raises: OSError.
    """
    return Folder(absolute(path.parent))


def absolute(path: "str | Path") -> str:
    """Return a path without `.` and `..`; its links are not followed."""
    from os.path import abspath

    return abspath(path)


def open_regular(path: "Path") -> "BinaryIO":
    """Open a regular file for reading; links are followed.

    Raises: OSError, also for anything else.
    """
    return _regular(system.open(path, system.O_RDONLY | NO_WAIT), str(path))


def open_ours(path: "Path") -> "BinaryIO":
    """Open a regular file of a project for reading.

    Raises: OSError, also for a link and for anything else.
    """
    with folder_of(path) as folder:
        return folder.reader(path.name)


def _regular(fd: int, path: str) -> "BinaryIO":
    if system.fstat(fd).st_mode & _KIND != _REGULAR:
        system.close(fd)
        raise OSError(22, _NOT_REGULAR, path)
    return open(fd, "rb")


def read_bounded(
    path: "Path", limit: int, opener: "Callable[[Path], BinaryIO]" = open_regular
) -> bytes:
    """Return a regular file's bytes.

    Raises: OSError, also for more than `limit` bytes.
    """
    with opener(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(27, _TOO_LARGE.format(limit), str(path))  # EFBIG
    return content


def read_ours(path: "Path", limit: int) -> bytes:
    """Return the bytes of a regular file of a project.

    Raises: OSError, also for a link and for more than `limit` bytes.
    """
    return read_bounded(path, limit, open_ours)


def read_brought(path: "Path", limit: int) -> bytes:
    """Return the bytes of a regular file that the user named and a repository may have brought. Its
    folder is opened by `named_folder`.

    Raises: OSError, also for more than `limit` bytes.
    """
    return read_bounded(path, limit, _open_brought)


def _open_brought(path: "Path") -> "BinaryIO":
    with named_folder(path.parent) as folder:
        if folder.stat(path.name).st_mode & _KIND != _REGULAR:
            raise OSError(22, _NOT_COPIED, str(path))
        return folder.reader(path.name)


class Brought:
    """A file below a folder that a repository brought, with its path there. The content of a folder
    is None.
    """

    __slots__ = ("content", "mode", "path")

    def __init__(self, path: str, mode: int, content: bytes | None) -> None:
        self.path = path
        self.mode = mode
        self.content = content


def read_folder(path: "Path", most_files: int, most_bytes: int) -> "list[Brought]":
    """Return the files and folders below a folder, by path; [] if the folder is missing.

    Raises: OSError for a link, for anything else that is neither a regular file nor a folder, and
    for more files or bytes than allowed. It names the path.
    """
    files_below: list[Brought] = []
    bytes_left = most_bytes
    folders_to_read = [""]
    while folders_to_read:
        below = folders_to_read.pop()
        try:
            folder = named_folder(path / below)
        except FileNotFoundError:
            if not below:
                return []
            raise
        with folder:
            for name in system.listdir(folder.fd):
                inside = f"{below}/{name}".lstrip("/")
                mode = folder.stat(name).st_mode
                if len(files_below) >= most_files:
                    fault = f"has more than {most_files:,} files; remove some files"
                    raise OSError(27, fault, str(path))
                if mode & _KIND == 0o040000:
                    folders_to_read.append(inside)
                    files_below.append(Brought(inside, mode & 0o777, None))
                    continue
                if mode & _KIND != _REGULAR:
                    raise OSError(22, _NOT_COPIED, f"{path}/{inside}")
                with folder.reader(name) as opened:
                    content = opened.read(bytes_left + 1)
                bytes_left -= len(content)
                if bytes_left < 0:
                    raise OSError(27, _TOO_LARGE.format(most_bytes), str(path))
                files_below.append(Brought(inside, mode & 0o777, content))
    return sorted(files_below, key=lambda brought: brought.path)


def read_file(path: str, limit: int) -> bytes:
    """Return at most `limit` bytes of a file of ours.

    Raises: OSError, also for a link and for anything else that is not a regular file.
    """
    above, _, name = path.rpartition("/")
    with Folder(above) as folder, folder.reader(name) as file:
        return file.read(limit)


def read_all(fd: int, limit: int) -> bytes:
    """Return at most `limit` + 1 bytes. The last one shows that there were more than allowed."""
    data = bytearray()
    while len(data) <= limit:
        try:
            part = system.read(fd, min(limit + 1 - len(data), 1 << 20))
        except BlockingIOError:  # a client may leave its pipes non-blocking
            from select import select

            select([fd], [], [])
            continue
        if not part:
            break
        data += part
    return bytes(data)


def write_all(fd: int, data: bytes) -> None:
    """Write all data, even if the system accepts only parts."""
    while data:
        data = data[system.write(fd, data) :]


def write_durably(folder: str, data: bytes, name: str = "") -> str:
    """Write `data` into `folder` as `name`, else under a new name; return the path. The file is
    complete and on disk then.

    The temporary file's name contains time and process, so that a reader recognises the files of a
    killed hook.

    Raises: OSError.
    """
    own = f"{time_ns():020d}-{system.getpid()}-{next(SERIAL)}.json"
    name = name or own
    with Folder(folder) as opened_folder:
        put(opened_folder, f".{own}.tmp", name, data)
    return f"{folder}/{name}"


def replace_read(
    path: "Path",
    read: bytes | None,
    content: bytes | None,
    mode: int | None = None,
    *,
    top: str = "",
    new_mode: int = 0o644,
) -> None:
    """Replace a file by new content that was made from its bytes. None means a missing file.

    The file is read again when everything except the name is on disk, because users save their
    files at any time.

    top       as for `Folder`; missing folders below it are created
    new_mode  the mode of a new file

    Raises: Changed, OSError.
    """

    def last_look() -> None:
        try:
            with folder.reader(path.name) as file:
                now = file.read(len(read or b"") + 1)
        except FileNotFoundError:
            now = None
        if now != read:
            raise Changed(f"{path} changed after it was read, so it was not written; try again")

    parent = absolute(path.parent)
    is_made = content is not None and top != ""
    if content is not None and not top:
        path.parent.mkdir(parents=True, exist_ok=True)
    with made_folder(parent, top) if is_made else Folder(parent, top) as folder:
        if content is None:
            last_look()
            folder.remove(path.name)
            folder.sync()
        else:
            replace_in(folder, path.name, content, mode, last_look, new_mode)


def replace_file(
    path: "Path",
    content: bytes,
    mode: int | None = None,
    *,
    last_look: "Callable[[], None] | None" = None,
) -> None:
    """Write a file completely or not at all, even in a crash. An existing file is replaced and
    keeps its mode.

    The temporary file always has the same name, so the next write removes one that a killed writer
    left. The project's lock keeps writers apart. `last_look` is called right before the
    replacement; its error leaves the existing file.

    Raises: OSError, also if its place has anything but a regular file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_of(path) as folder:
        replace_in(folder, path.name, content, mode, last_look)


def replace_in(
    folder: Folder,
    name: str,
    content: bytes,
    mode: int | None,
    last_look: "Callable[[], None] | None" = None,
    new_mode: int = 0o644,
) -> None:
    """Write a file of an open folder as `replace_file` does; a new file gets `new_mode`."""
    temporary = f".{name}.tmp"
    try:
        present_mode = folder.stat(name).st_mode
    except FileNotFoundError:
        present_mode = 0
    if present_mode and present_mode & _KIND != _REGULAR:
        raise OSError(22, _NOT_REGULAR, f"{folder.path}/{name}")
    folder.remove(temporary, missing_ok=True)
    put(folder, temporary, name, content, mode or present_mode & 0o777 or new_mode, last_look)


def write_named(path: "Path", content: bytes) -> None:
    """Write a file that the user or a command named: first beside its place, then under its name.

    No link is followed, because a clone could bring one at that name, or in the place of a folder
    above it.

    Raises: OSError.
    """
    mask = system.umask(0o077)
    system.umask(mask)
    with named_folder(path.parent, make=True) as folder:
        replace_in(folder, path.name, content, None, new_mode=0o666 & ~mask)


def append_named(path: "Path", line: bytes) -> None:
    """Append a line to a file that the user named, and sync it. No link is followed.

    Raises: OSError.
    """
    with named_folder(path.parent) as folder:
        fd = folder.open(path.name, system.O_WRONLY | system.O_APPEND | system.O_CREAT)
        try:
            if system.fstat(fd).st_mode & _KIND != _REGULAR:
                raise OSError(22, _NOT_REGULAR, str(path))
            write_all(fd, line)
            system.fsync(fd)
        finally:
            system.close(fd)


def named_folder(path: "Path", *, make: bool = False) -> Folder:
    """Return a folder that the user named, open. With `make`, its missing parts are created.

    Its links are followed down to the working folder or to the repository that it is in, whichever
    is further up.

    Raises: OSError for a link below that.
    """
    folder = absolute(path)
    top = _top_of(folder)
    try:
        return made_folder(folder, top) if make else Folder(folder, top)
    except OSError as error:
        if error.strerror == NOT_OURS:
            raise OSError(error.errno, _LINKED, error.filename) from None
        raise


def made_folder(path: str, top: str) -> Folder:
    """Return a folder as `Folder` opens it; its missing parts below `top` are created."""
    reached = top
    for name in path[len(top) :].split("/"):
        if not name:
            continue
        with Folder(reached, top) as folder:
            try:  # noqa: SIM105  contextlib is not worth its import
                system.mkdir(name, 0o777, dir_fd=folder.fd)
            except FileExistsError:
                pass
        reached = f"{reached.rstrip('/')}/{name}"
    return Folder(path, top)


def _top_of(folder: str) -> str:
    """Return the folder down to which the links of a path are followed."""
    from os.path import lexists

    working = absolute(".")
    top = above = folder
    while above != "/" and not lexists(f"{above}/.git"):
        above = above.rpartition("/")[0] or "/"
    if above != "/":
        top = above
    if f"{top}/".startswith(f"{working}/"):
        top = working
    while top != "/" and not lexists(top):
        top = top.rpartition("/")[0] or "/"
    return top


def put(
    folder: Folder,
    temporary: str,
    name: str,
    data: bytes,
    mode: int = 0o600,
    last_look: "Callable[[], None] | None" = None,
) -> None:
    """Write `data` into an open folder as `name`, through a temporary file. The file is complete
    and on disk then.

    `last_look` is called when everything except the name is on disk; its error leaves the existing
    file.

    Raises: OSError.
    """
    fd = folder.open(temporary, NEW)
    try:
        try:
            if mode != 0o600:
                system.fchmod(fd, mode)
            write_all(fd, data)
            system.fsync(fd)
        finally:
            system.close(fd)
        if last_look is not None:
            last_look()
        folder.replace(temporary, name)
    except BaseException as error:
        try:  # noqa: SIM105
            folder.remove(temporary)
        except OSError:  # the first error shows the reason
            pass
        if isinstance(error, OSError):
            raise with_path(error, f"{folder.path}/{name}") from None
        raise


def private_folder(path: str) -> str:
    """Create `path` as a folder for this user alone, or make it private; return it.

    Raises: OSError if a link or anything else is there.
    """
    try:
        folder = Folder(path)
    except FileNotFoundError:
        above, _, name = path.rpartition("/")
        with Folder(above) as parent:
            try:
                system.mkdir(name, 0o700, dir_fd=parent.fd)
                parent.sync()
            except FileExistsError:  # another hook was first
                pass
        folder = Folder(path)
    with folder:
        if system.fstat(folder.fd).st_mode & 0o077:
            system.fchmod(folder.fd, 0o700)
    return path


def sync_folder(path: str) -> None:
    """Make the names in a folder durable, if the file system can sync folders."""
    with Folder(path) as folder:
        folder.sync()


def state_folder(project: str) -> str:
    """Return the path of a project's state folder, `<project>/.claude/reflector`. Touches
    nothing.
    """
    return f"{project.rstrip('/')}/.claude/reflector"


def open_state(project: str) -> str:
    """Return the project's state folder, private and ignored by git, created if it is missing.

    Raises: OSError.
    """
    if not project:
        raise FileNotFoundError(
            2, "the hook ran in a deleted folder, and its input does not name a project"
        )
    state = state_folder(project)
    try:
        private_folder(state)
    except FileNotFoundError:
        try:  # noqa: SIM105
            system.mkdir(state[: state.rindex("/")])
        except FileExistsError:  # another hook was first
            pass
        private_folder(state)
    try:
        with Folder(state) as folder:
            is_ignored = folder.stat(".gitignore").st_size > 0
    except FileNotFoundError:
        is_ignored = False
    if not is_ignored:
        write_durably(state, b"*\n", ".gitignore")
    return state


def lock(fd: int, *, wait: bool, shared: bool = False) -> bool:
    """Lock an open file for this process, and return whether it is locked.

    Raises: OSError if the file system cannot lock it.
    """
    import fcntl

    try:
        fcntl.flock(
            fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        )
    except BlockingIOError:
        return False
    return True
