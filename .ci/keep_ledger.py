"""Keeps a ledger of the version that is about to be released among the tests: `python
.ci/keep_ledger.py 1.2.3`.

Every later version opens it, verifies it, gives the same playbook.json and goes on
(test_older_versions.py).
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from reflector.ledger.store import Ledger
from reflector.playbook.document import dump
from tests.building import OLDER
from tests.ledger.events import history, learned

if __name__ == "__main__":
    name = f"version-{sys.argv[1]}"
    with TemporaryDirectory() as folder:
        file = Path(folder, "ledger.db")
        with Ledger.open_file(file) as ledger:
            ledger.append(history())
            ledger.append(learned())
            (OLDER / f"{name}.json").write_bytes(dump(ledger.bullets(), ledger.updated_at()))
        (OLDER / f"{name}.db.gz").write_bytes(gzip.compress(file.read_bytes(), mtime=0))
