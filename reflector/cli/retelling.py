"""`reflector replay --ranking`: what recorded sessions would have been told by another ranking."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.output import counted, note, print_json, short_id, table


def print_retold(place: Place, moment: str | None, ranking: str, *, as_json: bool) -> None:
    """Print what sessions would have been told, and the citations that would have been lost."""
    from reflector.audit.retelling import retold
    from reflector.ledger.as_of import Past
    from reflector.sessions.injection import cost_of, room_of, template
    from reflector.sessions.ranks import TURN

    project = place.project()
    try:
        form = template(project.root)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    with place.reading() as ledger:
        past = moments.past(ledger, moment) or Past(ledger)
        found = retold(
            ledger, past, ranking,
            pinned=project.config.pinned, turn=TURN, room=partial(room_of, form), cost=cost_of,
        )  # fmt: skip
    cited, lost = (sum(len(getattr(one, key)) for one in found) for key in ("cited", "lost"))
    if as_json:
        print_json({"ranking": ranking, "texts": [asdict(one) for one in found], "cited": cited, "lost": lost})
        return
    rows = [
        (one.position, short_id(one.session_id), one.told, one.instead, len(one.added), len(one.dropped),
         ", ".join(one.lost))
        for one in found
        if one.added or one.dropped
    ]  # fmt: skip
    columns = ("position", "session", "told", "would be", "added", "dropped", "citations lost")
    if rows:
        table(columns, rows, numbers=columns[:1] + columns[2:-1])
    if not found:
        note("No text that a session was told is recorded yet.")
        return
    texts = counted(len(found), "text")
    note(f"{len(rows)} of {texts} would differ; {lost} of {counted(cited, 'citation')} would have been lost.")
