"""Command lines that `install`, the plugin or a page put into people's files, where nobody will
change them.

A line of these tables is never removed and never rewritten, whatever becomes of the commands that
you type. They are all forms that the history of hooks, plugin, pages and examples has.
"""

import shlex
import sys
from pathlib import Path

from reflector.hooks import fast

#: In an agent's settings: by its file, as `install` writes it today and wrote it before; by its
#: module; by its name on the PATH or its path, as pages show it; the last by the plugin.
HOOKS = [
    "{python} -I -S {hooks}/__main__.py || exit 0",
    "{python} -I -S {hooks}/fast.py || exit 0",
    "{python} -I -S {hooks}/fast.py",
    "{python} -m reflector hook",
    "{python} -I -m reflector hook || exit 0",
    "exec {python} -I -m reflector hook || true",
    "reflector hook",
    "{reflector} hook || :",
    'sh "${{CLAUDE_PLUGIN_ROOT}}/hooks/reflector-hook" || exit 0',
]
#: In Claude Code's settings.
STATUS_LINES = [
    "reflector statusline",
    "{reflector} statusline",
    "{python} -m reflector statusline",
    "reflector --project {project} statusline",
]
#: In an agent's list of MCP servers: `claude mcp add reflector -- reflector mcp`.
SERVERS = ["reflector mcp", "{reflector} mcp", "{python} -m reflector mcp"]
#: In a table of cron, and started by the hook of each version.
DRAINS = [
    "reflector drain",
    "reflector drain --retry-failed",
    "reflector drain --background",
    "reflector --project {project} drain",
    "{python} -I -m reflector --project {project} drain --background",
]
#: In the git configuration of a clone.
DRIVERS = [
    "{python} -I -m reflector.hooks.git_merge %O %A %B",
    "{python} -m reflector.hooks.git_merge %O %A %B",
]
#: In ~/.bashrc, and in the script that `completion` printed there.
SHELLS = [
    'eval "$(reflector completion bash)" && complete -p reflector',
    "COMP_WORDS='reflector li' COMP_CWORD=1 _REFLECTOR_COMPLETE=bash_complete reflector",
]
#: In a table of cron, a backup or a continuous integration.
JOBS = [
    "reflector ledger head >> heads.txt && reflector verify --anchor heads.txt",
    "reflector verify",
    "reflector rebuild --check",
    "reflector ledger backup ledger.backup",
    "reflector export --format ndjson > ledger.ndjson",
    "reflector ingest {home}/s-1.jsonl",
]


def put_program(folder: Path) -> Path:
    """Write the program as an installation does; return its path."""
    folder.mkdir()
    path = folder / "reflector"
    started = f'exec {shlex.quote(sys.executable)} -I -m reflector "$@"'
    path.write_text(f"#!/bin/sh\n# from reflector.__main__ import main\n{started}\n")
    path.chmod(0o755)
    return path


def filled(written: str, program: Path, project: Path, home: Path) -> str:
    """Return a line with the paths of an installation."""
    places = {
        "python": Path(sys.executable),
        "hooks": Path(fast.__file__).parent,
        "reflector": program,
        "project": project,
        "home": home,
    }
    return written.format_map({name: shlex.quote(str(path)) for name, path in places.items()})
