"""`reflector recall`: bullets, lessons and summaries that fit a query."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from reflector.cli import moments
from reflector.cli.app import Place
from reflector.cli.arguments import PATH
from reflector.cli.output import fields, json_option, note, print_json, short_id, table


@click.command()
@click.argument("query")
@click.option("-k", type=click.IntRange(1, 100), default=5, show_default=True, help="How many at most.")
@click.option("--by", type=click.Choice(("words", "vectors", "both")), default="both", show_default=True, help="How.")
@click.option("--model", type=PATH, help="The folder of a model2vec model, for the vectors.")
@click.option("--session", "session_id", help="The session that is told; what it is told is recorded.")
@moments.as_of
@json_option
@click.pass_obj
def recall(
    place: Place,
    query: str,
    k: int,
    by: Literal["words", "vectors", "both"],
    model: Path | None,
    session_id: str | None,
    moment: str | None,
    as_json: bool,
) -> None:
    """Find what was learned: bullets, lessons and summaries.

    Prints nothing where nothing fits well enough. Calls no network.
    """
    from reflector.lessons.recall import load_model
    from reflector.lessons.recall import recall as ask
    from reflector.lessons.recording import record_told

    embed = load_model(model) if model is not None else None
    with place.reading() as ledger:
        found = ask(query, k, of=moments.past(ledger, moment) or ledger, by=by, embed=embed)
    if session_id is not None:
        lessons = [one.document.id for one in found if one.document.kind != "bullet"]
        bullets = [one.document.id for one in found if one.document.kind == "bullet"]
        with place.pipeline() as pipeline:
            record_told(
                pipeline.ledger, lessons, bullets, via="recall", actor="cli", session_id=session_id, query=query
            )
    if as_json:
        print_json([{**fields(one.document, "kind id text"), **fields(one, "score words cosine")} for one in found])
        return
    if not found:
        note("Nothing that was learned fits this.")
        return
    table(
        ("id", "kind", "words", "cosine", "text"),
        [
            (
                one.document.id if one.document.kind == "bullet" else short_id(one.document.id),
                one.document.kind,
                "" if one.words is None else f"{one.words:.2f}",
                "" if one.cosine is None else f"{one.cosine:.2f}",
                one.document.text,
            )
            for one in found
        ],
        numbers=("words", "cosine"),
        extra=("cosine", "words"),
    )
