"""The last lines of the page: the sessions to read, the price of a judge, and the next command.

Invariant: a command that asks a judge repeats the typed files and options, so it sends exactly the
shown text to the shown judge. Its price is printed before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from shlex import quote

from reflector.audit.checked import Checked
from reflector.check.facts import PageFacts, Step
from reflector.check.plan import Plan, Typed, judge_title
from reflector.check.rows import Part, needs_judge, part_of, rows_of
from reflector.prices import price_words
from reflector.text.phrases import counted


def closing(
    facts: PageFacts, plan: Plan, typed: Typed, command: Callable[..., str], *, keep_with: str
) -> tuple[Step, ...]:
    """Return the next commands.

    command    returns a command for this playbook as you type it in a terminal
    keep_with  the command that keeps the counts; "" if they are kept
    """
    steps = [*_first_look(facts, command)]
    rules_are_newer = _rules_are_newer(facts)
    if elsewhere := facts.elsewhere:
        number = counted(elsewhere.sessions, "session")
        reason = f"{number} ran in {elsewhere.folder}, {elsewhere.why}. To count these sessions"
        steps.append(Step(reason, f"{command('ingest', elsewhere.files)} && {command('check')}"))
    elif not facts.sessions:
        reason = "Use an agent in this folder, or go to a folder with sessions. Then run"
        steps.append(Step(reason, command("check")))
    elif rules_are_newer or (not plan.shares and _is_undated(facts)):
        steps.append(Step("After your next session, run", command(*typed.words())))
    if plan.shares and not rules_are_newer:
        steps.append(_judge_line(facts, plan, typed, command))
    if keep_with:
        reason = "To keep these counts when your agent deletes its sessions"
        steps.append(Step(reason, command(keep_with)))
    return tuple(steps)


def _rules_are_newer(facts: PageFacts) -> bool:
    """Return whether every rule is newer than every session, so that no judge can help."""
    return bool(facts.rules) and all(part_of(rule) is Part.NEW for rule in facts.rules)


def _is_undated(facts: PageFacts) -> bool:
    """Return whether no session is known to have started with or without a rule."""
    dated = any(rule.since.sessions or rule.before.sessions for rule in facts.rules)
    return bool(facts.rules) and not dated and not any(rule.judged for rule in facts.rules)


def _first_look(facts: PageFacts, command: Callable[..., str]) -> Iterator[Step]:
    """Yield the command for the first rule to look at, or for your own words if there is none."""
    rows = [row for row in rows_of(facts, date.today()) if not row.quotes]
    if rows:
        yield Step("To see the sessions of a rule", command("blame", quote(rows[0].label)))
    elif facts.repeated:
        rules = facts.repeated[0].rules
        words = (
            f"To add a clearer rule than {rules[0]}" if rules else "To turn your words into a rule"
        )
        yield Step(words, command("add", "pat", '"…"'))


def _judge_line(facts: PageFacts, plan: Plan, typed: Typed, command: Callable[..., str]) -> Step:
    """Return the price of a judge, and the command that asks the judge."""
    unjudged = sum(map(needs_judge, facts.rules))
    whose = f"To judge {counted(unjudged, 'rule')}" if unjudged else "To judge every rule"
    only = next(iter(plan.shares)) if len(plan.shares) == 1 else None
    reason = f"{whose}: {cost_words(plan)}"
    return Step(reason, plan.lacks or command(*typed.asking(typed.judge or only)))


def cost_words(plan: Plan) -> str:
    """Return a clause that names the judges with their sessions and tokens, and the price."""
    parts = [
        f"{counted(len(share.sessions), 'session')} for {judge_title(judge)} to read, "
        f"at most {-(-share.tokens // 1000) * 1000:,} tokens"
        for judge, share in plan.shares.items()
    ]
    price = "price unknown" if plan.total.price is None else price_words(plan.total.price)
    return f"{', '.join(parts)}, {price}"


def spent_words(checked: Checked) -> str:
    """Return the number of judged sessions so far, and their price."""
    price = price_words(Decimal(checked.cost))
    if checked.unpriced:
        price += " and answers of unknown price"
    sessions = counted(checked.sessions, "session")
    questions = counted(checked.requests, "question")
    return f"Judges have read {sessions} so far: {questions}, {checked.tokens:,} tokens, {price}."
