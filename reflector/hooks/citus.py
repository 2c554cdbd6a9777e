"""What `reflector doctor` looks at where a ledger is on Citus. Reading only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reflector.hooks.reach import Check
from reflector.ledger.migration import is_citus, on_citus, refused_by_citus
from reflector.ledger.store import Ledger


def checks_of_citus(ledger: Ledger) -> Iterator[Check]:
    """Yield where a Citus keeps the ledger, and why it would refuse its triggers."""
    with ledger.asking() as sql:

        def ask(query: str) -> Any:
            return sql.execute(query).fetchone()

        if not is_citus(ask):
            return
        places = on_citus(ask)
        reason = refused_by_citus(ask)
    if len(places) > 1:
        what = f"its tables are divided into {len(places)} shards, where triggers do not find the events"
        yield Check("citus", "error", what, "reflector copy --to URL, into a schema of its own (docs/team.md)")
    elif reason:
        what, _, way_out = reason.partition("; ")
        yield Check("citus", "error", what, way_out)
    else:
        where = f"on {places[0]}" if places else "on the coordinator, for their schema is not distributed"
        yield Check("citus", "ok", f"the tables are {where}; citus.enable_unsafe_triggers is on")
