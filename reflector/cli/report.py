"""`reflector report`: the playbook as one HTML page that people look at and pass on."""

from __future__ import annotations

from pathlib import Path

import click

from reflector.cli.app import Place
from reflector.cli.options import FILE, as_of_option, past
from reflector.cli.output import note
from reflector.cli.playbook import ORDERS, Uses


@click.command()
@click.option("--since", metavar="MOMENT", help="Show what changed since then; default: seven days before.")
@as_of_option
@click.option("--out", type=FILE, default=Path("report.html"), show_default=True, help="The file to write.")
@click.option("--open", "opens", is_flag=True, help="Show it in the browser.")
@click.option("--share", is_flag=True, help="Leave out quotes, reasons, paths, projects, authors and sessions' ids.")
@click.pass_obj
def report(place: Place, since: str | None, moment: str | None, out: Path, opens: bool, share: bool) -> None:
    """Write a page that shows the playbook: what moved, what is contested, what it costs.

    One HTML file that loads nothing and reads without a script: what each bullet counts and why, what changed, sessions
    by week, what waits, judges, cost, and what is told for nothing.
    """
    try:
        from reflector.report.html import page_html
    except ModuleNotFoundError as error:
        from reflector.resources import install_command

        raise click.ClickException(f"the report needs the extra 'report': {install_command('report')}") from error
    from reflector.cli.options import Question
    from reflector.report.page import gather

    with place.reading() as ledger:
        asked = Question(place, ledger, past(ledger, moment), as_json=False)
        uses, command = Uses.of(asked), Place().command if share else place.command
        live = [uses.json(row) for row in asked.playbook.rows() if row.status == "live"]
        live.sort(key=ORDERS["best"])
        page = gather(ledger, asked.then, live, project=place.project().root.name, command=command, since=since)
    out.write_text(page_html(page, share=share), "utf-8")
    note(f"wrote {out}")
    if opens:
        click.launch(out.resolve().as_uri())
