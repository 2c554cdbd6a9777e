"""The agents that the user allowed to judge, on which terms, and their state since then.

Invariant: the client, its path and its variables are those that the user saw and agreed to. Nothing
from below a project is kept, and neither a hook nor a repository can add anything later. The file
is in the user's own folder and applies to all their projects.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from reflector import files
from reflector.extensions import is_below, untrusted_folders
from reflector.judges.agent_clients import JUDGES, JudgeClient
from reflector.locate import judge_folder
from reflector.refusal import Refusal
from reflector.text.lazy import lazy_pattern

#: Variables that every client needs with the user's values.
_COMMON = (
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
)
#: Variables that name a file or a folder end in one of these.
_PLACES = ("_HOME", "_DIR", "_FILE", "_CERTS", "_PATH", "_FOLDER")
#: Variables that each session of the user has, and that are not shown.
_UNSHOWN = frozenset({"HOME", "LANG", "USER"})
#: The user and password in a URL, such as a proxy's.
_LOGIN_OF_URL = lazy_pattern(r"((?:^|,|;)\s*(?:[a-z][\w+.-]*://)?)[^/@,;\s]*@", re.IGNORECASE)
_QUERY = lazy_pattern(r"(?<=\S)\?\S+")
_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_MOST_BYTES = 1 << 20
_FILE = "consent.json"
_STATE = "state.json"
_CHOICE = "choice.json"
#: The clients that may be asked in this run only.
_NOW: ContextVar[Mapping[str, Agreed]] = ContextVar("clients of this run", default={})  # noqa: B039


class JudgeRefused(Refusal):
    """A judge that cannot be allowed; the text has the reason and the way out."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """One client: its absolute path, and the variables of its start."""

    path: str
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class State:
    """The state of a client.

    proved  the version that was shown to be locked down, and a digest of its settings
    limits  the number of limits that it reached in a row
    until   the end of its rest, in seconds since the epoch; 0.0 for none
    """

    proved: str = ""
    limits: int = 0
    until: float = 0.0


def installed_clients(project: Path | None = None) -> dict[str, Agreed]:
    """Return the installed clients, as they would be started. No part of a start is below the
    project or the working folder, because other people can write there.
    """
    tops = _untrusted(project)
    path = os.pathsep.join(_folders_of(tops))
    node = shutil.which("node", path=path)
    clients = {}
    for client in JUDGES.values():
        binary = shutil.which(client.name, path=path)
        if binary is None or is_below(os.path.realpath(binary), tops):
            continue
        # A link is kept, because an update of the client moves it.
        folders = [*(str(Path(program).parent) for program in (binary, node) if program), *_PATH]
        variables = {
            name: os.environ[name] for name in _names(client) if not _is_left_out(name, tops)
        }
        variables["PATH"] = os.pathsep.join(dict.fromkeys(folders))
        clients[client.name] = Agreed(binary, variables)
    return clients


def left_out(name: str, project: Path | None = None) -> list[str]:
    """Return the variables of a client that are not kept, because they name a place below the
    project.
    """
    tops = _untrusted(project)
    return [variable for variable in _names(JUDGES[name]) if _is_left_out(variable, tops)]


def _untrusted(project: Path | None) -> list[str]:
    return untrusted_folders(os.environ, [str(project)] if project else [])


def shown(agreed: Agreed) -> list[str]:
    """Return a line for each variable with which a client is started, except those that every
    session has; keys are masked.
    """
    return [
        f"{name}={_masked(name, value)}"
        for name, value in agreed.environ.items()
        if name not in _UNSHOWN
    ]


def _masked(name: str, value: str) -> str:
    if name != "PATH" and name not in _COMMON and not name.endswith((*_PLACES, "_URL")):
        return f"… ({len(value)} characters)"
    return _without_login(value)


def _without_login(url: str) -> str:
    return _QUERY.sub("?…", _LOGIN_OF_URL.sub(r"\1…@", url))


def _names(client: JudgeClient) -> list[str]:
    """Return the variables with which a client is started, if they are set."""
    return [
        name
        for name in dict.fromkeys((*_COMMON, *client.variables_of(os.environ)))
        if os.environ.get(name)
    ]


def _folders_of(tops: list[str]) -> list[str]:
    """Return the folders of PATH that are the same in each working folder, and not below a
    project.
    """
    folders = os.environ.get("PATH", "").split(os.pathsep)
    absolute = [folder for folder in folders if folder.startswith("/")]
    return [folder for folder in absolute if not is_below(os.path.realpath(folder), tops)]


def _is_left_out(name: str, tops: list[str]) -> bool:
    """Return whether a variable names a place that a project determines: a relative path, or one
    below `tops`.
    """
    if name == "HOME" or not name.endswith(_PLACES):
        return False
    value = os.environ[name]
    return (
        not value.startswith("/")
        or is_below(os.path.realpath(value), tops)
        or is_below(value, tops)
    )


def agreed_clients() -> dict[str, Agreed]:
    """Return the clients that the user allowed to judge; none without consent, or if its record is
    damaged.
    """
    try:
        kept = {name: row for name, row in kept_object(_FILE).items() if name in JUDGES}
        return {name: Agreed(str(row["path"]), dict(row["environ"])) for name, row in kept.items()}
    except (KeyError, TypeError, ValueError):
        return {}


@contextmanager
def only_now(clients: Mapping[str, Agreed]) -> Iterator[None]:
    """Allow clients to be asked within this block, because the user agreed for one run. Nothing is
    stored.
    """
    token = _NOW.set(dict(clients))
    try:
        yield
    finally:
        _NOW.reset(token)


def askable_clients() -> dict[str, Agreed]:
    """Return the clients that may be asked, always or only in this run."""
    return {**agreed_clients(), **_NOW.get()}


def client_name(named: str, writer: str) -> str:
    """Return the agent that judges a session, or "" for none.

    named   the client of the setting `judge_client`, "" for the session's own
    writer  the name under which the session's agent is recorded, "" without a session
    """
    if named:
        return named
    if not writer:
        return next(iter(askable_clients()), "")
    return next((client.name for client in JUDGES.values() if client.names[1] == writer), "")


def keep_consent(clients: Mapping[str, Agreed]) -> None:
    """Record the clients that may judge, in place of the earlier ones.

    Raises: OSError.
    """
    keep_object(_FILE, {name: asdict(agreed) for name, agreed in clients.items()})


class Choice(NamedTuple):
    """An answer of the user to the question of which judge may judge.

    backend  the setting that the answer stored, "" for none
    address  of the API that the user saw, "" for its maker's own; null if it was not about an API
    id       random, so that an order of this answer ends with it; "" if every order has ended
    judge    the judge that the user allowed; the address belongs to it. An older answer about an
             API is about `anthropic`
    """

    backend: str = ""
    address: str | None = None
    id: str = ""
    judge: str = "anthropic"


def keep_choice(choice: Choice) -> None:
    """Record an answer of the user.

    Raises: OSError.
    """
    keep_object(_CHOICE, choice._asdict())


def chosen() -> Choice:
    """Return the last answer of the user, or an empty one."""
    kept = kept_object(_CHOICE)
    address = kept.get("address")
    return Choice(
        str(kept.get("backend", "")),
        None if address is None else str(address),
        str(kept.get("id", "")),
        str(kept.get("judge", Choice().judge)),
    )


def address_fault(address: str, name: str, maker: str, *, by_environment: bool) -> str | None:
    """Return why the API at an address is not asked automatically; None if it may be asked. A judge
    that the environment names does not replace the agents that you chose.

    name, maker  of the API's judge
    """
    choice = chosen()
    agreed = choice.address
    way_out = f"run: reflector judge allow {name}"
    if agreed is None and choice.id and by_environment:
        return (
            f"an environment variable sets the API {masked_address(address, maker)}, but you chose "
            f"another judge; to let the API judge, {way_out}"
        )
    if agreed is None or (name == choice.judge and address == agreed):
        return None
    if name != choice.judge:
        return f"you allowed {choice.judge} to judge, not {name}; to allow {name}, {way_out}"
    return (
        f"you allowed {masked_address(agreed, maker)} to judge, but the API is now "
        f"{masked_address(address, maker)}; to allow this API, {way_out}"
    )


def masked_address(address: str, maker: str) -> str:
    """Return the address of an API without a login, for a screen; "" is its maker's own."""
    return _without_login(address) or f"{maker}, with your key"


def withdraw() -> bool:
    """Remove the consent and everything that resulted from it; return whether there was one."""
    was_allowed = bool(agreed_clients())
    if folder := judge_folder():
        shutil.rmtree(folder, ignore_errors=True)
    return was_allowed


def client_state(name: str) -> State:
    try:
        return State(**kept_object(_STATE).get(name, {}))
    except TypeError:
        return State()


def rest_words(name: str) -> str:
    """Return in words when the rest of a client at its limit ends; "" if it does not rest."""
    until = client_state(name).until
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(until))
    return (
        f"(usage limit reached; reflector asks this agent again after {at})"
        if until > time.time()
        else ""
    )


def keep_state(name: str, state: State) -> None:
    """Record the state of a client, without losing another one's.

    Raises: OSError.
    """
    folder = open_folder()
    fd = os.open(f"{folder}/{_STATE}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        files.lock(fd, wait=True)
        keep_object(_STATE, {**kept_object(_STATE), name: asdict(state)})
    finally:
        os.close(fd)


def open_folder(below: str = "") -> str:
    """Return the user's folder of their judge, or one in it, private, created if it is missing.

    Raises: OSError.
    """
    folder = judge_folder()
    if not folder:
        raise FileNotFoundError(2, "this user does not have a home folder, so agents cannot judge")
    Path(folder).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.private_folder(folder)
    return files.private_folder(f"{folder}/{below}") if below else folder


def keep_object(name: str, value: Mapping[str, Any]) -> None:
    """Record an object in a file of the user's folder of their judge.

    Raises: OSError.
    """
    files.write_durably(open_folder(), json.dumps(value).encode(), name)


def kept_object(name: str) -> dict[str, Any]:
    """Return the object that `keep_object` recorded in a file, {} if there is none."""
    try:
        value = json.loads(files.read_bounded(Path(judge_folder(), name), _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
