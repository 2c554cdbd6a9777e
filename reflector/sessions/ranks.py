"""What a ranking knows of each bullet besides its counters, kept for the start hook, which opens no ledger, and which
bullets it tells.

Invariant: the file changes only when the playbook, the settings of the ranking, or the turn does, so that all starts
between two changes get the same bytes. A turn is `TURN` texts that were told: a playbook whose counters stand still
moves on as well, and no clock is asked.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reflector import files
from reflector.playbook.ranking import RANKINGS, Standing

if TYPE_CHECKING:  # the hook starts without SQLAlchemy
    from reflector.config import Config
    from reflector.ledger.store import Ledger

#: In the state folder.
RANKS: Final = "ranks.json"
#: Texts that were told, after which others have their turn.
TURN: Final = 10
_MOST_BYTES: Final = 8 << 20


def ranks(ledger: Ledger, config: Config, upto: int | None = None) -> Standing:
    """Return what is known up to a position; None for now. Raises LedgerError."""
    from reflector.ledger.cached import tellings

    known = tellings(ledger, upto)
    return Standing(config.ranking, config.pinned, known.told, known.idle, known.texts // TURN)


def keep_ranks(root: Path, ledger: Ledger, config: Config) -> bool:
    """Leave what the ranking knows to the sessions that start from now on; return whether it changed."""
    from reflector.ledger.windows import told_texts

    turn = told_texts(ledger) // TURN
    of = [config.ranking, list(config.pinned), ledger.updated_at(), turn]
    if _read(root).get("of", [RANKINGS[0], [], ledger.updated_at(), 0]) == of:
        return False
    found = ranks(ledger, config)
    content = {"of": of, "told": dict(found.told), "idle": dict(found.idle)}
    files.write_durably(files.open_state(os.fspath(root)), json.dumps(content).encode(), RANKS)
    return True


def standing_of(root: Path, users: Path) -> Standing:
    """Return what the last writing of the playbook left to the ranking, and that of the user's own playbook beside."""
    found = [_read(users), _read(root)] if users != root else [_read(root)]
    try:
        told, idle = ({n: int(k) for one in found for n, k in one.get(key, {}).items()} for key in ("told", "idle"))
        policy, pinned, _, turn = found[-1].get("of", [RANKINGS[0], [], None, 0])
        return Standing(str(policy), tuple(map(str, pinned)), told, idle, int(turn))
    except (ValueError, TypeError, AttributeError):
        return Standing()


def _read(root: Path) -> dict[str, Any]:
    try:
        path = f"{files.state_folder(os.fspath(root))}/{RANKS}"
        found = json.loads(files.read_file(path, _MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def told_names(project: Path) -> set[str] | None:
    """Return the names of the bullets that the next session is told; None where no text is rendered."""
    try:
        text = files.read_file(f"{files.state_folder(os.fspath(project))}/injection.txt", 1 << 20)
    except OSError:
        return None
    return set(re.findall(r"^\[([a-z_]+-?\d+)\] helpful=", text.decode("utf-8", "replace"), re.MULTILINE))
