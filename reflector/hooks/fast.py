"""The hook: prints the playbook for the agent, and keeps the agent's report in one durable file.

Invariant: the hook never harms the agent. Whatever stdin contains and whatever the disk does, it
exits with 0, prints only what the event's contract allows, and takes about as long as the
interpreter's start. An accepted delivery is completely on disk before the hook ends, and no
half-written file is visible.

`hooks/__main__.py` and `reflector hook` run it, and older settings run it as a file. Each import
costs the user milliseconds at every start and end of a session. So the usual path uses only `sys`,
`time`, `posix`, `_json` and our own `files`, `locate` and `handover`. `re`, `json` or `pathlib`
alone would cost more than all of it. Slow work, such as rendering or a project that cannot be
written, imports its modules when it happens.

`reflector.sessions.spool` describes the state folder that the hook fills.
"""

# pathlib would cost more time than everything in this module:

import posix as system
import sys
from time import time_ns

if __name__ == "__main__":
    sys.path.insert(0, __file__.rsplit("/", 3)[0])

from reflector import files, handover, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Payload = dict[str, object]

MAX_INJECTION = 128 * 1024
#: The lines of a rendered file before the text for the agent.
_HEAD_LINES = 4
#: The beginning of the form for a subagent.
SUBAGENT = b'{"hookSpecificOutput":{"hookEventName":"SubagentStart","additionalContext":'
#: The part of the form for a session's start after the line for the user.
_START = b',"hookSpecificOutput":{"hookEventName":"SessionStart","additionalContext":'
#: The largest size of a line that the drain leaves for the start, in bytes.
_MAX_NOTE_BYTES = 400


def hook_project(payload: Payload) -> str:
    """Return the project of the session's folder, absolute; "" without one.

    It is $REFLECTOR_PROJECT if that is set. Otherwise it is found from the session's folder, as the
    command line finds it.
    """
    named = locate.environment("REFLECTOR_PROJECT")
    if named:
        return real_path(named)
    start = start_of(payload)
    if not start:
        return ""
    home = real_path(locate.home_folder() or "/")
    return locate.find_project(
        start, home, users_config=locate.user_config(), notes=locate.worktree_notes()
    )


def start_of(payload: Payload) -> str:
    """Return the session's folder: $CLAUDE_PROJECT_DIR, in which the session was started, else the
    payload's cwd, else our own.
    """
    start = locate.environment("CLAUDE_PROJECT_DIR")
    cwd = payload.get("cwd")
    if not start and isinstance(cwd, str) and "\0" not in cwd:
        start = cwd
    return real_path(start or ".")


def note_worktree(payload: Payload) -> None:
    """Note the main checkout of the linked worktree that a session is in. When the session ends,
    the worktree may be gone, and git no longer lists it.
    """
    root, main = locate.linked_worktree(start_of(payload), real_path(locate.home_folder() or "/"))
    note = locate.note_of(root, main).encode()
    if not note:
        return
    folder, _, name = locate.worktree_notes().rpartition("/")
    try:
        notes = files.read_file(f"{folder}/{name}", locate.MAX_NOTES)
    except FileNotFoundError:
        from reflector.sessions.locks import open_user_state

        notes = b""
        folder = open_user_state()
    begin = f"{root}\t".encode()
    of_worktree = [line for line in notes.splitlines(keepends=True) if line.startswith(begin)]
    # Only the newest note of a worktree counts.
    if of_worktree[-1:] != [note]:
        append_note(folder, name, note, notes, locate.MAX_NOTES)


def note_told(project: str, payload: Payload, shown: bytes) -> None:
    """Note the text that a session is shown. The drain reads the note if the transcript does not
    repeat the text.
    """
    session = handover.words(payload, "session_id")
    if not shown or not is_session_id(session):
        return
    note = session.encode() + b"\t" + shown + b"\n"
    notes = handover.read_own(project, handover.TOLD, 2 * handover.MAX_TOLD)
    if note not in notes:
        folder = handover.open_own(project)
        append_note(folder, handover.TOLD, note, notes, handover.MAX_TOLD)


def is_session_id(text: str) -> bool:
    """Return whether a text can be kept as a session's id: printable, at most 200 characters."""
    return 0 < len(text) <= 200 and text.isprintable()


def append_note(folder: str, name: str, note: bytes, content: bytes, max_bytes: int) -> None:
    """Append a line to a file of ours that has this content. If it would be longer than
    `max_bytes`, its older half is removed.
    """
    if len(content) + len(note) > max_bytes:
        newer_half = content[len(content) // 2 :].partition(b"\n")[2]
        files.write_durably(folder, newer_half + note, name)
        return
    with files.Folder(folder) as state:
        fd = state.open(name, system.O_WRONLY | system.O_CREAT | system.O_APPEND)
    try:
        files.write_all(fd, note)  # in one piece: many sessions may start at once
    finally:
        system.close(fd)


def real_path(folder: str) -> str:
    """Return a folder's absolute path without symlinks. If the folder is gone, return the path as
    it was given, or "" if that is relative.

    The process goes to the folder and back, because `os.path.realpath` would cost an import.
    """
    start = ""
    try:
        start = system.getcwd()
        system.chdir(folder)
        folder = system.getcwd()
    except (OSError, ValueError):  # gone, or a path with a NUL
        if folder[:1] != "/":
            return ""
    if start:
        system.chdir(start)  # the payload's paths may be relative to it
    return folder.rstrip("/") or "/"


def keeper_of(project: str) -> str:
    """Return the keeper of a session in `project`: the project, else the user's own playbook.

    "" if neither has a playbook. Then the agent got no playbook, so it cites nothing, and no ledger
    is created. A project that is gone may have had one. A playbook.json of another tool is not a
    playbook.
    """
    if not locate.exists(project) or locate.environment("REFLECTOR_LEDGER_URL"):
        return project
    if locate.is_project(project) and not handover.has_only_a_strangers_file(project):
        return project
    if locate.is_project(locate.user_folder()):
        return locate.user_folder()
    try:
        settings = files.read_file(locate.user_config(), handover.MAX_PAYLOAD)
    except OSError:  # most users do not have this file
        return ""
    # A ledger that the user named for all projects may contain this project's playbook.
    return project if b"ledger_url" in settings else ""


def injection(project: str, payload: Payload) -> tuple[bytes, bytes, bytes, bytes]:
    """Return the parts that a start prints for a session, b"" for each missing part. They are the
    user's line about the playbook, a short form of the shown text, the JSON object for a subagent,
    and the shown text.
    """
    # If the project has no playbook, the user's own is shown.
    for keeper in (project, locate.user_folder()):
        try:
            stamp = handover.injection_stamp(keeper)
            break
        except (OSError, ValueError):
            continue
    else:
        return b"", b"", b"", b""
    trial = handover.read_own(keeper, handover.TRIAL, MAX_INJECTION)
    name = text_of_trial(keeper, payload, trial) if trial else handover.INJECTION
    content = handover.read_own(keeper, name, MAX_INJECTION)
    try:
        if is_strange(keeper):
            content = kept_text(keeper, content)
        elif not (content.startswith(stamp + b"\n") and _has_head(content)):
            from reflector.sessions.injection import write_injection

            content = write_injection(keeper, name=name, kept=lambda: kept_text(keeper, content))
    except Exception as error:  # noqa: BLE001  a fault must not end the session
        reason = files.error_words(error)
        handover.complain(f"the agent does not get the playbook: {reason}")
        return f"playbook not shown: {reason}".encode("utf-8", "replace"), b"", b"", b""
    _, line, shown, as_json, text = content.split(b"\n", _HEAD_LINES)
    # An agent obeys a text that begins as JSON instead of reading it.
    is_empty = not as_json and not text
    is_sound = as_json.startswith(SUBAGENT) and text[:1] != b"{"
    return (line, shown, as_json, text) if is_empty or is_sound else (b"", b"", b"", b"")


def is_strange(project: str) -> bool:
    """Return whether the ledger's file is not the one that this home noted. A command or the drain
    proves it or asks for its owner; the hook does not wait for that.
    """
    try:
        ledger = system.lstat(files.state_folder(project) + "/ledger.db")
    except OSError:  # it is missing; the next command restores a lost one
        return False
    note = handover.read_own(project, handover.ENTRY, MAX_INJECTION)
    if b'"file": [%d, %d]' % (ledger.st_dev, ledger.st_ino) in note:
        return False
    return not locate.setting("ledger_url", locate.user_config())


def _has_head(content: bytes) -> bool:
    return content.count(b"\n") >= _HEAD_LINES


def kept_text(project: str, content: bytes) -> bytes:
    """Return the text that was rendered from the user's own ledger before.

    Raises: ValueError if there is none.
    """
    if content.startswith(handover.INJECTION_FORM + b" ") and _has_head(content):
        return content
    place = " --user" if project == locate.user_folder() else ""
    is_noted = handover.read_own(project, handover.ENTRY, MAX_INJECTION)
    command = "status" if is_noted else "ledger take"
    raise ValueError(
        f"reflector does not recognise this ledger as yours; run `reflector{place} {command}`"
    )


def text_of_trial(keeper: str, payload: Payload, trial: bytes) -> str:
    """Return the file with the text that a session is shown while a trial runs.

    A fork begins with the text that its original was shown, but its start does not name the
    original. So it is shown the text without the rules of the trial. At later starts of a fork the
    beginning of its transcript decides, because it has the original's text.

    trial  the note of the trial: its key, the shares of sessions without its rules and with a
           placebo, per million ("500000+250000", or "500000" if it has no placebo), its end in
           nanoseconds, and the names of its rules
    """
    session = handover.words(payload, "session_id")
    try:
        key, shares, until, *names = trial.decode().split()
        share, _, placebo_share = shares.partition("+")
        if time_ns() > int(until) or not session:
            return handover.INJECTION
        forks = handover.read_own(keeper, handover.FORKS, 2 * handover.MAX_TOLD)
        note = session.encode() + b"\n"
        if payload.get("source") == "fork":
            folder = handover.open_own(keeper)
            attempt(append_note, folder, handover.FORKS, note, forks, handover.MAX_TOLD)
            return handover.WITHOUT
        if note in forks.splitlines(keepends=True):
            begin = files.read_file(handover.words(payload, "transcript_path"), 1 << 16)
            return text_of_fork(keeper, names, begin, may_be_placebo=bool(placebo_share))
        from reflector.trials.draw import is_placebo, is_withheld

        if placebo_share and is_placebo(key, int(placebo_share), session):
            return handover.PLACEBO
        return handover.WITHOUT if is_withheld(key, int(share), session) else handover.INJECTION
    except (OSError, ValueError, IndexError, ImportError):
        return handover.INJECTION


#: The text after the name of a shown bullet, with its counters or without.
_AFTER_NAME = (b"] helpful=", b"] :: ")


def names_shown_in(begin: bytes) -> "set[str]":
    """Return the names of the bullets that the beginning of a transcript shows."""
    parts = [part for mark in _AFTER_NAME for part in begin.split(mark)[:-1]]
    return {part.rpartition(b"[")[2].decode("ascii", "replace") for part in parts}


def text_of_fork(keeper: str, names: "list[str]", begin: bytes, *, may_be_placebo: bool) -> str:
    """Return the file with the text that a fork's original was shown, from the beginning of the
    fork's transcript.

    names  the bullets that the trial withholds; "*" first means all of the project's own bullets
    """
    if may_be_placebo:
        from reflector.transcripts.tellings import PLACEBO_HEADING

        if PLACEBO_HEADING.encode() in begin:
            return handover.PLACEBO
    shown = names_shown_in(begin)
    if names[0] == "*":  # the note does not list them, but the text without them lists all others
        text = handover.read_own(keeper, handover.WITHOUT, MAX_INJECTION)
        is_without = shown.issubset(text.split(b"\n", 3)[2].decode().split(" "))
    else:
        is_without = shown.isdisjoint(names)
    return handover.WITHOUT if is_without else handover.INJECTION


def start_form(project: str, payload: Payload, line: bytes, as_json: bytes, text: bytes) -> bytes:
    """Return the output for the start of a session, in the format of its agent."""
    if locate.environment("COPILOT_PROJECT_DIR"):
        return context_form(as_json)
    if locate.environment("GEMINI_SESSION_ID"):
        text = as_json  # Gemini CLI shows plain text to its user as a note
    # At a compaction the user is in the middle of a session.
    if not shows_line(payload) or payload.get("source") == "compact":
        return text
    project_file = project + "/.claude/reflector.toml"
    start_message = locate.setting("start_message", project_file, locate.user_config())
    if str(start_message).lower() in ("false", "0"):
        return text
    keeper = keeper_of(project)
    shown = users_line(keeper, line) if keeper else ""
    if not shown:
        return text
    message = b'{"systemMessage":' + handover.quoted(shown).encode()
    return message + (_START + as_json[len(SUBAGENT) :] if as_json else b"}")


def shows_line(payload: Payload) -> bool:
    """Return whether the agent that starts shows its user a hook's line. Claude Code sets the first
    variable only for its starts, and Gemini CLI sets the second. Codex CLI sets neither.
    """
    is_named = locate.environment("CLAUDE_ENV_FILE") or locate.environment("GEMINI_SESSION_ID")
    name = handover.words(payload, "transcript_path").rpartition("/")[2]
    return bool(is_named) or name.startswith("rollout-")


def context_form(as_json: bytes) -> bytes:
    """Return the rules, which are in Claude Code's format, in the format of the agent that calls.
    Copilot CLI, which its variable identifies, wants `additionalContext` without the outer object.
    """
    if not as_json or not locate.environment("COPILOT_PROJECT_DIR"):
        return as_json
    text = as_json[len(SUBAGENT) :].rstrip()[:-1]  # without the outer object
    return b'{"additionalContext":' + text


def users_line(project: str, playbook: bytes) -> str:
    """Return the user's line about the playbook, the last session, the number of waiting proposals,
    and lost events. Parts that do not exist are omitted.
    """

    def first_line_of(name: str) -> bytes:
        return handover.read_own(project, name, _MAX_NOTE_BYTES).partition(b"\n")[0]

    parts = [playbook] if playbook else []
    last_session = first_line_of(handover.LAST_SESSION)
    if playbook and has_delivery(files.state_folder(project) + "/spool"):
        parts.append(b"last session: still being processed")
    elif last_session.startswith(handover.FIRST.encode()):
        parts.append(last_session)
    elif playbook and last_session:
        parts.append(b"last session: " + last_session)
    waiting = first_line_of(handover.WAITING)
    if waiting:
        parts.append(waiting)
    lacked = lacked_file(project)
    if lacked:
        place = " --user" if project == locate.user_folder() else ""
        command = f"reflector{place} import --rename {lacked}"
        parts.append(
            f"this ledger has lost events; to restore the events: {command}".encode(
                "utf-8", "replace"
            )
        )
    line = b" \xc2\xb7 ".join(parts).decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in line)


def lacked_file(project: str) -> str:
    """Return the export of the events that this home had and the ledger lacks, quoted for a shell;
    "" without one.
    """
    begin, end = handover.LACKED
    folder = locate.own_folder(project)
    try:
        names = system.listdir(folder)
    except OSError:
        return ""
    note = handover.read_own(project, handover.ENTRY, MAX_INJECTION)
    for name in sorted(names):
        if not name.startswith(begin) or not name.endswith(end):
            continue
        header = handover.read_own(project, name, 1000)
        origin = header.partition(b'"origin":"')[2].partition(b'"')[0]
        # The export does not concern a ledger that was taken in place of this one.
        if origin and b'"origin": "%s"' % origin in note:
            path = f"{folder}/{name}"
            is_plain = handover.PLAIN.union("/.").issuperset(path)
            return path if is_plain else "'" + path.replace("'", "'\\''") + "'"
    return ""


def has_delivery(folder: str) -> bool:
    """Return whether a folder of the spool contains a delivery."""
    try:
        return any(name.endswith(".json") and name[0] != "." for name in system.listdir(folder))
    except OSError:
        return False


def switched_off_by(project: str) -> str:
    """Return the settings file that switches a project's hooks off: the user's or the project's
    own; "" if they are on.

    `off` lists folders, in which all projects are off. `enabled` is about one project or all.
    """
    user_file = locate.user_config()
    off = locate.setting("off", user_file)
    # A list in the file, a text with colons in $REFLECTOR_OFF.
    folders = off if isinstance(off, list) else str(off or "").split(":")
    for folder in folders:
        is_folder = isinstance(folder, str) and folder
        if is_folder and f"{project}/".startswith(folder.rstrip("/") + "/"):
            return user_file
    for file in (user_file, project + "/.claude/reflector.toml"):
        if str(locate.setting("enabled", file)).lower() in ("false", "0"):
            return file
    return ""


def start_drain(project: str) -> None:
    """Start `reflector drain` in a session of its own, without our open files.

    Raises: OSError.
    """
    if locate.environment("REFLECTOR_NO_SPAWN") == "1" or not sys.executable:
        return
    command = [
        sys.executable,
        "-I",
        "-m",
        "reflector",
        "--project",
        project,
        "drain",
        "--background",
    ]
    null = system.open("/dev/null", system.O_RDWR)
    # The agent waits until every pipe that it gave us is closed, also by other processes.
    system.closerange(null + 1 if null > 2 else 3, 256)
    streams = [(system.POSIX_SPAWN_DUP2, null, fd) for fd in (0, 1, 2)]
    system.chdir("/")
    system.posix_spawn(sys.executable, command, system.environ, file_actions=streams, setsid=True)


def note_fired(project: str, event: object) -> None:
    """Leave the time of an event's last hook for `doctor`. A project without a state folder does
    not get one for it.
    """
    if not project or not isinstance(event, str) or not event.isalnum() or len(event) > 40:
        return
    folder = files.state_folder(project) + "/fired"
    try:
        with files.Folder(folder) as fired:
            system.utime(event, dir_fd=fired.fd, follow_symlinks=False)
    except FileNotFoundError:
        with files.Folder(files.private_folder(folder)) as fired:
            system.close(fired.open(event, system.O_WRONLY | system.O_CREAT | system.O_TRUNC))


def note_begun(project: str, payload: Payload) -> None:
    """Leave a file for a session that begins. A drain that finds it without an end searches for the
    session's transcript.
    """
    session = handover.words(payload, "session_id")
    if not is_session_id(session):
        return
    name = handover.file_name(session)
    with files.Folder(files.private_folder(files.state_folder(project) + "/begun")) as begun:
        fd = begun.open(name, system.O_WRONLY | system.O_CREAT | system.O_TRUNC)
    try:
        files.write_all(fd, session.encode())
    finally:
        system.close(fd)


def attempt(note: "Callable[..., None]", *arguments: object) -> None:
    """Write a note that is not essential for a session."""
    try:  # noqa: SIM105  contextlib is not worth its import
        note(*arguments)
    except (OSError, ValueError):
        pass


def deliver(project: str, payload: Payload | None, data: bytes) -> str:
    """Keep one delivery with its project, or with the user if the project cannot be written.

    Raises: OSError.
    """
    try:
        return handover.keep(files.open_state(project), payload, data)
    except (OSError, ValueError) as first:
        from reflector.sessions.locks import keep_elsewhere

        try:
            return keep_elsewhere(payload, data)
        except OSError as second:
            raise OSError(f"{files.error_words(first)}; {files.error_words(second)}") from None


def hook() -> None:
    """Read one event from stdin and answer it.

    Raises: the error that stopped it.
    """
    if locate.is_judge():
        return
    raw = files.read_all(0, handover.MAX_PAYLOAD)
    try:
        if len(raw) > handover.MAX_PAYLOAD:
            raise handover.Broken(f"more than {handover.MAX_PAYLOAD} bytes")
        payload, text = handover.decode(raw)
    except (handover.Broken, ImportError, OSError) as error:
        keep_broken(raw[: handover.MAX_PAYLOAD], error)
        return
    event = payload["hook_event_name"]
    project = hook_project(payload)
    is_start = event in ("SessionStart", "SubagentStart")
    if is_start and not project:
        return
    if event in handover.STOPS and "parent_agent_id" in payload:
        return  # a subagent of Copilot CLI, whose messages are in its parent's transcript
    settings = switched_off_by(project) if project else ""
    if settings:
        if event == "SessionStart":
            print_switched_off(project, payload, settings)
        return
    answer(project, payload, text)


def answer(project: str, payload: Payload, text: str) -> None:
    """Print the playbook at a start, keep any other delivery, and start the drain if one is due."""
    event = payload["hook_event_name"]
    if event == "SubagentStart":
        files.write_all(1, context_form(injection(project, payload)[2]))
        attempt(note_fired, project, event)
        return
    if event == "SessionStart":
        is_drain_due = start_session(project, payload)
    else:
        # Without a project, the delivery is kept with the user.
        keeper = keeper_of(project) if project else ""
        if project and not keeper:
            return
        project = keeper
        deliver(project, payload, handover.record(project, payload, text))
        is_drain_due = event not in handover.STOPS
    attempt(note_fired, project, event)
    attempt(note_worktree, payload)
    if is_drain_due:
        try:
            start_drain(project)
        # Not every system can spawn a process in a new session.
        except (OSError, ValueError, NotImplementedError) as error:
            consequence = (
                "the hook could not start the process that records sessions; the next hook or "
                "command tries again"
            )
            handover.complain(f"{consequence}: {files.error_words(error)}")


def keep_broken(raw: bytes, error: Exception) -> None:
    """Keep a payload that is not from a hook, and report it."""
    project = hook_project({})
    path = deliver(project and keeper_of(project), None, raw)
    handover.complain(
        f"the hook cannot read its input ({error}); reflector keeps this input in {path}"
    )


def print_switched_off(project: str, payload: Payload, settings: str) -> None:
    """Show the user that a file of the project switches the hooks off."""
    if settings.startswith(project) and shows_line(payload):
        line = "reflector is turned off in .claude/reflector.toml; to turn it on: reflector on"
        files.write_all(1, b'{"systemMessage":' + handover.quoted(line).encode() + b"}")


def start_session(project: str, payload: Payload) -> bool:
    """Print the playbook for a session that starts; return whether a drain is due."""
    line, shown, as_json, plain = injection(project, payload)
    files.write_all(1, start_form(project, payload, line, as_json, plain))
    keeper = keeper_of(project)
    attempt(note_told, keeper, payload, shown)
    state = files.state_folder(project)
    folders = ("/spool", "/spool/waiting", "/spool/unanswered", "/begun")
    # Looked up before this session leaves the note of its own beginning.
    is_drain_due = any(has_delivery(state + folder) for folder in folders)
    if keeper:
        # The drain checks the watched files before this session changes more of them.
        is_drain_due = is_drain_due or handover.has_changed_places(keeper)
        attempt(note_begun, keeper, payload)
    return is_drain_due


def statusline() -> None:
    """Print one line for the agent's screen, from the files that the drain left; nothing if it has
    no text.

    It opens no ledger and never fails, because the agent runs it after every turn and would show an
    error in its place.
    """
    import json

    cwd = None
    try:
        status = json.loads(b"" if sys.stdin.isatty() else files.read_all(0, handover.MAX_PAYLOAD))
        cwd = (status.get("workspace") or {}).get("project_dir") or status.get("cwd")
    except (OSError, ValueError, AttributeError):
        pass
    try:
        project = hook_project({"cwd": cwd})
        keeper = project and keeper_of(project)
        if keeper:
            rendered = handover.read_own(keeper, handover.INJECTION, MAX_INJECTION)
            stamp, _, rest = rendered.partition(b"\n")
            is_ours = stamp.startswith(handover.INJECTION_FORM + b" ")
            line = users_line(keeper, rest.partition(b"\n")[0] if is_ours else b"")
            files.write_all(1, f"{line}\n".encode() if line else b"")
    except (OSError, ValueError):
        pass


def main() -> None:
    """Run the hook and end the process at once, because Python's normal exit takes as long as our
    work.
    """
    try:
        hook()
    # The agent treats any other exit code as a verdict on its work.
    except BaseException as error:  # noqa: BLE001
        handover.complain(
            f"the hook recorded nothing: {type(error).__name__}: {files.error_words(error)}"
        )
    system._exit(0)


if __name__ == "__main__":
    main()
