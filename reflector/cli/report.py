"""`reflector report`: the playbook as one HTML page that people look at and pass on."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import click

from reflector.cli.app import Place
from reflector.cli.options import FILE, PATH, Question, as_of_option, past
from reflector.cli.output import note
from reflector.cli.playbook import ORDERS, Uses


@click.command()
@click.option("--since", metavar="MOMENT", help="Show what changed since then; default: seven days before.")
@as_of_option
@click.option("--out", type=FILE, default=Path("report.html"), show_default=True, help="The file to write.")
@click.option("--open", "opens", is_flag=True, help="Show it in the browser.")
@click.option("--share", is_flag=True, help="Leave out quotes, reasons, paths, projects, authors and sessions' ids.")
@click.option("--datasette", type=PATH, metavar="FOLDER", help="Write a Datasette configuration there instead.")
@click.pass_obj
def report(
    place: Place, since: str | None, moment: str | None, out: Path, opens: bool, share: bool, datasette: Path | None
) -> None:
    """Write a page that shows the playbook: what moved, what is contested, what it costs.

    One HTML file that loads nothing and reads without a script: what each bullet counts and why, what changed, sessions
    by week, what waits, judges, cost, and what is told for nothing.
    """
    if datasette is not None:
        if share:
            raise click.UsageError("Datasette shows the whole ledger, so --share and --datasette exclude each other")
        _explore(place, datasette)
        return
    if not all(map(find_spec, ("jinja2", "vl_convert"))):
        from reflector.resources import install_command

        raise click.ClickException(f"the report needs the extra 'report': {install_command('report')}")
    from reflector.report import pictures

    with pictures.begin() as begun:
        with place.reading() as ledger:
            asked = Question(place, ledger, past(ledger, moment), as_json=False)
            uses, command = Uses.of(asked), Place().command if share else place.command
            live = sorted((uses.json(row) for row in asked.playbook.rows() if row.status == "live"), key=ORDERS["best"])
            from reflector.report.page import Page

            project = place.project().root.name
            page = Page(ledger, asked.then, live, uses.found, project=project, command=command, since=since)
        from reflector.report.html import page_html

        out.write_text(page_html(page, begun, share=share), "utf-8")
    note(f"wrote {out}")
    if opens:
        click.launch(out.resolve().as_uri())


def _explore(place: Place, folder: Path) -> None:
    """Write what plain Datasette needs to show the ledger, and say how it is opened."""
    with place.reading() as ledger:
        url = ledger.engine.url
    if not url.is_file:
        raise click.ClickException(f"Datasette reads SQLite files, and the ledger is {url.shown}; back it up to a file")
    text = (files("reflector.report") / "templates" / "datasette.json").read_text("utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "metadata.json"
    written.write_text(text.replace('"ledger"', json.dumps(Path(url.database).stem)), "utf-8")
    click.echo(shlex.join(["datasette", url.database, "--metadata", str(written)]))
    note("Charts are at /-/dashboards. Install it with: pip install datasette datasette-dashboards")
