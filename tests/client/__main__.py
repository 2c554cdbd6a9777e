"""Install the real clients and run their scenarios where nothing but loopback can be reached.

`python -m tests.client [pytest's arguments]`, or `make test-claude`. The clients come from the npm registry into
$REFLECTOR_CLIENT_CACHE, else a folder of the user's cache, one folder a version; they stay there.
$REFLECTOR_CLAUDE_VERSIONS names other versions than the latest. What is missing here is told, and nothing is run:
that is a failure under CI only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

_PACKAGE = "@anthropic-ai/claude-code"
_LATEST = "latest"


class Missing(Exception):
    """What the scenarios cannot do without."""


def main(arguments: list[str]) -> int:
    """Exit code of pytest, or 0 where the clients cannot run."""
    try:
        namespace = _namespace()
        clients = [_installed(version) for version in os.environ.get("REFLECTOR_CLAUDE_VERSIONS", _LATEST).split()]
    except Missing as error:
        print(f"SKIPPED: no scenario of a real client was run: {error}", file=sys.stderr)
        return 1 if os.environ.get("CI") == "true" else 0
    os.environ["REFLECTOR_TEST_CLIENTS"] = os.pathsep.join(map(str, clients))
    named = [argument for argument in arguments if Path(argument.split("::")[0]).exists()]
    command = [sys.executable, "-m", "pytest", "-m", "client", *(named or [str(Path(__file__).parent)])]
    command += [argument for argument in arguments if argument not in named]
    return subprocess.run([*namespace, *command], check=False).returncode


def _namespace() -> list[str]:
    """The words that run a command with loopback alone."""
    if missing := [name for name in ("unshare", "ip", "npm") if not shutil.which(name)]:
        raise Missing(f"{', '.join(missing)} not found on PATH")
    unshare = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    words = [*unshare, "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise Missing(f"a network namespace is refused here: {tried.stderr.strip()}")
    return words


def _installed(version: str) -> Path:
    """The client's executable, installed where it is not there yet."""
    cache = Path(os.environ.get("REFLECTOR_CLIENT_CACHE") or _user_cache())
    # Newer clients ask for a newer Node than they need: without a version npm would choose an older client.
    number = _npm("view", f"{_PACKAGE}@{version}", "version").strip() if version == _LATEST else version
    folder = cache / f"claude-code-{number}"
    binary = folder / "node_modules" / ".bin" / "claude"
    if not _runs(binary):
        folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {_PACKAGE}@{number} into {folder}", file=sys.stderr)
        _npm("install", "--prefix", str(folder), "--no-audit", "--no-fund", f"{_PACKAGE}@{number}")
        if not _runs(binary):
            raise Missing(f"{binary} does not run after its installation")
    return binary


def _user_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reflector-clients"


def _runs(binary: Path) -> bool:
    return binary.exists() and not subprocess.run([binary, "--version"], capture_output=True, check=False).returncode


def _npm(*arguments: str) -> str:
    done = subprocess.run(["npm", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"npm {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
