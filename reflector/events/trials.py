"""Events about whether a playbook helps: what came of sessions, and trials in which some go without it.

Invariant: an outcome knows no arm, and a trial's opening says everything that decides one, before the first session.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from reflector.events import event as ev
from reflector.events import fields as f
from reflector.events.effects import ChangesNothing
from reflector.events.kinds import EventType, Target, said

_type: Final = partial(EventType, since=9, checked=True)
_COUNTS: Final = "turns words unread corrections refusals interruptions approvals reverts files tokens seconds"
_ENDING: Final = f.one_of("passes", "fails", None)
_ARM: Final = f.within({"sessions": f.needed(f.NUMBER), "good": f.needed(f.NUMBER)})
_POINTS: Final = f.within({"low": f.WORD, "high": f.WORD})


def _came(data: Any) -> str:
    ran = [f"{what} {data[what]}" for what in ("tests", "build") if data.get(what)]
    return "; ".join([f"{data.get('corrections')} corrections in {data.get('turns')} turns", *ran])


TYPES: Final = (
    _type(
        name=ev.SESSION_OUTCOME,
        meaning="What came of a window of a session: what people said, how tests and the build ended, what it took.",
        fields={
            # The session in which the conversation began; null where a fork's original is not known.
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
    _type(
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
        summary=lambda data: f"without {f.first_of(data.get('bullets') or ['the playbook'])} until {data.get('until')}",
        no_retraction="end it with `reflector trial stop`",
    ),
    _type(
        name=ev.TRIAL_CLOSED,
        meaning="A trial ended, with what it showed.",
        fields={
            "verdict": f.needed(f.WORD),
            "told": f.needed(_ARM),
            "without": f.needed(_ARM),
            "difference": f.WORD,
            "interval": _POINTS,
            # SHA-256 over the sessions that were compared, their arms and their outcomes.
            "sessions": f.needed(f.WORD),
        },
        effect=ChangesNothing("every session is told the playbook again"),
        summary=said("{verdict}"),
        no_retraction="open another trial with `reflector trial start`",
        target=Target("the trial", required=True),
    ),
)
