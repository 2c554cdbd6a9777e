"""`reflector mirror`: the playbook in files that agents read by themselves."""

from __future__ import annotations

from dataclasses import asdict

import click

from reflector.cli.app import Place
from reflector.cli.arguments import AGENT_FILE
from reflector.cli.output import json_option, note, print_json, safe, table


@click.command()
@click.argument("files", nargs=-1, type=AGENT_FILE)
@click.option("--remove", is_flag=True, help="Take the playbook out of FILES again.")
@json_option
@click.pass_obj
def mirror(place: Place, files: tuple[str, ...], remove: bool, as_json: bool) -> None:
    """Keep the playbook in step with files that agents read by themselves.

    FILES are CLAUDE.md, CLAUDE.local.md, AGENTS.md, GEMINI.md, .github/copilot-instructions.md or
    .cursor/rules/playbook.mdc. The playbook stands between two marks; nothing else in the file changes. From then on
    each change of the playbook is written there, and each edit there is recorded, until --remove. Without FILES, list
    the files that hold the playbook.
    """
    from reflector.curation.mirrors import add_mirror, mirrors, remove_mirror

    if remove and not files:
        raise click.UsageError("--remove needs the files; `reflector mirror` lists them")
    project = place.project()
    if files:
        with place.pipeline() as pipeline:
            for name in files:
                if not remove:
                    how = "holds the playbook now" if (project.root / name).exists() else "was created"
                    add_mirror(pipeline.ledger, project, name)
                    stop = place.command("mirror", "--remove", name)
                    note(f"{name} {how} and is kept in step with the playbook. To stop: {stop}")
                elif not remove_mirror(project, name):
                    note(f"{name} does not hold the playbook.")
    if "CLAUDE.md" in files and not remove:
        note("Claude Code's hook tells the playbook as well; where it is installed, leave it out of CLAUDE.md.")
    with place.reading() as ledger:
        found = mirrors(ledger, project)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [(one.name, one.state, safe(one.trouble or "")) for one in found]
    empty = "No file holds the playbook; write it into one with `reflector mirror AGENTS.md`."
    table(("file", "state", ""), rows, whole=True, empty=empty)
