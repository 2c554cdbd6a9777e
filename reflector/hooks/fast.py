"""The hook: hands the playbook to the agent, and keeps what the agent reports in one durable file.

Invariant: the hook never hurts the agent. Whatever comes in on stdin and whatever the disk does, it
exits 0, prints only what the event's contract allows, and takes about the time in which the interpreter
starts. A delivery that was taken is on disk, whole, before the hook ends; nothing half-written is visible.

Run by `hooks/__main__.py`, by `reflector hook`, or as a file, which is what older settings call. Each import costs the
agent's user milliseconds at every session's start and end, so the road that is taken every time uses
`sys`, `time`, `posix`, `_json` and `reflector.locate` only; `re`, `json` or `pathlib` alone would cost more than all of
it. What is slow (rendering, a project that cannot be written) imports what it needs when it happens.

The state folder that it fills is described in `reflector.hooks.spool`.
"""

# pathlib would cost more than everything that is done here:
# ruff: noqa: PTH102, PTH109, PTH116, PTH208

import sys
from time import time_ns

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os

try:
    import posix as system
except ImportError:  # Windows: slower, and the same from here on
    import os as system  # type: ignore[no-redef]

#: More than this on stdin is no hook payload; its first part is kept aside as broken.
MAX_PAYLOAD = 8 * 1024 * 1024
#: Form of injection.txt and of the text in it. Raise it when prompts/playbook.txt or the rendering
#: changes: texts rendered by an older version are then rendered afresh.
INJECTION_FORM = b"reflector-injection/1"
MAX_INJECTION = 128 * 1024
#: How the form for a subagent begins.
SUBAGENT = b'{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":'
#: The end of a turn, which is no session's end: of Claude Code and Codex, and of Gemini CLI.
STOPS = ("Stop", "AfterAgent")
NO_FOLLOW = getattr(system, "O_NOFOLLOW", 0)
BINARY = getattr(system, "O_BINARY", 0)
NO_WAIT = getattr(system, "O_NONBLOCK", 0)
FOLDER = system.O_RDONLY | getattr(system, "O_DIRECTORY", 0)
NEW = system.O_WRONLY | system.O_CREAT | system.O_EXCL
NOT_OURS = (
    "is a link, or a file in the place of a folder: put there what should be there, or name the project that it leads "
    "to with --project"
)
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: Tells names apart that one process makes within one tick of a coarse clock.
SERIAL = iter(range(1 << 62))
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class Broken(Exception):
    """The payload is not what a hook is given; its words say why."""


def environment(name: str) -> str:
    """An environment variable, "" where it is not set."""
    if system.__name__ == "posix":
        return str(system.environ.get(name.encode(), b""), "utf-8", "surrogateescape")
    return system.environ.get(name, "")  # type: ignore[call-overload,no-any-return]


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
    """One of our folders, open: what is done in it is done there, wherever its path leads meanwhile.

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
            raise told(error, top) from None
        self.fd = fd

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd is not None:
            system.close(self.fd)

    def open(self, name: str, flags: int = system.O_RDONLY, mode: int = 0o600) -> int:
        """A descriptor of a file in it, which is neither followed as a link nor waited for as a pipe."""
        try:
            return system.open(self.at + name, flags | NO_FOLLOW | NO_WAIT | BINARY, mode, dir_fd=self.fd)
        except OSError as error:
            raise told(error, f"{self.path}/{name}") from None

    def stat(self, name: str) -> "os.stat_result":
        """The state of what has this name here, be it a link."""
        return system.stat(self.at + name, dir_fd=self.fd, follow_symlinks=False)

    def replace(self, old: str, new: str) -> None:
        """Give a file in it another name, durably."""
        system.replace(self.at + old, self.at + new, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        self.sync()

    def remove(self, name: str) -> None:
        """Remove a file from it."""
        system.unlink(self.at + name, dir_fd=self.fd)

    def sync(self) -> None:
        """Make the names in it durable, where the system can sync folders."""
        try:
            if self.fd is not None:
                system.fsync(self.fd)
        except OSError as error:
            if error.errno != 22:  # EINVAL: this file system has no such thing
                raise


def told(error: OSError, path: str) -> OSError:
    """An error with the whole path, and in words where a link or a file has the place of what is ours."""
    # ENOTDIR, and ELOOP on Linux and macOS
    return OSError(error.errno, NOT_OURS if error.errno in (20, 40, 62) else error.strerror, path)


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


class _Decoding:
    """What the C scanner wants to know; the json package would only wrap it."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def decode(raw: bytes) -> tuple[dict[str, object], str]:
    """The payload and its text. Raises Broken unless it is one JSON object that names its event, ImportError or
    OSError where the interpreter cannot load what reads JSON."""
    try:
        # UTF-8 is built in; any other codec is a file that may not be readable.
        text = raw.removeprefix(BYTE_ORDER_MARK).decode().strip(" \t\r\n")
    except UnicodeDecodeError as error:
        raise Broken(f"not UTF-8 at byte {error.start}") from None
    if not text:
        raise Broken("empty")
    try:
        try:
            from _json import make_scanner

            payload, end = make_scanner(_Decoding)(text, 0)  # type: ignore[arg-type]
            if end != len(text):
                raise Broken(f"more than one JSON value: the first ends at character {end}")
        except (ImportError, OSError, StopIteration, SystemError):
            # No C scanner here, or it met an error that it can put into words only where json was imported.
            from json import loads

            payload = loads(text)
    except (ValueError, RecursionError) as error:
        raise Broken(f"not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise Broken(f"a JSON {type(payload).__name__}, not an object")
    event = payload.get("hook_event_name")
    if not isinstance(event, str) or not event:
        raise Broken("no hook_event_name")
    return payload, text


def project_of(payload: dict[str, object]) -> str:
    """The project of the session's folder, absolute; "" for none.

    $REFLECTOR_PROJECT names it. Else it is found from the session's folder, as the command line finds it.
    """
    if named := environment("REFLECTOR_PROJECT"):
        return physical(named)
    start = start_of(payload)
    if not start:
        return ""
    reach_package()
    from reflector.locate import find_project

    return find_project(start, user_home(), users_config=user_config(), notes=worktree_notes())


def start_of(payload: dict[str, object]) -> str:
    """The session's folder: $CLAUDE_PROJECT_DIR, where it was started, else the payload's cwd, else our own."""
    start = environment("CLAUDE_PROJECT_DIR")
    cwd = payload.get("cwd")
    if not start and isinstance(cwd, str) and "\0" not in cwd:
        start = cwd
    return physical(start or ".")


def note_worktree(payload: dict[str, object]) -> None:
    """Note whose linked worktree a session is in: when it ends, the worktree may be gone, and git knows nothing."""
    reach_package()
    from reflector.locate import MAX_NOTES, linked_worktree, note_of

    root, main = linked_worktree(start_of(payload), user_home())
    note = note_of(root, main).encode()
    if not note:
        return
    folder, _, name = worktree_notes().rpartition("/")
    try:
        known = read_file(f"{folder}/{name}", MAX_NOTES)
    except FileNotFoundError:
        from reflector.hooks.fallback import open_own

        known, folder = b"", open_own()
    # The newest note of a worktree is the one that is true.
    if [line for line in known.splitlines(keepends=True) if line.startswith(f"{root}\t".encode())][-1:] == [note]:
        return
    if len(known) + len(note) > MAX_NOTES:
        write_durably(folder, known[len(known) // 2 :].partition(b"\n")[2] + note, name)
        return
    with Folder(folder) as state:
        fd = state.open(name, system.O_WRONLY | system.O_CREAT | system.O_APPEND)
    try:
        write_all(fd, note)  # in one piece: many sessions may start at once
    finally:
        system.close(fd)


def physical(folder: str) -> str:
    """A folder's absolute path without symlinks; as it was given where it is gone, "" where that says nothing."""
    here = ""
    try:
        here = system.getcwd()
        system.chdir(folder)
        folder = system.getcwd()
    except (OSError, ValueError):
        if folder[:1] != "/" and folder[1:2] != ":":
            return ""
    if here:
        system.chdir(here)  # the payload's paths may be relative to it
    return (folder.replace("\\", "/") if folder[1:2] == ":" else folder).rstrip("/") or "/"


def keeper_of(project: str) -> str:
    """Who keeps what a session in `project` says: the project, else the user's own playbook.

    "" where neither has a playbook: the agent was told nothing, so it can cite nothing, and no ledger is made for it.
    What a project that is gone had, nobody can tell.
    """
    reach_package()
    from reflector.locate import exists, is_project

    if is_project(project) or not exists(project) or environment("REFLECTOR_LEDGER_URL"):
        return project
    if is_project(user_folder()):
        return user_folder()
    try:  # a ledger that the user named for all projects may know this one's playbook
        return project if b"ledger_url" in read_file(user_config(), MAX_PAYLOAD) else ""
    except OSError:
        return ""


def private_folder(path: str) -> str:
    """Make `path` a folder for this user alone. Raises OSError where a link or anything else stands there."""
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

    The temporary file's name carries time and process: a reader can tell what a killed hook left behind.
    """
    own = f"{time_ns():020d}-{system.getpid()}-{next(SERIAL)}.json"
    name = name or own
    with Folder(folder) as held:
        replace_file(held, f".{own}.tmp", name, data)
    return f"{folder}/{name}"


def replace_file(folder: Folder, temporary: str, name: str, data: bytes, mode: int = 0o600) -> None:
    """Put `data` into an open folder as `name`, by way of a temporary file; whole and on disk, or OSError."""
    fd = folder.open(temporary, NEW)
    try:
        try:
            if mode != 0o600 and folder.fd is not None:
                system.fchmod(fd, mode)
            write_all(fd, data)
            system.fsync(fd)
        finally:
            system.close(fd)
        folder.replace(temporary, name)
    except BaseException:
        folder.remove(temporary)
        raise


def state_folder(project: str) -> str:
    """Where a project's state is: `<project>/.claude/reflector`. Touches nothing."""
    return f"{project.rstrip('/')}/.claude/reflector"


def open_state(project: str) -> str:
    """The project's state folder, made where it is missing. Raises OSError where it cannot be ours."""
    if not project:
        raise FileNotFoundError(2, "the hook ran in a folder that is gone, and nobody named the project")
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


def file_name(identity: str) -> str:
    """A file name for whatever a client calls a session: itself where that is plain, else a digest of it."""
    if 0 < len(identity) <= 100 and PLAIN.issuperset(identity):
        return identity + ".json"
    from hashlib import sha256

    return f"~{sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()}.json"


def words(payload: dict[str, object], key: str) -> str:
    """A value of the payload where it is text, else ""."""
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def record(project: str, payload: dict[str, object], text: str) -> bytes:
    """One delivery as it is kept: the payload verbatim, and what only this moment knows."""
    # A subagent's stop names the parent's transcript too; its size would be taken for the subagent's.
    key = "agent_transcript_path" if payload["hook_event_name"] == "SubagentStop" else "transcript_path"
    try:
        size = str(system.stat(words(payload, key)).st_size)
    except (OSError, ValueError):  # not there (yet), or no path at all
        size = "null"
    return enclosed(project, size, text.encode())


def enclosed(project: str, transcript_bytes: str, payload: bytes) -> bytes:
    """A record around a payload."""
    head = f'{{"v":1,"received_at_ns":{time_ns()},"project":{quoted(project) if project else "null"},'
    return f'{head}"transcript_bytes":{transcript_bytes},"payload":'.encode() + payload + b"}\n"


def quoted(text: str) -> str:
    """A JSON string in ASCII, made without a module: what is in memory by now is not lost for want of one."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    units = []
    for letter in text:
        code = ord(letter)
        units += [code] if code < 0x10000 else [0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)]
    return '"' + "".join([f"\\u{unit:04x}" for unit in units]) + '"'


def keep(state: str, payload: dict[str, object] | None, data: bytes) -> str:
    """File one delivery under a state folder: broken (no payload), waiting (Stop), else the spool."""
    spool = private_folder(state + "/spool")
    if payload is None:
        return write_durably(private_folder(spool + "/broken"), data)
    if payload["hook_event_name"] in STOPS:
        session = words(payload, "session_id") or words(payload, "transcript_path")
        return write_durably(private_folder(spool + "/waiting"), data, file_name(session))
    return write_durably(spool, data)


def injection_stamp(project: str, playbook: object = None) -> bytes:
    """What a rendered text was made from: form, and the state of both playbooks and of the user's templates.

    playbook  the stat result of the playbook.json that was read; looked up where it is not given
    Raises OSError where there is no playbook.json.
    """
    claude = project.rstrip("/") + "/.claude"
    parts = [state_of(playbook or system.lstat(claude + "/playbook.json"))]
    users = user_folder() + "/.claude/playbook.json"
    for path in (users, claude + "/reflector/prompts/playbook.txt", user_template()):
        try:
            parts.append(state_of(system.stat(path)))
        except OSError:
            parts.append("-")
    return INJECTION_FORM + b" " + " ".join(parts).encode()


def state_of(found: object) -> str:
    """What changes with a file, from its stat result: more than a repository or an archive could foresee."""
    one = found
    return f"{one.st_dev} {one.st_ino} {one.st_mtime_ns} {one.st_ctime_ns} {one.st_size}"  # type: ignore[attr-defined]


def user_config() -> str:
    """The user's own settings file, as `reflector.config` says."""
    return base_folder("XDG_CONFIG_HOME", "/.config") + "/reflector/config.toml"


def user_template() -> str:
    """Where a user may keep a playbook template for all projects."""
    return base_folder("XDG_CONFIG_HOME", "/.config") + "/reflector/prompts/playbook.txt"


def worktree_notes() -> str:
    """Where it is noted whose worktrees sessions were started in, below the state folder of `reflector.user_folder`."""
    return base_folder("XDG_STATE_HOME", "/.local/state") + "/reflector/worktrees"


def user_folder() -> str:
    """Where the user's own playbook is, as `reflector.user_folder` says."""
    return base_folder("XDG_DATA_HOME", "/.local/share") + "/reflector/user"


def user_home() -> str:
    """The user's home folder, without symlinks."""
    return physical(environment("HOME") or environment("USERPROFILE") or "/")


def base_folder(variable: str, default: str) -> str:
    """A folder of the XDG specification: relative paths are to be ignored."""
    base = environment(variable)
    return base if base[:1] == "/" else (environment("HOME") or environment("USERPROFILE")) + default


def reach_package() -> None:
    """Make our own modules importable where this file was run by its path; for roads taken rarely."""
    if __name__ == "__main__":
        sys.path.insert(0, __file__.replace("\\", "/").rsplit("/", 3)[0])


def injection(project: str) -> tuple[bytes, bytes]:
    """What a start prints, as the JSON object for a subagent and as text; two times b"" for nothing."""
    try:
        stamp = injection_stamp(project)
    except (OSError, ValueError):  # a project without a playbook is told the user's own
        project = user_folder()
        try:
            stamp = injection_stamp(project)
        except (OSError, ValueError):
            return b"", b""
    try:
        kept = read_file(state_folder(project) + "/injection.txt", MAX_INJECTION)
    except OSError:
        kept = b""
    if not kept.startswith(stamp + b"\n"):
        reach_package()
        try:
            from reflector.hooks.injection import write_injection

            kept = write_injection(project)
        except Exception as error:  # noqa: BLE001  no playbook is worth the agent's session
            complain(f"the playbook is not told: {error}")
            return b"", b""
    _, as_json, text = kept.split(b"\n", 2)
    # What begins as JSON would be obeyed and not read.
    return (as_json, text) if as_json.startswith(SUBAGENT) and text[:1] != b"{" else (b"", b"")


def has_work(state: str) -> bool:
    """Whether a delivery lies in the spool or waits there."""
    for folder in (state + "/spool", state + "/spool/waiting"):
        try:
            names = system.listdir(folder)
        except OSError:
            continue
        if any(name.endswith(".json") and name[0] != "." for name in names):
            return True
    return False


def start_drain(project: str) -> None:
    """Start `reflector drain` in a session of its own, holding nothing of ours open. Raises OSError."""
    if environment("REFLECTOR_NO_SPAWN") == "1" or not sys.executable:
        return
    command = [sys.executable, "-I", "-m", "reflector", "--project", project, "drain", "--background"]
    try:
        spawn = system.posix_spawn
        null = system.open("/dev/null", system.O_RDWR)
        # The agent waits for the end of every pipe it gave us, whoever holds it.
        system.closerange(null + 1 if null > 2 else 3, 256)
        streams = [(system.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
        system.chdir("/")
        spawn(sys.executable, command, system.environ, file_actions=streams, setsid=True)
    except (AttributeError, NotImplementedError):  # a system that cannot spawn into a new session
        reach_package()
        from reflector.hooks.detach import start_detached

        start_detached(command)


def note_fired(project: str, event: object) -> None:
    """Leave the time of an event's last hook, for `doctor`; a project without a state folder gets none for it."""
    if not project or not isinstance(event, str) or not event.isalnum() or len(event) > 40:
        return
    folder = state_folder(project) + "/fired"
    try:
        try:
            with Folder(folder) as fired:
                system.utime(fired.at + event, dir_fd=fired.fd, follow_symlinks=False)
        except (FileNotFoundError, NotImplementedError):
            with Folder(private_folder(folder)) as fired:
                system.close(fired.open(event, system.O_WRONLY | system.O_CREAT | system.O_TRUNC))
    except OSError:
        pass


def complain(text: str) -> None:
    """One line on stderr, where the agent shows it only when it is asked to."""
    # A path may hold what a terminal obeys.
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split()))
    try:  # noqa: SIM105  contextlib is not worth its import
        write_all(2, f"reflector: {shown[:1900]}\n".encode("utf-8", "replace"))
    except OSError:
        pass


def deliver(project: str, payload: dict[str, object] | None, data: bytes) -> str:
    """Keep one delivery with its project, or with the user where the project cannot be written."""
    try:
        return keep(open_state(project), payload, data)
    except (OSError, ValueError) as first:
        reach_package()
        from reflector.hooks.fallback import keep_elsewhere

        try:
            return keep_elsewhere(payload, data)
        except OSError as second:
            raise OSError(f"{first}; {second}") from None


def note_unheard(project: str, told: str) -> None:
    """Leave a trace, for `status`, of a payload that never came; none in a folder that nobody calls a project."""
    try:
        if not environment("CLAUDE_PROJECT_DIR"):
            system.stat(state_folder(project))
    except (OSError, ValueError):
        return
    deliver(project, None, f"{told}\n".encode("utf-8", "replace"))


def hook() -> None:
    """Take one event from stdin and do what it asks for. Raises what goes wrong."""
    try:
        raw = read_all(0, MAX_PAYLOAD)
    except OSError as error:  # started without a stdin, for one
        told = f"nothing kept: stdin cannot be read: {error}"
        complain(told)
        note_unheard(project_of({}), told)
        return
    try:
        if len(raw) > MAX_PAYLOAD:
            raise Broken(f"more than {MAX_PAYLOAD} bytes")
        payload, text = decode(raw)
    except Broken as error:
        project = project_of({})
        path = deliver(project and keeper_of(project), None, raw[:MAX_PAYLOAD])
        complain(f"the payload is broken ({error}); kept as {path}")
        return
    except (ImportError, OSError) as error:
        # Whoever takes the spool in parses it again.
        project = project_of({})
        data = enclosed(project, "null", raw.removeprefix(BYTE_ORDER_MARK))
        complain(f"the payload was not read ({error}); kept as {deliver(project, {'hook_event_name': ''}, data)}")
        return
    event = payload["hook_event_name"]
    project = project_of(payload)
    if event in ("SessionStart", "SubagentStart") and not project:
        return
    if event == "SubagentStart":
        write_all(1, injection(project)[0])
        note_fired(project, event)
        return
    if event == "SessionStart":
        # Gemini CLI takes plain text for a note to its user.
        write_all(1, injection(project)[0 if environment("GEMINI_SESSION_ID") else 1])
        drain = has_work(state_folder(project))
    else:
        if project and not (project := keeper_of(project)):
            return
        deliver(project, payload, record(project, payload, text))
        drain = event not in STOPS
    note_fired(project, event)
    try:  # noqa: SIM105  contextlib is not worth its import
        note_worktree(payload)
    except (OSError, ValueError):
        pass
    if drain:
        try:
            start_drain(project)
        except (OSError, ValueError) as error:
            complain(f"the drain was not started, the next hook or command will: {error}")


def main() -> None:
    """Run the hook and end the process at once: tearing the interpreter down costs as much as our work."""
    try:
        hook()
    except BaseException as error:  # noqa: BLE001  the agent takes any other exit code for a verdict on its work
        complain(f"nothing kept: {type(error).__name__}: {error}")
    system._exit(0)


if __name__ == "__main__":
    main()
