"""Events about the counts of rules in recorded sessions.

Invariant: an event contains keys of rules and numbers, but no words. So it outlives the transcript,
and nothing in it has to be erased. `reflector.sessions.counted` makes these events and folds them.
"""

from __future__ import annotations

from typing import Any

from reflector.events import event as ev, fields as f
from reflector.events.effects import ChangesNothing
from reflector.events.kinds import EventType, Target


def _summary(facts: Any) -> str:
    rules = facts.get("counted") or []
    numbers = [
        f"{name.replace('_', ' ')} {sum(bool(rule.get(name)) for rule in rules)}"
        for name in ("run", "written", "said", "came_up")
    ]
    return f"{', '.join(numbers)} of {len(f.unpack_keys(facts.get('rules') or ''))} rules"


TYPES = (
    EventType(
        name=ev.RULE_COUNTED,
        meaning=(
            "The rules whose words the agent ran or wrote in a window, that you repeated, or that "
            "came up."
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
        no_retraction="to remove this count, retract the session's window instead",
        target=Target("the window", required=True),
        checked=True,
    ),
)
