"""How long a command takes to say something, against the bare start of the interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Row, Side, paired_ratio, timed
from reflector.hooks import fast

CHECKOUT = Path(fast.__file__).parents[2]
_BARE = [sys.executable, "-c", "pass"]
_COMMAND = [sys.executable, "-m", "reflector"]
#: Ends with 1 where what the command needed is imported though it must not be.
_WITHOUT = """\
import sys
from reflector.cli import main
code = main()
found = [name for name in ("alembic", "anthropic", "pydantic") if name in sys.modules]
sys.exit(f"imported: {found}" if found else code)
"""


def rows(quick: bool) -> list[Row]:
    """Help, version, and questions to a small ledger whose schema is current."""
    pairs = 5 if quick else 25
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        project = folder / "project"
        (project / ".claude").mkdir(parents=True)
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("CLAUDE", "PYTHON", "REFLECTOR"))}
        environ |= {"HOME": name, "PYTHONPATH": str(CHECKOUT), "REFLECTOR_NO_SPAWN": "1"}

        def side(*command: str) -> Side:
            return timed(lambda: subprocess.run(command, env=environ, stdout=subprocess.PIPE, check=True))

        at = ["--project", str(project)]
        for number in range(5):
            side(*_COMMAND, *at, "add", "pat", f"Run the tests before commit {number}")()
        bare = side(*_BARE)
        heavy = paired_ratio(bare, side(sys.executable, "-c", "import sqlalchemy"), pairs)
        side(sys.executable, "-c", _WITHOUT, *at, "list", "--json")()
        side(sys.executable, "-c", _WITHOUT, *at, "status")()
        current = "schema found current, neither Alembic nor a model's library imported"
        return [
            Row("`reflector --help`", *paired_ratio(bare, side(*_COMMAND, "--help"), pairs), 6.0),
            Row("`reflector --version`", *paired_ratio(bare, side(*_COMMAND, "--version"), pairs)),
            Row("`reflector status`", *paired_ratio(bare, side(*_COMMAND, *at, "status"), pairs), None, current),
            Row(
                "`reflector list --json`",
                *paired_ratio(bare, side(*_COMMAND, *at, "list", "--json"), pairs),
                None,
                current,
            ),
            Row("`import sqlalchemy`, of the two above", *heavy),
        ]
