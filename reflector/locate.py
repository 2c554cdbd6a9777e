"""Finds the project of a folder and the user's own folders, by one rule for the hook and the
command line.

Invariant: every folder of a repository, and every linked worktree of it, belongs to one project.
The project is the nearest folder upward with a playbook or our state, else the root of the git
repository, else the folder itself. A folder of a linked worktree counts as the same folder of the
main checkout.

The hook loads this module at every start, so it imports very little and does not run git. It
recognises a linked worktree by git's own files (gitrepository-layout). Both ends must name each
other, because an archive can contain a `.git` file that points into any repository of the user's.
"""

import posix as system
import sys

from reflector.files import read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The files below a project's folder that agents read automatically.
AGENT_FILES = (
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".cursor/rules/playbook.mdc",
)
#: The most bytes of the notes about worktrees, enough for some thousands of them.
MAX_NOTES = 1 << 20
_MAX_POINTER = 4096
#: The folder below the main checkout in which the agent creates worktrees.
_WORKTREES = "/.claude/worktrees/"
#: A key of TOML with more parts than a user writes, from its beginning.
_LONG_KEY = r"""(?<![\w.-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}"""
_LONG_HEX = r"""(?<![\w"'])0[xob]\w{1000}"""
_FILE = 0o100000
_FOLDER = 0o040000


def environment(name: str) -> str:
    """Return an environment variable, "" if it is not set."""
    if os := sys.modules.get("os"):
        return str(os.environ.get(name, ""))
    return str(system.environ.get(name.encode(), b""), "utf-8", "surrogateescape")


def home_folder() -> str:
    """Return the user's home folder from the environment, "" if it is not set."""
    return environment("HOME")


def agent_folder() -> str:
    """Return the user's own folder of Claude Code: $CLAUDE_CONFIG_DIR, else ~/.claude."""
    return environment("CLAUDE_CONFIG_DIR") or f"{home_folder() or '~'}/.claude"


def agent_folders() -> list[str]:
    """Return the user's own folders of the agents, which contain their transcripts."""
    home = home_folder()
    codex = environment("CODEX_HOME") or f"{home}/.codex"
    others = (".gemini", ".copilot", ".pi", ".local/share/opencode")
    return [agent_folder(), codex, *(f"{home}/{name}" for name in others if home)]


def user_folder() -> str:
    """Return the folder of the user's own playbook,
    `${XDG_DATA_HOME:-~/.local/share}/reflector/user`.

    It is a project like any other, in a folder that is not part of a project. So every function for
    projects works on it.
    """
    return _base_folder("XDG_DATA_HOME", "/.local/share") + "/reflector/user"


def user_state() -> str:
    """Return the user's own state folder, `${XDG_STATE_HOME:-~/.local/state}/reflector`; "" for a
    user without a home.
    """
    base = _base_folder("XDG_STATE_HOME", "/.local/state")
    return "" if base == "/.local/state" else f"{base}/reflector"  # the root is not a home


#: A folder that replaces `person_folder` while a question must not leave files; "" for none.
stand_in = ""


def person_folder() -> str:
    """Return the folder of our facts about the user's ledgers, `~/.local/share/reflector/ledgers`;
    "" for a user without a home.

    The home is $HOME if that is this user's folder. If it is another user's, for example after
    `sudo`, or not set, the system's table of users decides. $XDG_DATA_HOME is not used, because it
    differs between a terminal, an editor and cron, but the ledgers are the same.
    """
    if stand_in:
        return stand_in
    home = home_folder()
    if home.startswith("/") and not _kind(home):
        return ""
    if not home.startswith("/") or not _is_own_folder(home):
        import pwd

        try:
            home = pwd.getpwuid(system.geteuid()).pw_dir
        except KeyError:
            return ""
    return f"{home.rstrip('/')}/.local/share/reflector/ledgers" if _is_own_folder(home) else ""


def own_folder(root: str) -> str:
    """Return the folder of the user's own facts about a project, "" for a user without a home.

    It is outside of the project, so a copy of the project does not contain it.
    """
    from _blake2 import blake2s  # hashlib would cost more time than the rest

    ledgers = person_folder()
    key = blake2s(root.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return f"{ledgers}/{key}" if ledgers else ""


def judge_folder() -> str:
    """Return the folder of the user's consent to let agents judge, and of a running judge; "" for a
    user without a home.
    """
    ledgers = person_folder()
    return ledgers[: -len("ledgers")] + "judge" if ledgers else ""


def is_judge() -> bool:
    """Return whether this process belongs to a judge. $REFLECTOR_JUDGING is then a word that names
    a file of the user's.

    The file exists as long as the judge runs. A program that sets the variable without knowing the
    word changes nothing.
    """
    word = environment("REFLECTOR_JUDGING")
    folder = judge_folder() if word.isalnum() and len(word) == 32 else ""
    return bool(folder) and _kind(f"{folder}/guard/{word}") != 0


def user_settings() -> str:
    """Return the folder of the user's own settings and templates,
    `${XDG_CONFIG_HOME:-~/.config}/reflector`.
    """
    return _base_folder("XDG_CONFIG_HOME", "/.config") + "/reflector"


def user_config() -> str:
    return user_settings() + "/config.toml"


def worktree_notes() -> str:
    """Return the file of notes about the worktrees of sessions, "" for a user without a home."""
    state = user_state()
    return f"{state}/worktrees" if state else ""


def _base_folder(variable: str, below_home: str) -> str:
    """Return a folder of the XDG specification, which requires to ignore relative paths."""
    base = environment(variable)
    return base if base[:1] == "/" else home_folder() + below_home


def find_project(start: str, home: str, *, users_config: str = "", notes: str = "") -> str:
    """Return the project of the folder `start`, both absolute and without symlinks; `start` may be
    gone.

    home          the user's home folder, whose own `.claude` contains the agent's settings and does
                  not make a project
    users_config  the user's own settings file, in which `worktrees = "own"` may be set
    notes         the file of notes about worktrees, each a line by `note_of`
    """
    folder = _in_main_checkout(start.rstrip("/") or "/")
    root, main = linked_worktree(folder, home)
    if not main:
        root, main = _noted(folder, root, notes) or (root, main)
    settings = [f"{checkout}/.claude/reflector.toml" for checkout in (root, main)]
    if main and setting("worktrees", *settings, users_config) != "own":
        folder = main + folder[len(root) :]
        root = main
    is_inside_repository = bool(root)
    for candidate in _upward(folder, home):
        may_apply = is_inside_repository or candidate == folder or _is_a_persons(candidate)
        if may_apply and is_project(candidate):
            return candidate
        if candidate == root:
            is_inside_repository = False
    return root or folder


def linked_worktree(folder: str, home: str) -> tuple[str, str]:
    """Return the root of the repository that a folder is in, and its main checkout if it is a
    linked worktree. Each is "" if there is none.
    """
    root = repository(folder, home)
    return root, main_checkout(root) if root else ""


def note_of(root: str, main: str) -> str:
    """Return the note that a worktree belongs to a main checkout; "" if no note is needed or
    possible.

    A worktree below its main checkout is found from there, even if it is gone.
    """
    if not main or root.startswith(main.rstrip("/") + "/"):
        return ""
    fits_a_line = root.isprintable() and main.isprintable()
    return f"{root}\t{main}\n" if fits_a_line else ""


def is_project(folder: str) -> bool:
    """Return whether a folder has a playbook, settings or state of ours. True also if it cannot be
    read, because it may have them.
    """
    claude = folder.rstrip("/") + "/.claude/"
    if any(_kind(claude + name) for name in ("playbook.json", "reflector", "reflector.toml")):
        return True
    return _kind(claude[:-1]) == _FOLDER and not system.access(claude, system.X_OK)


def exists(folder: str) -> bool:
    return _kind(folder) == _FOLDER


def repository(folder: str, home: str) -> str:
    """Return the nearest folder upward with a `.git`; "" without one."""
    return next((at for at in _upward(folder, home) if _kind(at.rstrip("/") + "/.git")), "")


def main_checkout(root: str) -> str:
    """Return the main checkout of the linked worktree at `root`; "" if `root` is not a linked
    worktree.

    A bare repository has no main checkout. If its own name begins with a dot (`shop/.bare`), its
    folder takes that part, else the repository itself (`shop.git`).
    """
    pointer = _line(root + "/.git")
    if not pointer.startswith("gitdir:"):
        return ""
    admin = _joined(root, pointer[len("gitdir:") :].strip())
    worktrees, _, _ = admin.rpartition("/")
    common, _, name = worktrees.rpartition("/")
    if name != "worktrees" or _joined(admin, _line(admin + "/commondir")) != common:
        return ""  # a submodule, or a repository with its git folder elsewhere
    if not _is_same(_joined(admin, _line(admin + "/gitdir")), root + "/.git"):
        return ""
    above, _, name = common.rpartition("/")
    return (above or "/") if name[:1] == "." else common


def worktrees(checkout: str) -> list[str]:
    """Return the linked worktrees that git lists for a main checkout, including those whose folder
    is gone.
    """
    for common in (checkout + "/.git", checkout + "/.bare", checkout):
        if _kind(common + "/HEAD") != _FILE:
            continue  # a folder of the repository with the name of one of git's folders
        try:
            names = system.listdir(common + "/worktrees")
        except OSError:
            continue
        links = []
        for name in names:
            admin = f"{common}/worktrees/{name}"
            if pointer := _line(admin + "/gitdir"):
                links.append(_joined(admin, pointer))
        return sorted(link.removesuffix("/.git") for link in links if link.endswith("/.git"))
    return []


def _in_main_checkout(folder: str) -> str:
    """Return the folder of the main checkout that corresponds to one in a worktree that the agent
    created and removed. Any other folder is returned as it is.

    No file shows any more that it was a worktree, and its sub-folders may belong to different
    projects.
    """
    checkout, made, below = folder.rpartition(_WORKTREES)
    name, _, rest = below.partition("/")
    if not made or _kind(checkout + made + name):
        return folder
    return _in_main_checkout(f"{checkout}/{rest}".rstrip("/") or "/")


def _upward(folder: str, home: str) -> list[str]:
    """Return a folder and the folders above it, the nearest first, without the home folder."""
    folders = [folder]
    while folder not in ("/", "", home):
        folder = folder.rpartition("/")[0] or "/"
        if folder == home:
            break
        folders.append(folder)
    return folders


def _noted(folder: str, root: str, notes: str) -> tuple[str, str] | None:
    """Return the removed worktree that contained a folder, and the worktree's main checkout.

    The newest note about the folder decides. The result is None without such a note, or if another
    repository is now in the worktree's place.

    root   the folder's repository now
    notes  the file of notes; "" for none
    """
    if not notes:
        return None
    lines = _read(notes, MAX_NOTES).decode(errors="replace").splitlines()
    for line in reversed(lines):
        worktree, _, main = line.partition("\t")
        if main and f"{folder}/".startswith(f"{worktree}/"):
            is_another = len(root) >= len(worktree) or is_project(worktree)
            return None if is_another else (worktree, main)
    return None


def setting(key: str, *files: str) -> object:
    """Return a setting from the environment, else from the first of these files that has it; None
    for the default.
    """
    said: object = environment(f"REFLECTOR_{key.upper()}") or None
    for path in files:
        said = _in_file(path, key) if said is None else said
    return said


def _in_file(path: str, key: str) -> object:
    """Return the setting in a file. None if the file does not have it or cannot be read, because a
    command then reports the reason.
    """
    text = _read(path, 1 << 20) if path else b""
    if key.encode() not in text:
        return None
    try:
        return parse_toml(text.decode()).get(key)
    except ValueError:
        return None


def parse_toml(text: str) -> "dict[str, Any]":
    """Return the content of a text of TOML.

    Raises: ValueError, and no other error.
    """
    import re
    import tomllib  # costs milliseconds, so only if there are settings

    # The parser's time grows with the square of the number of a key's parts, so a file of a
    # repository could take minutes.
    if re.search(_LONG_KEY, text):
        raise ValueError("a key has more than 100 parts")
    # Such a number can be read, but not printed again.
    if re.search(_LONG_HEX, text):
        raise ValueError("a number has thousands of digits")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # Python's own limit for numbers
        raise ValueError("a number has thousands of digits") from None
    except RecursionError:
        raise ValueError("the file is nested too deeply") from None


def _kind(path: str) -> int:
    """Return the type bits of the file at a path, 0 if it is missing."""
    try:
        return int(system.lstat(path).st_mode) & 0o170000
    except (OSError, ValueError):
        return 0


def _is_own_folder(path: str) -> bool:
    try:
        folder = system.stat(path)
    except (OSError, ValueError):
        return False
    return folder.st_mode & 0o170000 == _FOLDER and folder.st_uid == system.geteuid()


def _is_a_persons(folder: str) -> bool:
    """Return whether a folder above the repository may be a project, because other users cannot
    write in it and its `.claude` is this user's.

    Otherwise a playbook that another user leaves in `/tmp` would apply everywhere below it, and one
    in `/` everywhere.
    """
    try:
        mode = int(system.lstat(folder).st_mode)
        return (
            folder != "/"
            and not mode & 0o002
            and system.lstat(folder + "/.claude").st_uid == system.geteuid()
        )
    except OSError:
        return False


def _is_same(one: str, other: str) -> bool:
    try:
        first = system.stat(one)
        second = system.stat(other)
    except (OSError, ValueError):
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _line(path: str) -> str:
    """Return the text of a small file that contains one path, "" for anything else."""
    text = _read(path, _MAX_POINTER)
    return text.decode("utf-8", "surrogateescape").strip() if b"\0" not in text else ""


def _read(path: str, limit: int) -> bytes:
    """Return a regular file's bytes, b"" if it is missing or longer."""
    try:
        text = read_file(path, limit + 1)
    except (OSError, ValueError):
        return b""
    return text if len(text) <= limit else b""


def _joined(base: str, path: str) -> str:
    """Return an absolute path without `.` and `..` from a path in git's files, which is absolute or
    relative to `base`.
    """
    parts: list[str] = []
    for part in (path if path[:1] == "/" else f"{base}/{path}").split("/"):
        if part == "..":
            parts[1:] = parts[1:-1]
        elif part not in ("", ".") or not parts:
            parts.append(part)
    return "/".join(parts) or "/"
