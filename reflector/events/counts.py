"""Events about the counts of rules in recorded sessions.

Invariant: an event contains keys of rules and numbers, but no words. So it outlives the transcript,
and nothing in it has to be erased. `reflector.sessions.counted` makes these events and folds them.
"""

from __future__ import annotations

from typing import Any

from reflector.events import event as ev, fields as f
from reflector.events.effects import ChangesNothing
from reflector.events.kinds import EventType, Target

_WORDS_OF_COUNTS = {
    "run": "run",
    "written": "written",
    "said": "repeated by you",
    "came_up": "came up",
}


def _summary(facts: Any) -> str:
    rules = facts.get("counted") or []
    numbers = [
        f"{sum(bool(rule.get(name)) for rule in rules)} {words}"
        for name, words in _WORDS_OF_COUNTS.items()
    ]
    return f"{len(f.unpack_keys(facts.get('rules') or ''))} rules: {', '.join(numbers)}"


TYPES = (
    EventType(
        name=ev.RULE_COUNTED,
        meaning=(
            "Rules were counted in a part of a session: the agent ran or wrote a rule's words, "
            "you repeated a rule, or it came up."
        ),
        since=10,
        fields={
            # The keys of all rules that were counted; `rule` is a place in them.
            "rules": f.needed(f.RECORD_KEYS),
            # `run` and `written` have a bit for each token of the rule, `said` one more first.
            "counted": f.needed(
                f.within(
                    {
                        "rule": f.needed(f.NUMBER),
                        "run": f.NUMBER,
                        "written": f.NUMBER,
                        "said": f.NUMBER,
                        "came_up": f.NUMBER,
                    },
                    several=True,
                )
            ),
            # Messages of the agent.
            "steps": f.needed(f.NUMBER),
            "began": f.WORD,
            "version": f.needed(f.WORD),
        },
        effect=ChangesNothing("`check` computes its numbers from these events"),
        summary=_summary,
        no_retraction="to remove this count, undo the session instead",
        target=Target("the recorded part of the session", required=True),
        checked=True,
    ),
)
