"""The files that the fast hook and the pipeline exchange: deliveries, and the rendered playbook.

Invariant: every payload is kept verbatim, and a rendered text has a stamp of all its inputs. The
hook loads this module at every start, so rarely needed imports are inside functions.
"""

# pathlib would cost more time than everything in this module:

import posix as system
from time import time_ns

from reflector.files import private_folder, read_file, sync_folder, write_all, write_durably
from reflector.locate import own_folder, person_folder, user_folder, user_settings

#: The most bytes of a hook payload. Of a longer one, the first part is kept as broken.
MAX_PAYLOAD = 8 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: The events of the end of a turn, which does not end a session: of Claude Code and Codex CLI, and
#: of Gemini CLI.
STOPS = ("Stop", "AfterAgent")
#: The form of injection.txt and of the text in it. Raise it if prompts/playbook.txt or the
#: rendering changes, so that texts of an older version are rendered again.
INJECTION_FORM = b"reflector-injection/5"
#: The file of the key that seals deliveries, beside the user's own folders of projects.
SEAL_KEY = "seal.key"
#: The beginning of a delivery, before the hexadecimal digits of its seal.
_SEAL = b'{"v":1,"seal":"'
_SEAL_DIGITS = 64
#: The most bytes of a key. A longer file, such as one with a line break at its end, has a key, too.
_KEY_BYTES = 32
# The files in the user's own folder of the project:
#: The file of the note about its ledger.
ENTRY = "entry.json"
#: The beginning and the end of the name of an export with events that the ledger lacks.
LACKED = ("events-", ".ndjson")
#: The file of the texts that start hooks showed, with a line for each session.
TOLD = "told.txt"
#: The largest size of that file, in bytes.
MAX_TOLD = 1 << 17
#: The file of a running trial: its key, its share (with `+` that of a placebo), its end, and the
#: withheld bullets.
TRIAL = "trial.txt"
#: The file of the text for sessions without the trial's bullets.
WITHOUT = "injection-without.txt"
#: The file of the text for sessions with the trial's placebo.
PLACEBO = "injection-placebo.txt"
#: The file of the heads that were noted during trials.
TRIAL_HEADS = "trial-heads.txt"
#: The file of the text for all other sessions.
INJECTION = "injection.txt"
#: The file of the sessions that began as a fork during a trial, with a line each.
FORKS = "forks.txt"
#: The file of the last session: its result in words, and its id in a second line.
LAST_SESSION = "last-session.txt"
#: The file of the order of the first reading.
ORDER = "first.json"
#: The beginning of LAST_SESSION after the first reading of old sessions, until a session is judged.
FIRST = "first verdicts: "
#: The file of the number of waiting proposals, in words; missing if none waits.
WAITING = "waiting.txt"
#: The file of the watched scopes, and then of the state of each watched file or folder, with a line
#: each. Its own time is that of the last check that found them unchanged.
PLACES = "memory-places.txt"
#: The largest size of that file, in bytes.
MAX_PLACES = 1 << 17
PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


class Broken(Exception):
    """The payload is not a hook's. The text contains the reason."""


class _Decoding:
    """The options that the C scanner needs. The json package would only wrap it."""

    strict = True
    object_hook = object_pairs_hook = None
    parse_float = parse_constant = float
    parse_int = int


def decode(raw: bytes) -> tuple[dict[str, object], str]:
    """Return the payload and its text.

    Raises: Broken unless it is one JSON object that names its event; ImportError or OSError if the
    interpreter cannot load its JSON module.
    """
    try:
        # UTF-8 is built in; any other codec is a file that may not be readable.
        text = raw.removeprefix(BYTE_ORDER_MARK).decode().strip(" \t\r\n")
    except UnicodeDecodeError as error:
        raise Broken(f"not UTF-8 at byte {error.start}") from None
    if not text:
        raise Broken("empty")
    payload = _parsed(text)
    if not isinstance(payload, dict):
        raise Broken(f"a JSON {type(payload).__name__}, not an object")
    event = payload.get("hook_event_name")
    if event is None and "agentName" in payload and "agent_id" in payload:
        # Copilot CLI names every event except this one.
        payload["hook_event_name"] = event = "SubagentStart"
    if not isinstance(event, str) or not event:
        raise Broken("no hook_event_name")
    return payload, text


def _parsed(text: str) -> object:
    """Return the JSON value of a text.

    Raises: Broken, ImportError, OSError.
    """
    try:
        try:
            from _json import make_scanner

            value, end = make_scanner(_Decoding)(text, 0)  # type: ignore[arg-type]
            if end != len(text):
                raise Broken(f"more than one JSON value: the first ends at character {end}")
            return value
        except (ImportError, OSError, StopIteration, SystemError):
            # There is no C scanner, or it found an error that it can describe only after the import
            # of json.
            from json import loads

            return loads(text)
    except (ValueError, RecursionError) as error:
        raise Broken(f"not JSON: {error}") from None


def has_only_a_strangers_file(project: str) -> bool:
    """Return whether a folder is a project only because of another tool's playbook.json."""
    claude = project.rstrip("/") + "/.claude/"
    for name in ("reflector", "reflector.toml"):
        try:
            system.lstat(claude + name)
            return False
        except OSError:
            pass
    try:
        raw = read_file(claude + "playbook.json", MAX_PAYLOAD + 1)
        text = raw.removeprefix(BYTE_ORDER_MARK).decode().strip(" \t\r\n")
    except (OSError, ValueError):  # the command that reads it reports the reason
        return False
    is_in_our_form = '"version": "1.0"' in text and '"sections": {' in text
    if len(raw) > MAX_PAYLOAD or is_in_our_form:
        return False
    from reflector.playbook.shape import is_playbook, may_be_playbook

    try:
        return not is_playbook(_parsed(text))
    except Broken:
        return not may_be_playbook(text)
    except (ImportError, OSError):
        return False


def file_name(identity: str) -> str:
    """Return a file name for a client's session id: the id itself if it is plain, else its
    digest.
    """
    if 0 < len(identity) <= 100 and PLAIN.issuperset(identity):
        return identity + ".json"
    from hashlib import sha256

    return f"~{sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()}.json"


def words(payload: dict[str, object], key: str) -> str:
    """Return a value of the payload if it is text, else ""."""
    value = payload.get(key)
    return value if isinstance(value, str) else ""


def record(project: str, payload: dict[str, object], text: str) -> bytes:
    """Return one delivery in the form of its file: the payload verbatim, and facts that only this
    moment has.
    """
    # A subagent's stop also names the parent's transcript, whose size is not the subagent's.
    key = (
        "agent_transcript_path"
        if payload["hook_event_name"] == "SubagentStop"
        else "transcript_path"
    )
    path = words(payload, key)
    try:
        size = str(system.stat(path).st_size)
    except (OSError, ValueError):  # the file is missing (yet), or this is not a path
        size = "null"
    cwd = ""
    if path[:1] not in ("", "/", "~"):
        try:  # noqa: SIM105  contextlib is not worth its import
            cwd = system.getcwd()
        except OSError:  # the folder is gone, and the file with it
            pass
    head = f'"received_at_ns":{time_ns()},"project":{quoted(project) if project else "null"},'
    # A relative path needs it, because the drain runs in another folder.
    begins = f'"cwd":{quoted(cwd)},' if cwd else ""
    return sealed(f'{head}{begins}"transcript_bytes":{size},"payload":{text}}}\n'.encode())


def sealed(facts: bytes) -> bytes:
    """Return a record of a delivery: the text of a JSON object after its first brace, with a seal.

    The key of the seal is in the user's own folder. So a repository or an archive cannot bring a
    delivery, which could name any transcript.
    """
    from _blake2 import blake2s  # hashlib would cost more time than the rest

    seal = blake2s(facts, key=_seal_key()).hexdigest()
    return b'%s%s",%s' % (_SEAL, seal.encode(), facts)


def is_sealed(raw: bytes) -> bool:
    """Return whether a record has the seal of the user's own hooks."""
    return raw == sealed(raw[len(_SEAL) + _SEAL_DIGITS + len('",') :])


def _seal_key() -> bytes:
    """Return the key that seals deliveries, created if it is missing; b"" without a folder for it,
    because then nothing is kept that could tell the user's own files from others.
    """
    path = f"{person_folder()}/{SEAL_KEY}"
    try:
        return read_file(path, _KEY_BYTES)
    except FileNotFoundError:
        pass
    except (OSError, ValueError):
        return b""
    try:
        draft = write_durably(private_folder(open_person()), system.urandom(16).hex().encode())
        try:
            system.link(draft, path)
            sync_folder(person_folder())
        except FileExistsError:  # another hook was first
            pass
        finally:
            system.unlink(draft)
        return read_file(path, _KEY_BYTES)
    except (OSError, ValueError):
        return b""


def quoted(text: str) -> str:
    """Return a JSON string in ASCII. No module is imported, so that a missing module cannot lose a
    payload.
    """
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    parts = []
    for letter in text:
        code = ord(letter)
        units = [code] if code < 0x10000 else [0xD7C0 + (code >> 10), 0xDC00 + (code & 0x3FF)]
        is_plain = " " <= letter <= "~" and letter not in '"\\'
        parts.append(letter if is_plain else "".join([f"\\u{unit:04x}" for unit in units]))
    return '"' + "".join(parts) + '"'


def keep(state: str, payload: dict[str, object] | None, data: bytes) -> str:
    """Store one delivery in the spool of a state folder: in `broken` without a payload, in
    `waiting` for a Stop, else in the spool itself. Return its path.

    Raises: OSError.
    """
    spool = private_folder(state + "/spool")
    if payload is None:
        return write_durably(private_folder(spool + "/broken"), data)
    if payload["hook_event_name"] in STOPS:
        session = words(payload, "session_id") or words(payload, "transcript_path")
        return write_durably(private_folder(spool + "/waiting"), data, file_name(session))
    return write_durably(spool, data)


def open_own(project: str) -> str:
    """Return the user's own folder of a project, created if it is missing.

    Raises: OSError if it cannot be created.
    """
    folder = own_folder(project)
    try:
        if folder:
            return private_folder(folder)
    except FileNotFoundError:
        pass
    open_person()
    return private_folder(folder)


def open_person() -> str:
    """Return the folder that contains the user's own folders of projects, created if it is missing.

    Raises: OSError if it cannot be created.
    """
    folder = person_folder()
    if not folder:
        raise FileNotFoundError(
            2, "you do not have a home folder, so reflector cannot store files for you"
        )
    # $HOME exists; each folder below it is created in turn.
    for end in range(folder.index("/.local/") + len("/.local"), len(folder) + 1):
        if folder[end : end + 1] in ("/", ""):
            try:  # noqa: SIM105  contextlib is not worth its import
                system.mkdir(folder[:end], 0o700)
            except FileExistsError:
                pass
    return folder


def read_own(project: str, name: str, most: int) -> bytes:
    """Return a file of the user's own folder of a project; b"" if it cannot be read."""
    try:
        return read_file(f"{own_folder(project)}/{name}", most)
    except (OSError, ValueError):
        return b""


def write_own(project: str, name: str, content: bytes) -> None:
    """Write a file of the user's own folder of a project.

    Raises: OSError.
    """
    write_durably(open_own(project), content, name)


def remove_own(project: str, name: str) -> None:
    """Remove a file of the user's own folder of a project, if it exists."""
    try:  # noqa: SIM105  contextlib is not worth its import
        system.unlink(f"{own_folder(project)}/{name}")
    except (OSError, ValueError):
        pass


def injection_stamp(project: str, playbook: "system.stat_result | None" = None) -> bytes:
    """Return the stamp of a rendered text: its form, and the state of both playbooks and of the
    user's templates.

    playbook  the stat result of the playbook.json that was read; looked up if it is not given

    Raises: OSError if there is no playbook.json.
    """
    claude = project.rstrip("/") + "/.claude"
    parts = [state_of(playbook or system.lstat(claude + "/playbook.json"))]
    templates = (
        claude + "/reflector/prompts/playbook.txt",
        user_settings() + "/prompts/playbook.txt",
    )
    parts += [state_at(path) for path in (user_folder() + "/.claude/playbook.json", *templates)]
    return INJECTION_FORM + b" " + " ".join(parts).encode()


def state_of(file: system.stat_result) -> str:
    """Return the fields of a stat result that change with a file. A repository or an archive cannot
    foresee all of them.
    """
    return f"{file.st_dev} {file.st_ino} {file.st_mtime_ns} {file.st_ctime_ns} {file.st_size}"


def state_at(path: str) -> str:
    """Return the state of the file at a path; "-" if it is missing."""
    try:
        return state_of(system.stat(path))
    except OSError:
        return "-"


def has_changed_places(project: str, scopes: str = "") -> bool:
    """Return whether a watched file or a folder of such files changed since the last look; True if
    there was none.

    scopes  the scopes that are watched now, "" for those of the last look
    """
    text = read_own(project, PLACES, MAX_PLACES).decode("utf-8", "surrogateescape")
    watched, *lines = text.removesuffix("\n").split("\n")
    if not watched or (scopes and scopes != watched):
        return True
    states = (line.partition("\t") for line in lines)
    return any(state_at(path) != state for state, _, path in states)


def complain(text: str) -> None:
    """Write one line to stderr, which the agent shows only on request."""
    # A path may contain control sequences for a terminal.
    shown = "".join(
        letter if letter.isprintable() else "\ufffd" for letter in " ".join(text.split())
    )
    try:  # noqa: SIM105  contextlib is not worth its import
        write_all(2, f"reflector: {shown[:1900]}\n".encode("utf-8", "replace"))
    except OSError:
        pass
