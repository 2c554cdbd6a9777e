"""Events about the counts of rules in recorded sessions.

Invariant: an event contains keys of rules and numbers, but no words. So it outlives the transcript,
and nothing in it has to be erased. `reflector.sessions.counted` makes these events and folds them.
"""

from __future__ import annotations

from typing import Any

from reflector.events.effects import ChangesNothing
from reflector.events.event import RULE_COUNTED
from reflector.events.fields import NUMBER, RECORD_KEYS, WORD, needed, unpack_keys, within
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
    return f"{len(unpack_keys(facts.get('rules') or ''))} rules: {', '.join(numbers)}"


TYPES = (
    EventType(
        name=RULE_COUNTED,
        meaning=(
            "reflector counted the use of rules in a part of a session. For example, the agent "
            "ran a rule's command, or you repeated a rule."
        ),
        since=10,
        fields={
            # The keys of all rules that were counted; `rule` is a place in them.
            "rules": needed(RECORD_KEYS),
            # `run` and `written` have a bit for each token of the rule, `said` one more first.
            "counted": needed(
                within(
                    {
                        "rule": needed(NUMBER),
                        "run": NUMBER,
                        "written": NUMBER,
                        "said": NUMBER,
                        "came_up": NUMBER,
                    },
                    several=True,
                )
            ),
            # Messages of the agent.
            "steps": needed(NUMBER),
            "began": WORD,
            "version": needed(WORD),
        },
        effect=ChangesNothing("`check` computes the numbers of rules from these events"),
        summary=_summary,
        no_retraction="to remove this count, undo the session instead",
        target=Target("the recorded part of the session", required=True),
        checked=True,
    ),
)
