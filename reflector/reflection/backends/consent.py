"""What a person agreed to when they let their agents judge, and what has come of it since.

Invariant: who is asked, by which path and with which variables is what the person saw when they agreed; nothing of a
project, a hook or a repository is added later. It lies in the person's own folder, for all of their projects.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reflector import files
from reflector.locate import judge_folder
from reflector.reflection.backends.agent_clients import JUDGES

#: Variables that every client needs as the person has them.
_COMMON = (
    *("HOME", "USER", "LOGNAME", "LANG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"),
)
_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_MOST_BYTES = 1 << 20
_FILE, _STATE = "consent.json", "state.json"


@dataclass(frozen=True, slots=True)
class Agreed:
    """One client: its absolute path, and the variables that it is started with."""

    path: str
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)


def found() -> dict[str, Agreed]:
    """Return the clients that are installed here, as they would be started."""
    environ, path = os.environ, os.environ.get("PATH", "")
    node = shutil.which("node", path=path)
    clients = {}
    for client in JUDGES.values():
        binary = shutil.which(client.name, path=path)
        if binary is None:
            continue
        binary = os.path.abspath(binary)  # noqa: PTH100 - a link stays: an update of the client moves it
        folders = [os.path.dirname(binary), *([os.path.dirname(os.path.abspath(node))] if node else []), *_PATH]  # noqa: PTH100, PTH120
        given = {name: environ[name] for name in (*_COMMON, *client.variables_of(environ)) if environ.get(name)}
        clients[client.name] = Agreed(binary, {**given, "PATH": os.pathsep.join(dict.fromkeys(folders))})
    return clients


def read() -> dict[str, Agreed]:
    """Return the clients that the person lets judge; none without consent, or where its record is damaged."""
    try:
        known = {name: one for name, one in _object(_FILE).items() if name in JUDGES}
        return {name: Agreed(str(one["path"]), dict(one["environ"])) for name, one in known.items()}
    except (KeyError, TypeError, ValueError):
        return {}


def keep(clients: Mapping[str, Agreed]) -> None:
    """Record the consent. Raises OSError."""
    folder = open_folder()
    files.write_durably(folder, json.dumps({name: asdict(one) for name, one in clients.items()}).encode(), _FILE)


def withdraw() -> bool:
    """Remove the consent and all that came of it; return whether there was one."""
    folder = judge_folder()
    was = bool(folder) and Path(folder, _FILE).exists()
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    return was


def proofs() -> dict[str, str]:
    """Return, by client, the version and the words whose lock-down was shown."""
    return _object(_STATE)


def keep_proof(name: str, proof: str) -> None:
    """Record that a client showed its lock-down; the judge's lock must be held. Raises OSError."""
    files.write_durably(open_folder(), json.dumps({**_object(_STATE), name: proof}).encode(), _STATE)


def open_folder(below: str = "") -> str:
    """Return the person's folder of their judge, or one in it, private, made where it is missing. Raises OSError."""
    folder = judge_folder()
    if not folder:
        raise FileNotFoundError(2, "this user has no home folder, so no agent of theirs can judge")
    Path(folder).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files.private_folder(folder)
    return files.private_folder(f"{folder}/{below}") if below else folder


def _object(name: str) -> dict[str, Any]:
    try:
        value = json.loads(files.read_bounded(Path(judge_folder(), name), _MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
