"""Events about sessions and their reflections: windows, their results, retracted evidence and
trials; and the readers of their data.

Invariant: an outcome does not contain an arm. The opening of a trial contains everything that
decides an arm, before the first session. Models and agents write some of the data, so a reader
accepts a value of any type.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from reflector.events.effects import (
    ChangesNothing,
    CompletesReflection,
    GivesAnswer,
    MovesWindow,
    RecordsWindow,
    Retracts,
)
from reflector.events.event import (
    EVIDENCE_RETRACTED,
    REFLECTION_ANSWERED,
    REFLECTION_COMPLETED,
    REFLECTION_FAILED,
    REFLECTION_SKIPPED,
    SESSION_COPIED,
    SESSION_OUTCOME,
    SESSION_RECORDED,
    TRIAL_CLOSED,
    TRIAL_OPENED,
)
from reflector.events.fields import (
    FLAG,
    NAME,
    NAME_OR_NULL,
    NAMES,
    NUMBER,
    OBJECT,
    PROSE,
    PROSES,
    RECORD_KEYS,
    TEXT,
    TEXT_OR_NULL,
    WORD,
    WORD_OR_PROSE,
    first_of,
    needed,
    one_of,
    within,
)
from reflector.events.kinds import EventType, Target, as_line

_WINDOW = Target("the recorded part of the session, or the task")
_NAME_IT = "name the reflection or the session instead"
#: The key for queued messages that were not delivered: without a tag, their speaker is unknown.
QUEUED = "(queued)"
_trial = partial(EventType, since=9, checked=True)
_COUNTS = (
    "turns words unread corrections refusals interruptions approvals reverts files tokens seconds"
)
_ENDING = one_of("passes", "fails", None)
_ARM = within({"sessions": needed(NUMBER), "good": needed(NUMBER)})


def tells_more(outcome: Mapping[str, Any]) -> bool:
    """Return whether an outcome shows more than the length of a session."""
    names = ("words", "refusals", "interruptions", "tests", "build")
    return any(outcome.get(name) for name in names)


def _window(facts: Any) -> str:
    records = facts.get("window", {}).get("records")
    parts = [f"{records} new records, read by {facts.get('trigger')}"]
    parts += [
        f"{key} {first_of(facts[key])}" for key in ("cited", "retired", "unknown") if facts.get(key)
    ]
    return "; ".join(parts)


def _outcome(facts: Any) -> str:
    parts = [f"you corrected {facts.get('corrections')} of {facts.get('turns')} turns"]
    parts += [f"{key}: {facts[key]}" for key in ("tests", "build") if facts.get(key)]
    return "; ".join(parts)


def _trial_line(facts: Any) -> str:
    withheld = first_of(facts.get("bullets") or ["the playbook"])
    return f"without {withheld} until {facts.get('until')}"


def reason(facts: Any) -> str:
    """Return the reason in an event's data."""
    return str(facts.get("reason") or "")


def said_wrong(recorded: Any, name: Any) -> str | None:
    """Return the agent's reason why a bullet is wrong, from the data of a window; None if the agent
    did not call the bullet wrong.
    """
    for remark in recorded.get("said", ()):
        if remark.get("name") == name:
            return str(remark.get("why", ""))
    return None


def unknown_speakers(recorded: Any) -> dict[str, int]:
    """Return the number of messages with an unknown speaker in a window, from its data, by the tag
    around them.
    """
    unread = recorded.get("unread")
    tags = unread.get("unknown_tags") if isinstance(unread, dict) else None
    if not isinstance(tags, dict):
        return {}
    counts = {tag: count for tag, count in tags.items() if type(count) is int}
    return {tag if tag == QUEUED else f"<{tag}>": count for tag, count in counts.items()}


def rationale_of(completed: Any, tag: Any) -> str | None:
    """Return the reason for a tag, from its data and the data of its reflection's completion; None
    if the judge gave none.
    """
    rationale: str | None = _entry_of(completed, tag).get("rationale")
    return rationale


def quoted_in(completed: Any, tag: Any) -> dict[str, Any]:
    """Return the evidence of a tag, from the same data. It has the speaker (`words`), the `quote`,
    its `turn`, and how `sure` the judge is.
    """
    entry = _entry_of(completed, tag)
    keys = ("words", "quote", "sure")
    evidence = {key: entry[key] for key in keys if isinstance(entry.get(key), str)}
    if type(entry.get("turn")) is int:
        evidence["turn"] = entry["turn"]
    return evidence


def _entry_of(completed: Any, tag: Any) -> Any:
    """Return the part of an answer that gave a tag, by the tag's index; empty if there is none."""
    for entry in completed.get("rationales", ()):
        if "index" in entry and entry["index"] == tag.get("index"):
            return entry
    return {}


TYPES = (
    EventType(
        name=SESSION_RECORDED,
        meaning="A new part of a transcript was recorded, with the rules that this part cites.",
        fields={
            "agent_id": needed(TEXT_OR_NULL),
            "trigger": needed(TEXT),
            "reason": WORD_OR_PROSE,
            "transcript": needed(within({"path": needed(PROSE), "bytes": needed(NUMBER)})),
            "window": needed(
                within(
                    {
                        "keys": needed(RECORD_KEYS),
                        "twins": RECORD_KEYS,
                        "after": TEXT_OR_NULL,
                    }
                )
            ),
            "cited": needed(NAMES),
            "carried": needed(NAMES),
            "retired": NAMES,
            "unknown": NAMES,
            "said": within({"name": NAME, "why": PROSE}, several=True),
        },
        effect=RecordsWindow(),
        summary=_window,
        no_retraction="",
    ),
    EventType(
        name=REFLECTION_SKIPPED,
        meaning="A part of a session was not judged. `reason` shows why.",
        fields={"reason": needed(PROSE)},
        effect=MovesWindow("skipped"),
        summary=reason,
        no_retraction="a skipped part of a session does not count",
        target=_WINDOW,
        all_prose=True,
    ),
    EventType(
        name=REFLECTION_ANSWERED,
        meaning="A judge answered. reflector has not read this answer yet.",
        fields={
            "answer": needed(PROSE),
            "iteration": NUMBER,
            "part": NUMBER,
            "parts": NUMBER,
            "plan": OBJECT,
            # If the judge was asked for evidence: the names that it was asked about. `again` has
            # those of earlier windows.
            "asked": NAMES,
            "again": NAMES,
            "beside": FLAG,  # of a check, which does not change its window's state
            "unquoted": FLAG,  # by your own template, which does not ask for quotes
            "unasked": NAMES,  # the names for which a check had no room
        },
        effect=GivesAnswer("answered"),
        summary=as_line("{backend} ({model}), {mode}"),
        no_retraction=_NAME_IT,
        target=_WINDOW,
        all_prose=True,
    ),
    EventType(
        name=REFLECTION_COMPLETED,
        meaning=(
            "reflector read a judge's answer. The event contains the judge's analysis. Each "
            "verdict follows as a `bullet.tagged`."
        ),
        fields={
            "analysis": needed(PROSE),
            "rationales": within({"rationale": PROSE, "quote": PROSE}, several=True),
            "problems": PROSES,
            "proposals": within(
                {"name": NAME_OR_NULL, "text": PROSE, "why": PROSE, "quote": PROSE},
                several=True,
            ),
        },
        effect=CompletesReflection("completed"),
        summary=lambda facts: str(facts.get("analysis") or ""),
        no_retraction="",
        target=Target("the recorded part of the session, or the task", required=True),
        all_prose=True,
    ),
    EventType(
        name=REFLECTION_FAILED,
        meaning="A part of a session could not be judged. `attempts` is the number of attempts.",
        fields={"stage": needed(TEXT), "message": needed(PROSE), "attempts": NUMBER},
        effect=MovesWindow("failed", final="given_up", attempts=1),
        summary=as_line("{stage}: {message}"),
        no_retraction=_NAME_IT,
        target=_WINDOW,
    ),
    EventType(
        name=EVIDENCE_RETRACTED,
        meaning=(
            "A part of a session, a reflection or a verdict no longer counts. If that event is "
            "itself a retraction, the event that it retracted counts again."
        ),
        fields={"reason": needed(PROSE)},
        effect=Retracts(),
        summary=reason,
        no_retraction="",
        target=Target("the evidence, a retraction or a proposal", required=True, once=True),
        all_prose=True,
    ),
    EventType(
        name=SESSION_COPIED,
        meaning=(
            "A session began with a copy of an earlier session. The copied part counts only in "
            "the earlier session."
        ),
        since=9,
        fields={"of": needed(TEXT), "records": needed(NUMBER)},
        effect=ChangesNothing("`stats --doubles` lists the sessions that begin with copies"),
        summary=as_line("{records} records are copies of session {of}"),
        no_retraction="copies of sessions do not count",
        target=Target("the first recorded part of the earlier session", required=True),
        checked=True,
    ),
    _trial(
        name=SESSION_OUTCOME,
        meaning=(
            "The outcome of a part of a session: corrections, results of tests and builds, and "
            "numbers of turns, files, tokens and seconds."
        ),
        fields={
            # The session in which the conversation began; null if a fork's original is not known.
            "root": needed(TEXT_OR_NULL),
            "began": WORD,
            "ended": WORD,
            **dict.fromkeys(_COUNTS.split(), needed(NUMBER)),
            "tests": _ENDING,
            "build": _ENDING,
            "last": WORD,
            "rules": needed(WORD),
        },
        effect=ChangesNothing("`trial status` compares sessions by their outcomes"),
        summary=_outcome,
        no_retraction="an outcome cannot be removed; undo the verdicts of the session",
        target=Target("the recorded part of the session", required=True),
    ),
    _trial(
        name=TRIAL_OPENED,
        meaning=(
            "A trial started. Some sessions do not get the playbook, or do not get some rules of "
            "the playbook."
        ),
        fields={
            # The withheld bullets; none if the whole playbook is withheld.
            "bullets": needed(NAMES),
            "exempt": needed(NAMES),
            # The number of sessions without them, of a million.
            "share": needed(NUMBER),
            # The number of sessions that are shown a placebo, of a million, and the SHA-256 of its
            # whole text; the share above is of the other sessions.
            "placebo": within({"share": NUMBER, "digest": WORD}),
            "outcome": needed(WORD),
            "stop": needed(OBJECT),
            "until": needed(WORD),
            "key": needed(WORD),
        },
        effect=ChangesNothing("the hook withholds rules during the trial, but no count changes"),
        summary=_trial_line,
        no_retraction="end the trial with `reflector trial stop`",
    ),
    _trial(
        name=TRIAL_CLOSED,
        meaning="A trial ended. The event contains the result.",
        fields={
            "verdict": needed(WORD),
            "told": needed(_ARM),
            "without": needed(_ARM),
            "difference": WORD,
            "interval": within({"low": WORD, "high": WORD}),
            # The placebo arm and the comparison with it.
            "placebo": OBJECT,
            # The time of the result: a session is settled a day after its first window.
            "at": WORD,
            # SHA-256 over the compared sessions, their arms and their outcomes.
            "sessions": needed(WORD),
        },
        effect=ChangesNothing("every session is shown the playbook again"),
        summary=as_line("{verdict}"),
        no_retraction="start another trial with `reflector trial start`",
        target=Target("the trial", required=True),
    ),
)
