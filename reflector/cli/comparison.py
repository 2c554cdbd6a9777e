"""How a comparison is shown: one JSON document for machines, tables for people.

Invariant: the document has every pair and every failure; the tables have the same figures, and say where they leave
something out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from reflector.audit.comparison.agreement import (
    CATEGORIES,
    NONE,
    Agreement,
    Labels,
    Pair,
    Ruling,
    Score,
    Side,
    Tally,
    agreement_of,
    judged_by_both,
    said_by,
    scores,
    tally_of,
)
from reflector.audit.comparison.trial import Trial
from reflector.cli.output import counted, fields, note, percent, rounded, safe, short_id, spent_fields, table
from reflector.playbook.counting import VERDICTS
from reflector.reflection.judging import Judge

#: Reasons why windows could not be judged that a terminal is shown, each side's most frequent ones.
_REASONS = 5
#: Models that it is shown; recorded answers have one each.
_MODELS = 3


def document(trial: Trial, rulings: Sequence[Ruling], known: Labels | None) -> dict[str, Any]:
    """Return the comparison for machines, as docs/json.md says."""
    pairs = [pair for ruling in rulings for pair in ruling.pairs]
    labelled = _scores(rulings, known) if known is not None else None
    return {
        "windows": sum(ruling.is_compared for ruling in rulings),
        "passed_over": trial.passed_over,
        "redacted": trial.redacted,
        **_figures(agreement_of(pairs)),
        "both_judged": _figures(agreement_of(judged_by_both(pairs))),
        "matrix": agreement_of(pairs).matrix,
        "verdicts": [fields(pair, "session_id window_id name a b") for pair in pairs],
        "disagreements": [asdict(pair) for pair in pairs if pair.a != pair.b],
        "sides": [_side(side, judge, tally_of(rulings, side)) for side, judge in _sides(trial)],
        "labels": None
        if labelled is None
        else {
            "used": labelled[0],
            "unused": labelled[1],
            "a": [_score(score) for score in labelled[2]],
            "b": [_score(score) for score in labelled[3]],
        },
    }


def _sides(trial: Trial) -> tuple[tuple[Side, Judge], tuple[Side, Judge]]:
    return ("a", trial.a), ("b", trial.b)


def _figures(agreement: Agreement) -> dict[str, Any]:
    return {
        **fields(agreement, "pairs agreed"),
        "agreement": rounded(agreement.agreement, 4),
        "kappa": rounded(agreement.kappa, 4),
    }


def _side(side: Side, judge: Judge, tally: Tally) -> dict[str, Any]:
    spent = tally.spent
    return {
        "side": side,
        "spec": judge.spec,
        "models": list(tally.models),
        "template_sha256": judge.template_sha256,
        "judged": tally.judged,
        "answers_asked": spent.asked,
        "answers_recorded": spent.recorded,
        **spent_fields(spent),
        "strays": tally.strays,
        "failures": [dict(zip(("session_id", "window_id", "reason"), each, strict=True)) for each in tally.failures],
    }


def _scores(rulings: Sequence[Ruling], known: Labels) -> tuple[int, int, list[Score], list[Score]]:
    """(labels used, labels of what was not compared, a's scores, b's scores)."""
    compared = {ruling.session_id for ruling in rulings if ruling.is_compared}
    used = {label: tag for label, tag in known.items() if label[0] in compared}
    a, b = (scores(used, said_by(rulings, side)) for side in ("a", "b"))
    return len(used), len(known) - len(used), a, b


def _score(score: Score) -> dict[str, Any]:
    return {**asdict(score), "precision": rounded(score.precision, 4), "recall": rounded(score.recall, 4)}


def show(trial: Trial, rulings: Sequence[Ruling], known: Labels | None) -> None:
    """Print the comparison for people."""

    pairs = [pair for ruling in rulings for pair in ruling.pairs]
    compared = sum(ruling.is_compared for ruling in rulings)
    click.echo(f"{counted(compared, 'window')} compared: a = {safe(trial.a.spec)}, b = {safe(trial.b.spec)}")
    tallies = {side: tally_of(rulings, side) for side, _ in _sides(trial)}
    if pairs:
        _show_agreement(pairs, agreement_of(pairs), agreement_of(judged_by_both(pairs)))
    if known is not None:
        _show_scores(*_scores(rulings, known))
    if differing := [pair for pair in pairs if pair.a != pair.b]:
        _show_disagreements(differing)
    click.echo()
    table(
        ("side", "reflector", "judged", "failed", "asked", "recorded", "tokens", "cost", "models"),
        [_side_row(side, judge, tallies[side]) for side, judge in _sides(trial)],
        numbers=("judged", "failed", "asked", "recorded", "tokens", "cost"),
        prose=("reflector", "models"),
        extra=("recorded", "asked", "cost"),
    )
    for side, _ in _sides(trial):
        _print_failures(side, tallies[side])
    if trial.passed_over:
        note(f"{counted(trial.passed_over, 'window')} passed over: nothing there that both could judge is cited.")
    if trial.redacted:
        note(f"{counted(trial.redacted, 'window')} passed over: redacted.")


def _show_agreement(pairs: Sequence[Pair], every: Agreement, both: Agreement) -> None:
    told = f"{counted(len(pairs), 'verdict pair')}: {_agreed(every)}"
    if both.pairs != every.pairs:
        told += f"\n{both.pairs:,} of them judged by both: {_agreed(both)}"
    click.echo(f"{told}\n")
    shown = CATEGORIES if any(NONE in (pair.a, pair.b) for pair in pairs) else VERDICTS
    rows = [(of_a, *(every.matrix[of_a][of_b] for of_b in shown), sum(every.matrix[of_a].values())) for of_a in shown]
    totals = [sum(every.matrix[of_a][of_b] for of_a in shown) for of_b in shown]
    table(("a \\ b", *shown, "total"), [*rows, ("total", *totals, every.pairs)], numbers=(*shown, "total"))


def _agreed(agreement: Agreement) -> str:
    if agreement.agreement is None:
        return "no pairs to compare"
    kappa = "undefined (one category only)" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    return f"{agreement.agreed:,} agree ({agreement.agreement:.0%}), Cohen's kappa {kappa}"


def _show_scores(used: int, unused: int, a: Sequence[Score], b: Sequence[Score]) -> None:
    click.echo(
        f"\n{counted(used, 'label')} of sessions that were compared" + (f", {unused:,} of others" * bool(unused))
    )
    rows = [
        (side, score.tag, score.labelled, score.given, score.right, percent(score.precision), percent(score.recall))
        for side, found in (("a", a), ("b", b))
        for score in found
    ]
    columns = ("side", "tag", "labelled", "given", "right", "precision", "recall")
    table(columns, rows, numbers=columns[2:])


def _show_disagreements(pairs: Sequence[Pair]) -> None:
    rows: list[tuple[str, ...]] = []
    for pair in pairs:
        rows.append((short_id(pair.session_id), pair.name, "a", pair.a, pair.a_rationale))
        rows.append(("", "", "b", pair.b, pair.b_rationale))
    click.echo()
    table(("session", "bullet", "side", "verdict", "why"), rows, whole=True)


def _side_row(side: Side, judge: Judge, tally: Tally) -> tuple[object, ...]:
    spent, more = tally.spent, len(tally.models) - _MODELS
    return (
        side,
        judge.spec,
        tally.judged,
        len(tally.failures),
        spent.asked,
        spent.recorded,
        f"{spent.tokens:,}",
        " + ".join(filter(None, (f"${spent.cost:.4f}" * bool(spent.cost), "?" * bool(spent.unpriced)))),
        ", ".join(tally.models[:_MODELS]) + (f" and {more:,} more" if more > 0 else ""),
    )


def _print_failures(side: Side, tally: Tally) -> None:
    """Why windows could not be judged, the most frequent reasons first."""
    sessions: dict[str, list[str]] = {}
    for session_id, _, reason in tally.failures:
        sessions.setdefault(reason, []).append(short_id(session_id))
    by_frequency = sorted(sessions.items(), key=lambda item: -len(item[1]))
    for reason, ids in by_frequency[:_REASONS]:
        named = ", ".join(list(dict.fromkeys(ids))[:3]) + (", …" if len(set(ids)) > 3 else "")
        note(f"{side} could not judge {counted(len(ids), 'window')} ({named}): {reason}")
    if len(by_frequency) > _REASONS:
        note(f"{side} could not judge others for {len(by_frequency) - _REASONS} more reasons; see --json")
    if tally.strays:
        note(f"{side} gave {counted(tally.strays, 'tag')} to bullets that the playbook has not; they are left out")
