"""`reflector gate`: the policies of the gate, and what another one would have reflected on."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from reflector.cli.app import Place
from reflector.cli.output import counted, fields, json_option, note, print_json, progress, short_id, table
from reflector.config import GATES

if TYPE_CHECKING:
    from reflector.audit.shadow import Decisions, Shadowed
    from reflector.quality.policy import GatePolicy
    from reflector.reflection.judging import Judge

_POLICIES = [name for name in GATES if name != "cited"]


@click.command()
@click.option("--shadow", "name", type=click.Choice(_POLICIES), help="Compare with this policy; records nothing.")
@click.option("--threshold", type=click.FloatRange(0, 1), help="The policy's threshold; default: the preset's.")
@json_option
@click.pass_obj
def gate(place: Place, name: str | None, threshold: float | None, as_json: bool) -> None:
    """Show the gate policies, or what one of them would have reflected on.

    With --shadow, each recorded window is scored from its transcript. The cost is that of asking the configured model
    about the chosen windows, estimated where the ledger has no answer of it. No model is called.
    """
    from reflector.quality.policy import PRESETS

    if name is None:
        _show_policies(place, threshold, as_json)
        return
    from reflector.audit.shadow import shadow, shadow_decisions
    from reflector.cli.compare import model_judge

    policy = PRESETS[name] if threshold is None else replace(PRESETS[name], threshold=threshold)
    judge = model_judge(place, "anthropic", fresh=False)
    found: list[Shadowed] = []
    with place.reading() as ledger:
        with progress(len(ledger.windows()), "scoring") as bar:
            for one in shadow(ledger, policy, judge):
                found.append(one)
                bar.update(1)
        decisions = shadow_decisions(ledger, policy)
    if as_json:
        print_json(_document(policy, found, decisions, judge))
    else:
        _show(name, policy, found, decisions, judge)


def _show_policies(place: Place, threshold: float | None, as_json: bool) -> None:
    from reflector.quality.policy import PRESETS

    if threshold is not None:
        raise click.UsageError("--threshold belongs to a policy; add --shadow turn or --shadow step")
    chosen = place.project().config.gate
    if as_json:
        print_json({"gate": chosen, "policies": {name: _policy(policy) for name, policy in PRESETS.items()}})
        return
    rows: list[tuple[object, ...]] = [("cited", "", "every window that cites", "*" * (chosen == "cited"))]
    for name, policy in PRESETS.items():
        when = f"{', '.join(policy.triggers)}; threshold {policy.threshold:.2f}"
        rows.append((name, policy.id, when, "*" * (chosen == name)))
    table(("gate", "policy", "reflects on", "in force"), rows, prose=("reflects on",), extra=("policy",))


def _policy(policy: GatePolicy) -> dict[str, Any]:
    return {"id": policy.id, **asdict(policy)}


def _document(policy: GatePolicy, found: list[Shadowed], decisions: Decisions, judge: Judge) -> dict[str, Any]:
    return {
        "policy": _policy(policy),
        "model": judge.model,
        "windows": [
            {
                **fields(one.window, "session_id position state"),
                "score": None if one.quality is None else one.quality.signals.score(),
                "reflects": None if one.decision is None else one.decision.reflects,
                "trigger": None if one.decision is None else one.decision.trigger,
                "reason": one.lack if one.decision is None else one.decision.reason,
                "tokens": one.tokens,
            }
            for one in found
        ],
        "decisions": asdict(decisions),
    }


def _show(name: str, policy: GatePolicy, found: list[Shadowed], decisions: Decisions, judge: Judge) -> None:
    from reflector.events.spent import Usage, cost

    rows = [
        (
            one.window.position,
            short_id(one.window.session_id),
            one.window.state,
            "?" if one.quality is None else f"{one.quality.signals.score():.2f}",
            "reflects" if one.reflects_then else "passes" if one.decision else "?",
            "" if one.tokens is None else f"{one.tokens:,}",
            one.decision.reason if one.decision else one.lack,
        )
        for one in found
    ]
    if rows:
        columns = ("window", "session", "now", "score", "then", "tokens", "why")
        table(columns, rows, numbers=("window", "score", "tokens"), extra=("tokens", "score"))
    chosen = [one for one in found if one.reflects_then]
    more = sum(not one.reflects_now for one in chosen)
    fewer = sum(one.reflects_now for one in found if not one.reflects_then)
    note(
        f"{name} ({policy.id}) reflects on {len(chosen)} of {counted(len(found), 'window')}: "
        f"{more} that the gate let pass, and {fewer} fewer of the others."
    )
    if decisions.decided:
        note(
            f"Of {counted(decisions.decided, 'recorded decision')} about turns and steps {decisions.reflected} "
            f"reflected; under {name} {decisions.would} would."
        )
    sent = [one.tokens or 0 for one in chosen]
    prices = [cost(judge.model, Usage(input=tokens)) for tokens in sent]
    known = [price for price in prices if price is not None]
    price = f", ${sum(known):.4f}" if known and len(known) == len(prices) else ""
    note(f"Asking {judge.model} about them sends about {sum(sent):,} tokens{price}; rules call no model.")
