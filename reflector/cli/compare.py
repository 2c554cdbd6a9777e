"""Two reflectors judged against each other: compare."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.app import Place
from reflector.cli.arguments import PATH, SESSION
from reflector.cli.output import json_option, note, print_json, progress
from reflector.config import BACKENDS

if TYPE_CHECKING:
    from reflector.audit.comparison.agreement import Labels, Side
    from reflector.audit.comparison.trial import Trial
    from reflector.ledger.store import Ledger, WindowRow
    from reflector.reflection.judging import Judge

_SPEC = "rules, fixtures[:FILE], anthropic[:MODEL] or recorded[:BACKEND]"
_MOST_LABELS = 64 * 1024 * 1024


@click.command()
@click.option("--a", "spec_a", required=True, metavar="SPEC", help=f"First reflector: {_SPEC}.")
@click.option("--b", "spec_b", required=True, metavar="SPEC", help="Second reflector, in the same forms as --a.")
@click.option("--template-a", type=PATH, metavar="FILE", help="A prompt template for the model of --a.")
@click.option("--template-b", type=PATH, metavar="FILE", help="A prompt template for the model of --b.")
@click.option("--labels", type=PATH, metavar="FILE", help="The right verdicts, for precision and recall.")
@click.option("--fresh", is_flag=True, help="Call models even where the ledger has their answer.")
@click.option("--yes", is_flag=True, help="Make the calls without asking.")
@json_option
@click.argument("sessions", nargs=-1, type=SESSION, metavar="[SESSION…]")
@click.pass_obj
def compare(
    place: Place,
    spec_a: str,
    spec_b: str,
    template_a: Path | None,
    template_b: Path | None,
    labels: Path | None,
    fresh: bool,
    yes: bool,
    as_json: bool,
    sessions: tuple[str, ...],
) -> None:
    """Compare two reflectors over recorded sessions; counts nothing.

    SESSION is a session's id or its beginning; without one, all sessions are compared. A model is called only where
    the ledger has no answer of it to the same prompt template, and after showing the estimated cost.
    """
    from reflector.audit.comparison.trial import Trial
    from reflector.cli.comparison import document, show

    judges = [
        _judge(place, "a", spec_a, template_a, fresh=fresh),
        _judge(place, "b", spec_b, template_b, fresh=fresh),
    ]
    known = _labels(labels) if labels is not None else None
    with place.reading() as ledger:
        trial = Trial(ledger, *judges)
        windows = _windows(ledger, sessions)
        with progress(len(windows), "judging") as bar:
            for _ in trial.prepare(windows):
                bar.update(1)
        if trial.calls:
            _confirm_cost(place, trial, yes=yes)
        with progress(len(windows) - trial.passed_over - trial.redacted, "asking", hidden=not trial.calls) as bar:
            rulings = []
            for ruling in trial.rulings():
                rulings.append(ruling)
                bar.update(1)
    if as_json:
        print_json(document(trial, rulings, known))
    else:
        show(trial, rulings, known)


def _windows(ledger: Ledger, sessions: tuple[str, ...]) -> list[WindowRow]:
    from reflector.cli.audit import session_named
    from reflector.events.event import SESSION_RECORDED

    ids = dict.fromkeys(session_named(ledger, given) for given in sessions)
    found = [window for session_id in ids for window in ledger.windows(session_id)] if ids else ledger.windows()
    # A trajectory has no transcript that another judge could read.
    known = {one.event_id for one in ledger.having({one.event_id for one in found}) if one.type == SESSION_RECORDED}
    return [window for window in found if window.event_id in known]


def _judge(place: Place, side: Side, spec: str, template: Path | None, *, fresh: bool) -> Judge:
    """One side, as its SPEC says; a usage error where that says nothing."""
    from reflector.reflection.judging import Judge

    option = f"--{side}"
    kind, colon, rest = spec.partition(":")
    if kind not in (*BACKENDS, "recorded"):
        raise click.UsageError(f"{option} {spec!r} is not a reflector; it is {_SPEC}")
    if colon and (not rest or kind == "rules"):
        raise click.UsageError(f"{option} {spec!r}: {f'nothing follows {kind}' if rest else 'a name is missing'}")
    if template is not None and kind != "anthropic":
        raise click.UsageError(f"--template-{side} is for a model, and {option} {spec} asks none; leave it out")
    if kind == "recorded":
        if colon and rest not in BACKENDS:
            raise click.UsageError(
                f"{option} {spec!r}: {rest!r} is not a backend; the backends are {', '.join(BACKENDS)}"
            )
        return Judge(spec, None, recorded_of=rest or None, uncited=rest != "rules")
    if kind == "anthropic":
        return model_judge(place, spec, rest or None, template, fresh=fresh)
    from reflector.reflection.backends import backend_of

    # Path.expanduser raises for a user that is not there.
    file = str(Path(os.path.expanduser(rest)).absolute()) if rest else None  # noqa: PTH111
    project = place.project(backend=kind, fixtures=file)
    if file is not None and not Path(file).is_file():
        raise click.UsageError(f"{option} {spec!r}: there is no file {file}")
    return Judge(spec, backend_of(project.config, project.root), uncited=kind != "rules")


def model_judge(
    place: Place, spec: str, model: str | None = None, template: Path | None = None, *, fresh: bool
) -> Judge:
    """Return a model as a judge of windows; it is not asked yet."""
    from reflector.reflection.backends import backend_of
    from reflector.reflection.backends.anthropic.settings import model_settings
    from reflector.reflection.judging import Judge
    from reflector.reflection.prompts import TemplateError, find_template, read_template

    project = place.project(backend="anthropic", model=model)
    name = "reflector.txt"
    try:
        asked_with = find_template(name, project.root) if template is None else read_template(name, template)
    except TemplateError as error:
        raise click.UsageError(str(error)) from error
    return Judge(
        spec,
        backend_of(project.config, project.root, template=template),
        model=model_settings(project.config).model,
        template_sha256=asked_with.sha256,
        fresh=fresh,
        uncited=project.config.uncited,
    )


def _confirm_cost(place: Place, trial: Trial, *, yes: bool) -> None:
    """Show the estimated cost of the calls, and ask for consent."""
    from reflector.events.spent import Usage, cost
    from reflector.reflection.backends.anthropic.settings import MAX_TOKENS, model_settings

    if model_settings(place.project().config).key is None:
        raise click.UsageError("there is no API key for the model: set ANTHROPIC_API_KEY, or compare what is recorded")
    for side, judge in (("a", trial.a), ("b", trial.b)):
        calls = [call for call in trial.calls if call.side == side]
        if not calls:
            continue
        # Writing to the cache costs most.
        prices = [cost(call.model, Usage(cache_write=call.tokens, output=MAX_TOKENS)) for call in calls]
        known = [price for price in prices if price is not None]
        price = f"at most about ${sum(known):.2f}" if len(known) == len(prices) else "at a price that is not known here"
        note(
            f"{side} ({judge.spec}): {len(calls):,} call{'s' if len(calls) != 1 else ''} to {judge.model}, about "
            f"{sum(call.tokens for call in calls):,} tokens in and at most {len(calls) * MAX_TOKENS:,} out, {price}"
        )
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(
            "these calls cost money, and there is no terminal to confirm them: add --yes to make them"
        )
    if not click.confirm("Make these calls?", err=True):
        note("Nothing was asked.")
        raise click.exceptions.Exit(1)


def _labels(path: Path) -> Labels:
    """Return the labels of a file of JSON lines; a usage error that names the line."""
    import json

    from reflector.audit.comparison.agreement import BadLabel, read_label
    from reflector.cli.output import os_error_words
    from reflector.files import read_bounded

    try:
        text = read_bounded(path, _MOST_LABELS).decode()
    except OSError as error:
        raise click.UsageError(os_error_words(error, path)) from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path}: not UTF-8 at byte {error.start}; save it as UTF-8") from error
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            key, tag = read_label(json.loads(line))
        except BadLabel as error:
            raise click.UsageError(f"{where}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise click.UsageError(f"{where}: is not JSON ({error}); each line is one label") from error
        if found.setdefault(key, tag) != tag:
            raise click.UsageError(f"{where}: {key[1]} of {key[0]} is {tag} here and {found[key]} in an earlier line")
    return found
