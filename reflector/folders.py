"""Folders and files of ours, held open, so that a path that changes meanwhile leads nowhere else.

Invariant: no link below a `.claude` is followed, a file is read within bounds and never waited for, and a file that was
written is on disk, whole, before the call returns. The hook loads this at every start, so it imports next to nothing;
`reflector.files` gives the same to those who work with `Path`.
"""

# pathlib would cost more than everything that is done here:
# ruff: noqa: PTH102

from time import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable

try:
    import posix as system
except ImportError:  # Windows: slower, and the same from here on
    import os as system  # type: ignore[no-redef]

NO_FOLLOW = getattr(system, "O_NOFOLLOW", 0)
BINARY = getattr(system, "O_BINARY", 0)
NO_WAIT = getattr(system, "O_NONBLOCK", 0)
FOLDER = system.O_RDONLY | getattr(system, "O_DIRECTORY", 0)
NEW = system.O_WRONLY | system.O_CREAT | system.O_EXCL
NOT_OURS = (
    "is a link, or a file in the place of a folder: put there what should be there, or name the project that it leads "
    "to with --project"
)
#: Tells names apart that one process makes within one tick of a coarse clock.
SERIAL = iter(range(1 << 62))


def read_all(fd: int, limit: int) -> bytes:
    """Up to `limit` + 1 bytes: one more than allowed shows that there was more."""
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


class Folder:
    """One of our folders, held open: its files are reached by it, not by its path.

    Links are followed above the last `.claude` only: a repository could ship one, and we would read and write wherever
    it points. Raises OSError for a link, and for anything else that is not a folder. Windows cannot work below an open
    folder: there `fd` is None, and a name is put behind `at`.
    """

    def __init__(self, path: str) -> None:
        self.path, self.at = path, ""
        self.fd: int | None = None
        if system.__name__ != "posix":
            if system.lstat(path).st_mode & 0o170000 != 0o040000:
                raise OSError(20, NOT_OURS, path)
            self.at = path + "/"
            return
        top, claude, below = f"{path}/".rpartition("/.claude/")
        fd = system.open(f"{top}/" if claude else below, FOLDER)
        try:
            for name in f".claude/{below}".rstrip("/").split("/") if claude else ():
                top += f"/{name}"
                above, fd = fd, system.open(name, FOLDER | NO_FOLLOW, dir_fd=fd)
                system.close(above)
        except OSError as error:
            system.close(fd)
            raise with_path(error, top) from None
        self.fd = fd

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            system.close(self.fd)

    def open(self, name: str, flags: int = system.O_RDONLY, mode: int = 0o600) -> int:
        """Return a descriptor of a file in it, which is neither followed as a link nor waited for as a pipe."""
        try:
            return system.open(self.at + name, flags | NO_FOLLOW | NO_WAIT | BINARY, mode, dir_fd=self.fd)
        except OSError as error:
            # A new file may have a name that nobody knows, and what refuses it is its folder.
            is_new = flags & NEW == NEW and error.errno != 17  # EEXIST
            raise with_path(error, self.path if is_new else f"{self.path}/{name}") from None

    def stat(self, name: str) -> "os.stat_result":
        """Return the state of what has this name here, be it a link."""
        return system.stat(self.at + name, dir_fd=self.fd, follow_symlinks=False)

    def replace(self, old: str, new: str) -> None:
        """Give a file in it another name, durably."""
        try:
            system.replace(self.at + old, self.at + new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except OSError as error:
            raise with_path(error, f"{self.path}/{new}") from None
        self.sync()

    def remove(self, name: str) -> None:
        """Remove a file from it."""
        try:
            system.unlink(self.at + name, dir_fd=self.fd)
        except OSError as error:
            raise with_path(error, f"{self.path}/{name}") from None

    def sync(self) -> None:
        """Make the names in it durable, where the system can sync folders."""
        try:
            if self.fd is not None:
                system.fsync(self.fd)
        except OSError as error:
            if error.errno != 22:  # EINVAL: this file system has no such thing
                raise


def with_path(error: OSError, path: str) -> OSError:
    """Return an error with the whole path, and in words where a link or a file has the place of what is ours."""
    # ENOTDIR, and ELOOP on Linux and macOS
    return OSError(error.errno, NOT_OURS if error.errno in (20, 40, 62) else error.strerror, path)


def error_words(error: BaseException) -> str:
    """Return an error's text; of the system's own, the path and what is wrong, without the number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def read_file(path: str, limit: int) -> bytes:
    """At most `limit` bytes of a file of ours. Raises OSError for a link, and for what is not a regular file."""
    above, _, name = path.rpartition("/")
    with Folder(above) as folder:
        fd = folder.open(name)
    try:
        if system.fstat(fd).st_mode & 0o170000 != 0o100000:
            raise OSError(22, "is not a regular file; put one there, or remove it", path)
        return read_all(fd, limit)[:limit]
    finally:
        system.close(fd)


def private_folder(path: str) -> str:
    """Make `path` a folder for this user alone. Raises OSError if a link or anything else is there."""
    try:
        folder = Folder(path)
    except FileNotFoundError:
        above, _, name = path.rpartition("/")
        with Folder(above) as parent:
            try:
                system.mkdir(parent.at + name, 0o700, dir_fd=parent.fd)
                parent.sync()
            except FileExistsError:  # another hook was first
                pass
        folder = Folder(path)
    with folder:
        if folder.fd is not None and system.fstat(folder.fd).st_mode & 0o077:
            system.fchmod(folder.fd, 0o700)
    return path


def sync_folder(path: str) -> None:
    """Make the names in a folder durable, where the system can sync folders."""
    with Folder(path) as folder:
        folder.sync()


def write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[system.write(fd, data) :]


def write_durably(folder: str, data: bytes, name: str = "") -> str:
    """Put `data` into `folder` as `name`, else under a new name; whole and on disk, or OSError.

    The temporary file's name carries time and process: a reader recognises the files of a killed hook.
    """
    own = f"{time_ns():020d}-{system.getpid()}-{next(SERIAL)}.json"
    name = name or own
    with Folder(folder) as held:
        replace_file(held, f".{own}.tmp", name, data)
    return f"{folder}/{name}"


def replace_file(
    folder: Folder,
    temporary: str,
    name: str,
    data: bytes,
    mode: int = 0o600,
    last_look: "Callable[[], None] | None" = None,
) -> None:
    """Put `data` into an open folder as `name`, by way of a temporary file; whole and on disk, or OSError.

    What `last_look` raises, once everything is on disk but the name, leaves the file that is there.
    """
    fd = folder.open(temporary, NEW)
    try:
        try:
            if mode != 0o600 and folder.fd is not None:
                system.fchmod(fd, mode)
            write_all(fd, data)
            system.fsync(fd)
        finally:
            system.close(fd)
        if last_look is not None:
            last_look()
        folder.replace(temporary, name)
    except BaseException as error:
        try:  # noqa: SIM105  contextlib is not worth its import
            folder.remove(temporary)
        except OSError:  # the first error says why
            pass
        if isinstance(error, OSError):
            raise with_path(error, f"{folder.path}/{name}") from None
        raise


def state_folder(project: str) -> str:
    """Return where a project's state is: `<project>/.claude/reflector`. Touches nothing."""
    return f"{project.rstrip('/')}/.claude/reflector"


def open_state(project: str) -> str:
    """Return the project's state folder, made where it is missing. Raises OSError where it cannot be ours."""
    if not project:
        raise FileNotFoundError(2, "the hook ran in a folder that is gone, and no project was named")
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
            folder.stat(".gitignore")
    except FileNotFoundError:
        write_durably(state, b"*\n", ".gitignore")
    return state
