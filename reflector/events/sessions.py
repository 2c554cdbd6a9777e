"""Events about sessions and their reflections: windows, what became of them, evidence that was
taken back, and trials.

Invariant: an outcome knows no arm, and a trial's opening says everything that decides one, before
the first session.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from reflector.events import event as ev
from reflector.events import fields as f
from reflector.events.effects import (
    ChangesNothing,
    CompletesReflection,
    GivesAnswer,
    MovesWindow,
    RecordsWindow,
    Retracts,
)
from reflector.events.kinds import EventType, Target, said

_WINDOW: Final = Target("the window")
_NAME_IT: Final = "name its reflection, or the session"
#: What a message is counted under that was queued, and that nothing delivered: its speaker is
#: unknown without a tag.
QUEUED: Final = "(queued)"
_trial: Final = partial(EventType, since=9, checked=True)
_COUNTS: Final = (
    "turns words unread corrections refusals interruptions approvals reverts files tokens seconds"
)
_ENDING: Final = f.one_of("passes", "fails", None)
_ARM: Final = f.within({"sessions": f.needed(f.NUMBER), "good": f.needed(f.NUMBER)})


def _window(data: Any) -> str:
    parts = [f"{data.get('window', {}).get('records')} records by {data.get('trigger')}"]
    parts += [
        f"{key} {f.first_of(data[key])}" for key in ("cited", "retired", "unknown") if data.get(key)
    ]
    return "; ".join(parts)


def _came(data: Any) -> str:
    ran = [f"{what} {data[what]}" for what in ("tests", "build") if data.get(what)]
    return "; ".join([f"{data.get('corrections')} of {data.get('turns')} turns corrected", *ran])


def reason(data: Any) -> str:
    """Return the reason that an event states."""
    return str(data.get("reason") or "")


def said_wrong(recorded: Any, name: Any) -> str | None:
    """Return why the agent called a bullet wrong in a window, from the window's data; None where
    it did not.
    """
    return next(
        (str(one.get("why", "")) for one in recorded.get("said", ()) if one.get("name") == name),
        None,
    )


def unknown_speakers(recorded: Any) -> dict[str, int]:
    """Return how many messages of a window have an unknown speaker, from its data: by the tag
    that they stand in.
    """
    unread = recorded.get("unread")
    tags = unread.get("unknown_tags") if isinstance(unread, dict) else None
    found = tags.items() if isinstance(tags, dict) else ()
    return {
        tag if tag == QUEUED else f"<{tag}>": count for tag, count in found if type(count) is int
    }


def rationale_of(completed: Any, tag: Any) -> str | None:
    """Return why a tag was given, from its data and that of its reflection's completion; None where
    nobody says it.

    An entry may lack its parts, and an index be of any type.
    """
    rationale: str | None = _said_of(completed, tag).get("rationale")
    return rationale


def quoted_in(completed: Any, tag: Any) -> dict[str, Any]:
    """Return what a tag rests on, from the same data: whose `words`, the `quote`, its `turn`,
    how `sure` it is.
    """
    said = _said_of(completed, tag)
    texts = {key: said[key] for key in ("words", "quote", "sure") if isinstance(said.get(key), str)}
    return texts | ({"turn": said["turn"]} if type(said.get("turn")) is int else {})


def _said_of(completed: Any, tag: Any) -> Any:
    said = completed.get("rationales", ())
    return next((one for one in said if "index" in one and one["index"] == tag.get("index")), {})


TYPES: Final = (
    EventType(
        name=ev.SESSION_RECORDED,
        meaning="A window of new records of a transcript, with the bullets that it cites.",
        fields={
            "agent_id": f.needed(f.TEXT_OR_NULL),
            "trigger": f.needed(f.TEXT),
            "reason": f.WORD_OR_PROSE,
            "transcript": f.needed(
                f.within({"path": f.needed(f.PROSE), "bytes": f.needed(f.NUMBER)})
            ),
            "window": f.needed(
                f.within(
                    {
                        "keys": f.needed(f.RECORD_KEYS),
                        "twins": f.RECORD_KEYS,
                        "after": f.TEXT_OR_NULL,
                    }
                )
            ),
            "cited": f.needed(f.NAMES),
            "carried": f.needed(f.NAMES),
            "retired": f.NAMES,
            "unknown": f.NAMES,
            "said": f.within({"name": f.NAME, "why": f.PROSE}, several=True),
        },
        effect=RecordsWindow(),
        summary=_window,
        no_retraction="",
    ),
    EventType(
        name=ev.REFLECTION_SKIPPED,
        meaning="The gate let a window pass without a reflection.",
        fields={"reason": f.needed(f.PROSE)},
        effect=MovesWindow("skipped"),
        summary=reason,
        no_retraction="it gave nothing a count",
        target=_WINDOW,
        all_prose=True,
    ),
    EventType(
        name=ev.REFLECTION_ANSWERED,
        meaning="A backend answered: the raw answer, before it is read.",
        fields={
            "answer": f.needed(f.PROSE),
            "iteration": f.NUMBER,
            "part": f.NUMBER,
            "parts": f.NUMBER,
            "plan": f.OBJECT,
            # Of one that was asked for evidence: the names that it was asked about, `again` those
            # of earlier windows.
            "asked": f.NAMES,
            "again": f.NAMES,
            "beside": f.FLAG,  # of a check, which leaves its window's state alone
            "unquoted": f.FLAG,  # by a template of the person's that asks for no quotes
            "unasked": f.NAMES,  # those for which a check had no room
        },
        effect=GivesAnswer("answered"),
        summary=said("{backend} ({model}), {mode}"),
        no_retraction=_NAME_IT,
        target=_WINDOW,
        all_prose=True,
    ),
    EventType(
        name=ev.REFLECTION_COMPLETED,
        meaning="The answer was read: its analysis; the tags follow as `bullet.tagged`.",
        fields={
            "analysis": f.needed(f.PROSE),
            "rationales": f.within({"rationale": f.PROSE, "quote": f.PROSE}, several=True),
            "problems": f.PROSES,
            "proposals": f.within(
                {"name": f.NAME_OR_NULL, "text": f.PROSE, "why": f.PROSE, "quote": f.PROSE},
                several=True,
            ),
        },
        effect=CompletesReflection("completed"),
        summary=lambda data: str(data.get("analysis") or ""),
        no_retraction="",
        target=Target("the window", required=True),
        all_prose=True,
    ),
    EventType(
        name=ev.REFLECTION_FAILED,
        meaning="A reflection failed, for now or finally.",
        fields={"stage": f.needed(f.TEXT), "message": f.needed(f.PROSE), "attempts": f.NUMBER},
        effect=MovesWindow("failed", final="given_up", attempts=1),
        summary=said("{stage}: {message}"),
        no_retraction=_NAME_IT,
        target=_WINDOW,
    ),
    EventType(
        name=ev.EVIDENCE_RETRACTED,
        meaning=(
            "The target no longer counts: a window, a reflection, a tag; a retraction's "
            "target counts again."
        ),
        fields={"reason": f.needed(f.PROSE)},
        effect=Retracts(),
        summary=reason,
        no_retraction="",
        target=Target("the evidence, a retraction or a proposal", required=True, once=True),
        all_prose=True,
    ),
    EventType(
        name=ev.SESSION_COPIED,
        meaning=(
            "A session began with records of another one under new ids. They count once, in "
            "the other one."
        ),
        since=9,
        fields={"of": f.needed(f.TEXT), "records": f.needed(f.NUMBER)},
        effect=ChangesNothing("`double-counts` lists which sessions begin with copies"),
        summary=said("{records} records are copies of session {of}"),
        no_retraction="it counts nothing",
        target=Target("the first window of the other session", required=True),
        checked=True,
    ),
    _trial(
        name=ev.SESSION_OUTCOME,
        meaning=(
            "What came of a window of a session: what people said, how tests and the build "
            "ended, what it took."
        ),
        fields={
            # The session in which the conversation began; null where a fork's original is not
            # known.
            "root": f.needed(f.TEXT_OR_NULL),
            "began": f.WORD,
            "ended": f.WORD,
            **dict.fromkeys(_COUNTS.split(), f.needed(f.NUMBER)),
            "tests": _ENDING,
            "build": _ENDING,
            "last": f.WORD,
            "rules": f.needed(f.WORD),
        },
        effect=ChangesNothing("`trial status` compares sessions by it"),
        summary=_came,
        no_retraction="an outcome is a fact; retract the session's verdicts",
        target=Target("the window", required=True),
    ),
    _trial(
        name=ev.TRIAL_OPENED,
        meaning="From here on some sessions go without the playbook, or without one bullet.",
        fields={
            # The bullets that are withheld; none of them for the whole playbook.
            "bullets": f.needed(f.NAMES),
            "exempt": f.needed(f.NAMES),
            # Of a million sessions, how many go without.
            "share": f.needed(f.NUMBER),
            "outcome": f.needed(f.WORD),
            "stop": f.needed(f.OBJECT),
            "until": f.needed(f.WORD),
            "key": f.needed(f.WORD),
        },
        effect=ChangesNothing("the hook withholds by it, and no count changes"),
        summary=lambda data: (
            f"without {f.first_of(data.get('bullets') or ['the playbook'])} "
            f"until {data.get('until')}"
        ),
        no_retraction="end it with `reflector trial stop`",
    ),
    _trial(
        name=ev.TRIAL_CLOSED,
        meaning="A trial ended, with what it showed.",
        fields={
            "verdict": f.needed(f.WORD),
            "told": f.needed(_ARM),
            "without": f.needed(_ARM),
            "difference": f.WORD,
            "interval": f.within({"low": f.WORD, "high": f.WORD}),
            # SHA-256 over the sessions that were compared, their arms and their outcomes.
            "sessions": f.needed(f.WORD),
        },
        effect=ChangesNothing("every session is told the playbook again"),
        summary=said("{verdict}"),
        no_retraction="open another trial with `reflector trial start`",
        target=Target("the trial", required=True),
    ),
)
