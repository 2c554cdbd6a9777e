"""Events about lessons: the runs, the lessons learned from them, the sessions that were shown them,
and the outcomes.

Invariant: these are facts as they arrived, without anything computed from them. The folds of
`reflector.embed.lessons` compute from the outcomes a lesson's worth, whether it is still valid and
whether it is kept. The id of the event that recorded a lesson identifies it.

`text` is the part of a lesson that is shown and searched: the key insight of an insight, the
corrective strategy of a reflection, the correction of a mistake, or the summary. The other texts
give its origin. `task` is the type of task of a mistake, and the task of a reflection.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from reflector.events.effects import ChangesNothing, RecordsWindow, Tells
from reflector.events.event import (
    ADVICE_TOLD,
    GATE_DECIDED,
    LESSON_RECORDED,
    OUTCOME_OBSERVED,
    REVISION_ATTEMPTED,
    TRAJECTORY_RECORDED,
)
from reflector.events.fields import (
    EVENT_ID,
    FLAG,
    NAMES,
    NUMBER,
    OBJECT,
    UNIT,
    WORD,
    WORD_OR_PROSE,
    bounded,
    first_of,
    needed,
    one_of,
    several,
)
from reflector.events.kinds import EventType, Target, as_line

#: For each kind of outcome: whether it supports the lesson (1), opposes it (-1) or does neither
#: (0), and its effect on the confidence.
OUTCOMES = {
    "retry_improved": (1, 0.03),
    "retry_did_not_improve": (-1, -0.10),
    "execution_awaiting_review": (0, 0.02),
    "execution_awaiting_test_validation": (0, 0.02),
    "pre_execution_approved": (1, 0.08),
    "pre_execution_rejected": (-1, -0.16),
    "pre_execution_needs_revision": (-1, -0.12),
    "review_approved": (1, 0.08),
    "review_rejected": (-1, -0.16),
    "review_needs_revision": (-1, -0.12),
    "test_validation_approved": (1, 0.08),
    "test_validation_rejected": (-1, -0.16),
    "test_validation_needs_revision": (-1, -0.12),
    "task_completed": (1, 0.12),
    "task_failed": (-1, -0.12),
    "task_blocked": (-1, -0.12),
    "task_cancelled": (-1, -0.08),
    # Outcomes without more detail; they weigh as much as a task that ended.
    "success": (1, 0.12),
    "failure": (-1, -0.12),
}
POLARITY = {kind: polarity for kind, (polarity, _) in OUTCOMES.items()}

#: The most characters of a lesson's text, and of a text about its origin.
MAX_LESSON = 100_000
MAX_EVIDENCE = 4_000_000
_MOST_TAGS = 100
MOST_TOLD = 1_000
_MOST_STEPS = 100_000

_EVIDENCE = bounded(MAX_EVIDENCE)
_NEEDED_EVIDENCE = needed(_EVIDENCE)
_WHY = bounded(MAX_LESSON)


def _outcome(facts: Any) -> str:
    why = f": {facts['why']}" if facts.get("why") else ""
    return f"{facts.get('kind')}, by {facts.get('source')}{why}"


def _told(facts: Any) -> str:
    advice = [*facts.get("bullets", ()), *(lesson[:12] for lesson in facts.get("lessons", ()))]
    return f"{first_of(advice) or 'nothing'}, shown by {facts.get('via')}"


def _decision(facts: Any) -> str:
    verb = "reflects" if facts.get("reflects") else "passes"
    reason = facts.get("trigger") or facts.get("reason")
    return f"{verb}: {reason}" if reason else verb


def _revision(facts: Any) -> str:
    change = "improved" if facts.get("improved") else "did not improve"
    return f"{change}, score from {facts.get('initial')} to {facts.get('retried')}"


#: The type of an event about lessons. It can be retracted unless it gives a reason why not.
_type = partial(EventType, since=5, checked=True, no_retraction="")

TYPES = (
    _type(
        name=TRAJECTORY_RECORDED,
        meaning=(
            "The agent worked once on a task with a known answer. The event contains the question, "
            "the agent's answer and the rules that the agent used."
        ),
        fields={
            "query": _NEEDED_EVIDENCE,
            "dataset": needed(WORD),
            "answer": _NEEDED_EVIDENCE,
            "steps": several(_EVIDENCE, _MOST_STEPS, "steps"),
            "status": needed(one_of("success", "failure")),
            "error": bounded(MAX_EVIDENCE, null=True),
            # The bullets that it used, in order; ids that mean no bullet here are in `unknown`.
            "cited": needed(NAMES),
            "unknown": several(bounded(MAX_LESSON), MOST_TOLD, "ids"),
            "ground_truth": _EVIDENCE,
            "test_report": _EVIDENCE,
        },
        effect=RecordsWindow(),
        summary=as_line("{dataset}, {status}: {query}"),
    ),
    _type(
        name=LESSON_RECORDED,
        meaning=(
            "A lesson was recorded: an insight, a reflection, a mistake with its correction, or a "
            "summary."
        ),
        fields={
            "kind": needed(one_of("insight", "reflection", "mistake", "summary")),
            "text": needed(bounded(MAX_LESSON)),
            "task": WORD_OR_PROSE,
            "owner": WORD_OR_PROSE,
            "tags": several(WORD_OR_PROSE, _MOST_TAGS, "tags"),
            # insight
            **dict.fromkeys(
                ("reasoning", "error_identification", "root_cause_analysis", "correct_approach"),
                _EVIDENCE,
            ),
            # reflection; `improvement` is the gain of a retry that was not recorded as a
            # revision.attempted
            "attempt": _EVIDENCE,
            "issue": _EVIDENCE,
            "improvement": UNIT,
            # the confidence that it needs before its promotion is due, if the settings of its turn
            # set one
            "promotion": UNIT,
            # mistake
            "mistake": _EVIDENCE,
            "context_hash": WORD,
            # summary; `entry` is its id in the host
            "entry": WORD_OR_PROSE,
            "turn": NUMBER,
            "slot": NUMBER,
            "ts": WORD_OR_PROSE,
            "embed": FLAG,
        },
        effect=ChangesNothing(
            "reflector computes the worth of a lesson from the lesson's outcomes"
        ),
        summary=as_line("{kind}: {text}"),
        target=Target("the recorded session or task that taught the lesson"),
    ),
    _type(
        name=OUTCOME_OBSERVED,
        meaning="A lesson was applied, and helped or misled the agent.",
        fields={
            "kind": needed(one_of(*POLARITY)),
            "source": needed(WORD),
            "why": _WHY,
            # The window whose tests show it. A retraction of the window also retracts the outcome.
            "window": EVENT_ID,
        },
        effect=ChangesNothing("reflector computes the worth of the lesson from this outcome"),
        summary=_outcome,
        target=Target("the lesson", required=True),
    ),
    _type(
        name=ADVICE_TOLD,
        meaning="Lessons and rules were shown to an agent, in a session or for a task.",
        fields={
            # A query, the text at a start, the lessons of a task, or a file that the client loads.
            "via": needed(one_of("recall", "injection", "retrieval", "file")),
            "lessons": needed(several(EVENT_ID, MOST_TOLD, "ids of lessons")),
            "bullets": NAMES,
            "task": WORD_OR_PROSE,
            "query": _WHY,
            # Of the text at a start: its SHA-256 (of a file, that of its rules), and the seed of
            # the draw among the rules that did not fit.
            "digest": WORD,
            "seed": WORD,
            # The source of this fact: the agent's own transcript, or the hook that printed the
            # text.
            "source": one_of("transcript", "hook"),
        },
        effect=Tells("a rule that was not shown is not evaluated"),
        summary=_told,
        no_retraction="the agent has already read the text",
        target=Target("the recorded part of the session that began with the lessons and rules"),
    ),
    _type(
        name=GATE_DECIDED,
        meaning="reflector's gate decided whether a turn or step of the agent needs a reflection.",
        fields={
            "policy": needed(WORD),
            "reflects": needed(FLAG),
            "trigger": WORD,
            "reason": _WHY,
            # The facts that the gate used, so that another policy can decide on them for
            # comparison.
            "signals": OBJECT,
            "task": WORD_OR_PROSE,
            "turn": NUMBER,
            "step": NUMBER,
        },
        effect=ChangesNothing("programs compare this decision with the decisions of other gates"),
        summary=_decision,
        no_retraction="a decision is not evidence, so it does not count",
        target=Target("the recorded session or task"),
    ),
    _type(
        name=REVISION_ATTEMPTED,
        meaning=(
            "The agent revised an answer once, after it reflected on the answer. The event "
            "contains the scores before and after this revision."
        ),
        fields={
            "initial": needed(UNIT),
            "retried": needed(UNIT),
            "improved": needed(FLAG),
            "mode": WORD,
            "reason": _WHY,
        },
        effect=ChangesNothing("reflector computes the confidence in the lesson from this event"),
        summary=_revision,
        target=Target("the lesson, or the recorded session or task", required=True),
    ),
)
