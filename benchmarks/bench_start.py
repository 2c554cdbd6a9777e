"""The time of an everyday command: whole processes, on a small and current ledger."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

from benchmarks.harness import Row, Side, paired_ratio, timed
from benchmarks.made import transcript
from benchmarks.process import environ as environ_of

_BARE = [sys.executable, "-c", "pass"]
#: The imports that every command needs.
_FLOOR = [sys.executable, "-c", "import click, pysqlite3"]
_COMMAND = [sys.executable, "-m", "reflector"]
#: Exits with 1 if the command imported a module that it must not import.
_WITHOUT = """\
import sys
from reflector.cli import main
code = main()
found = [name for name in ("sqlalchemy", "alembic", "anthropic", "pydantic") if name in sys.modules]
sys.exit(f"imported: {found}" if found else code)
"""
#: A server of the SDK that answers the same questions, started as in the SDK's documentation.
_SDK = [sys.executable, "-c", "from mcp.server import MCPServer; MCPServer('bare').run()"]
_QUESTION, _CHANGE = 2.3, 3.0
_EVERYDAY = "list|show pat-001|blame pat-001|show 5e55104d|log|status|statusline".split("|")
_MCP = b"""\
{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},\
"clientInfo":{"name":"bench","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
""".replace(b"\\\n", b"")


def rows(quick: bool) -> list[Row]:
    """Measure help and each everyday command, against the start of the interpreter with click and
    SQLite.
    """
    pairs = 5 if quick else 25
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = folder / "project"
        (project / ".claude").mkdir(parents=True)
        environ = environ_of(folder)

        def side(*command: str, given: bytes = b"") -> Side:
            def run() -> None:
                subprocess.run(
                    command, env=environ, input=given, capture_output=True, cwd=project, check=True
                )

            return timed(run)

        at = ["--project", str(project)]
        for number in range(5):
            side(*_COMMAND, *at, "add", "pat", f"Run the tests before commit {number}")()
        transcript(folder / "session.jsonl", 1)
        side(*_COMMAND, *at, "ingest", str(folder / "session.jsonl"))()
        for _ in range(2):  # the first run leaves the mark that nothing happened since
            side(sys.executable, "-c", _WITHOUT, *at, "list", "--json")()
        floor = side(*_FLOOR)
        found = [
            Row(
                "`reflector --help`",
                *paired_ratio(side(*_BARE), side(*_COMMAND, "--help"), pairs),
                6.0,
            )
        ]
        note = "floor: click and SQLite imported"
        for command in _EVERYDAY:
            words = command.split()
            ours = side(*_COMMAND, *(() if command == "statusline" else at), *words)
            found.append(
                Row(f"`reflector {command}`", *paired_ratio(floor, ours, pairs), _QUESTION, note)
            )
        numbers = count()
        add = timed(
            lambda: side(
                *_COMMAND, *at, "add", "pat", (f"Advice of its own, number {next(numbers)}")
            )()
        )
        found.append(Row("`reflector add`", *paired_ratio(floor, add, pairs), _CHANGE, note))
        mcp, sdk = side(*_COMMAND, *at, "mcp", given=_MCP), side(*_SDK, given=_MCP)
        found.append(
            Row(
                "`reflector mcp`, first answer",
                *paired_ratio(floor, mcp, 5),
                1.8,
                "most of it loads the SDK",
            )
        )
        found.append(
            Row(
                "`reflector mcp` beside the SDK",
                *paired_ratio(sdk, mcp, 5),
                None,
                "floor: a server without tools",
            )
        )
        return found
