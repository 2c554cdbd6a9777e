"""Install the real clients and run their scenarios where nothing but loopback can be reached.

`python -m tests.client [claude] [codex] [gemini] [copilot] [opencode] [pi] [pytest's arguments]`,
or `make test-claude` and `make test-clients`; without a name all of them. The clients come from the
npm registry into $REFLECTOR_CLIENT_CACHE, else a folder of the user's cache, one folder a version;
they stay there. $REFLECTOR_CLAUDE_VERSIONS and the same variables of the others name other versions
than the latest. What is missing here is told, and nothing is run of it: that is a failure under CI
only.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

#: The package of each client, by its executable, and what it needs besides.
_PACKAGES: dict[str, tuple[str, list[str]]] = {
    "claude": ("@anthropic-ai/claude-code", []),
    "codex": ("@openai/codex", []),
    "gemini": ("@google/gemini-cli", []),
    "copilot": ("@github/copilot", []),
    "opencode": ("opencode-ai", ["@opencode-ai/plugin@{number}"]),
    "pi": ("@earendil-works/pi-coding-agent", ["node@22"]),
}


class Missing(Exception):
    """What the scenarios cannot do without."""


def main(arguments: list[str]) -> int:
    """Exit code of pytest, or 0 where the clients cannot run."""
    names = [argument for argument in arguments if argument in _PACKAGES] or list(_PACKAGES)
    arguments = [argument for argument in arguments if argument not in _PACKAGES]
    clients: list[Path] = []
    missing: list[str] = []
    namespace: list[str] = []
    try:
        namespace = _namespace()
    except Missing as error:
        names, missing = [], [str(error)]
    for name in names:
        for version in os.environ.get(f"REFLECTOR_{name.upper()}_VERSIONS", "latest").split():
            try:
                clients.append(_installed(name, version))
            except Missing as error:
                missing.append(f"{name}: {error}")
    for text in missing:
        print(f"SKIPPED: no scenario of a real client was run: {text}", file=sys.stderr)
    if not clients or (missing and os.environ.get("CI") == "true"):
        return 1 if os.environ.get("CI") == "true" else 0
    os.environ["REFLECTOR_TEST_CLIENTS"] = os.pathsep.join(map(str, clients))
    named = [argument for argument in arguments if Path(argument.split("::")[0]).exists()]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "client",
        *(named or [str(Path(__file__).parent)]),
    ]
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


def _installed(name: str, version: str) -> Path:
    """The client's executable, installed where it is not there yet."""
    package, besides = _PACKAGES[name]
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reflector-clients"
    # Newer clients ask for a newer Node than they need: without a version npm would choose an older
    # client.
    number = (
        _npm("view", f"{package}@{version}", "version").strip() if version == "latest" else version
    )
    folder = (
        Path(os.environ.get("REFLECTOR_CLIENT_CACHE") or own)
        / f"{package.rpartition('/')[2]}-{number}"
    )
    binary = folder / "node_modules" / ".bin" / name
    if not _runs(binary):
        folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {package}@{number} into {folder}", file=sys.stderr)
        wanted = [f"{package}@{number}", *(each.format(number=number) for each in besides)]
        _npm("install", "--prefix", str(folder), "--no-audit", "--no-fund", *wanted)
        if not _runs(binary):
            raise Missing(f"{binary} does not run after its installation")
    return binary


def _runs(binary: Path) -> bool:
    environ = {**os.environ, "PATH": f"{binary.parent}{os.pathsep}{os.environ['PATH']}"}
    version = [str(binary), "--version"]
    return (
        binary.exists()
        and not subprocess.run(version, capture_output=True, env=environ, check=False).returncode
    )


def _npm(*arguments: str) -> str:
    done = subprocess.run(["npm", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Missing(f"npm {arguments[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
