"""The second half of `reflector demo`: a trajectory, a gated summary, a revised turn and a lesson, in one ledger."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger

_DATASET = "sums"
_REFLECTION = """ATTEMPT: Named the port from memory.
ISSUE: The configuration was not opened, because its path was wrong.
STRATEGY: Find the file first, then answer from what it says.
TAGS: evidence, configuration"""


def show(project: Path, trajectory: Path, say: Callable[[str], None], run: Callable[..., None]) -> None:
    """Show four systems; `say` prints a heading, `run` one too, and a command with what it prints."""
    from reflector.project import Project

    run(
        "A task has a right answer. A playbook of its own is judged by it, and by the test report:",
        *("--dataset", _DATASET, "add", "pat", "Round the price of an item before you add it up."),
    )
    run("The test that failed is about what the bullet advised:", "reflect-trajectory", str(trajectory))
    with Project.of_dataset(project, _DATASET).open_ledger() as ledger:
        _summary(ledger, say)
        _turn(ledger, say)
        _lesson(ledger, say)
    run(
        "What each system learned, how trusted it is, its worth and how often it was shown:",
        "--dataset",
        _DATASET,
        "lessons",
    )
    run("Is this ledger what was appended?", "--dataset", _DATASET, "verify")


def _summary(ledger: Ledger, say: Callable[[str], None]) -> None:
    from reflector.gating.bundle import ReflectionBundle
    from reflector.gating.config import load_config
    from reflector.gating.step import after_turn

    say("A turn is applied, and the gate allows a summary. No model is called; the same turn gives the same bytes:")
    turn = ReflectionBundle(
        ctx={"agent_id": "shop", "turn_id": 1, "now_iso": "2026-11-22T08:00:00Z"},
        state_view={},
        plan={"reflection": True},
        utter="Done: the discount applies before the total is rounded.",
        snippets=["The cart is in cart.py."],
    )
    done = after_turn(turn, load_config({"t3": {"allow_reflection": True}}), ledger=ledger)
    click.echo(f"  {done.summary if done else ''}")


def _turn(ledger: Ledger, say: Callable[[str], None]) -> None:
    from reflector.revision.turn import Answer, revise_turn

    def agent(_prompt: str, how: str) -> str | Answer:
        if how == "reflect":
            return _REFLECTION
        return Answer("The port is 6380: config/app.toml, line 12.", [{"name": "read", "status": "success"}])

    say("An answer of low quality is reflected on, and revised once:")
    first = Answer("I cannot open it; 6379?", [{"name": "read", "status": "error", "error": "no such file"}])
    turn = revise_turn("Which port?", first, agent, session_id="shop", turn=2, has_tools=True, ledger=ledger)
    assert turn.reflection is not None
    assert turn.retried is not None
    click.echo(f"  first    {first.content}  ({turn.decision.reason})")
    click.echo(f"  strategy {turn.reflection.corrective_strategy}")
    click.echo(f"  revised  {turn.content.splitlines()[-1]}  (quality score {turn.retried.score():.2f})")


def _lesson(ledger: Ledger, say: Callable[[str], None]) -> None:
    from reflector.revision.engine import ReflectionEngine

    say("A lesson is told to four tasks. What came of it is its worth:")
    engine = ReflectionEngine(ledger=ledger)
    lesson = engine.store_lesson("api_design", "forgot auth", "always add auth middleware")
    for task, success in enumerate((True, True, False, True), start=1):
        engine.reset_step_counts(f"task-{task}")
        (told,) = engine.get_relevant_lessons("api_design", key=engine.task)
        worth = engine.record_lesson_outcome(lesson.lesson_id, success, key=engine.task)
        click.echo(f"  {engine.task} {'succeeds' if success else 'fails   '}  {told.effectiveness:.2f} -> {worth:.2f}")
