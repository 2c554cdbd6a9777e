"""Events about proposed changes of the playbook: the proposal, the decision and its result.

Invariant: none of these events changes the playbook. An approved change becomes events about
bullets in the same append, and each of them points to its proposal. So the counters follow from
those events alone.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from reflector.events.effects import ChangesNothing
from reflector.events.event import (
    CHANGE_APPROVED,
    CHANGE_MEASURED,
    CHANGE_PROPOSED,
    CHANGE_REJECTED,
    WISH_HEARD,
)
from reflector.events.fields import (
    COUNT,
    EVENT_ID,
    FLAG,
    NAME,
    NAME_OR_NULL,
    NAMES,
    NUMBER,
    OBJECT,
    PROSE,
    SECTION,
    TEXT,
    TEXT_OR_NULL,
    WORD,
    bounded,
    needed,
    one_of,
    within,
)
from reflector.events.kinds import EventType, Target, as_line
from reflector.playbook.change import KINDS, Change
from reflector.playbook.names import SECTIONS

#: The origins of proposals.
ORIGINS = ("human", "agent", "rules", "model", "import", "follow-up", "machine")
#: The authors of a proposal's words, the most trusted first. A text of several sources has the
#: least of their trusts.
TRUSTS = ("person", "agent", "tool")

MAX_QUOTE = 1_000
MOST_QUOTES = 20

_QUOTE = {
    "text": needed(bounded(MAX_QUOTE)),
    "by": needed(one_of(*TRUSTS)),
    "session": TEXT_OR_NULL,
    "window": EVENT_ID,
}
#: A change: `name` is the bullet that it is about, `names` the sources of a merge; a recount has
#: the counters.
CHANGE = {
    "kind": needed(one_of(*KINDS)),
    "name": NAME_OR_NULL,
    "names": NAMES,
    "section": one_of(*SECTIONS, None),
    "text": bounded(10_000, null=True),
    "helpful": COUNT,
    "harmful": COUNT,
}


def _change(data: Any) -> str:
    return Change.from_data(data["change"]).line


def _rejection(data: Any) -> str:
    verb = str(data.get("how"))
    reason = data.get("reason")
    return f"{verb}: {reason}" if reason else verb


_type = partial(EventType, since=6, checked=True)

TYPES = (
    _type(
        name=CHANGE_PROPOSED,
        meaning="A change of the playbook was proposed. The proposal waits for your decision.",
        fields={
            "change": needed(within(CHANGE)),
            "origin": needed(one_of(*ORIGINS)),
            "trust": needed(one_of(*TRUSTS)),
            "reason": needed(PROSE),
            "evidence": within(_QUOTE, several=True),
            # The digests of the texts that the change was made for. If one of these texts has
            # changed since, the proposal is stale.
            "basis": within({"name": needed(NAME), "digest": needed(TEXT)}, several=True),
        },
        effect=ChangesNothing("the events of an approval change the playbook"),
        summary=_change,
        no_retraction="decide on the proposal with `reflector review`",
        target=Target(
            "the lesson that the proposal comes from, or the approval that the proposal would undo"
        ),
    ),
    _type(
        name=CHANGE_APPROVED,
        meaning="A proposed change was approved and applied.",
        fields={
            "change": needed(within(CHANGE)),
            # Only in events of earlier versions: the changes that take this one back.
            "inverse": within(CHANGE, several=True),
            "edited": needed(FLAG),
        },
        effect=ChangesNothing("the events after this event change the playbook"),
        summary=_change,
        no_retraction="undo the change with `reflector undo`",
        target=Target("the proposal", required=True, once=True),
    ),
    _type(
        name=CHANGE_REJECTED,
        meaning="A proposed change was rejected, or no longer applies.",
        fields={
            "how": needed(one_of("rejected", "kept", "stale", "expired")),
            "reason": needed(PROSE),
            # Bullets that you want to keep apart: no pair of them is proposed for a merge again.
            "keep": NAMES,
        },
        effect=ChangesNothing("a rejected change is not applied"),
        summary=_rejection,
        no_retraction=(
            "to make the proposed change anyway, run `reflector review approve {target}`"
        ),
        target=Target("the proposal", required=True, once=True),
    ),
    _type(
        name=CHANGE_MEASURED,
        meaning=(
            "The effect of an approved change was measured, after enough sessions with this change."
        ),
        fields={
            "verdict": needed(one_of("kept", "revert")),
            "told": needed(NUMBER),
            "figures": OBJECT,
            "reason": PROSE,
        },
        effect=ChangesNothing("if a change did harm, reflector proposes to revert the change"),
        summary=as_line("{verdict} after {told} sessions that got the change"),
        no_retraction="a measurement is not evidence, so it does not count",
        target=Target(
            "the approval, or the change that you made by hand", required=True, once=True
        ),
    ),
    _type(
        name=WISH_HEARD,
        meaning="In a session, you asked for something that may become a rule.",
        fields={
            # A correction is proposed when it occurs in a second session.
            "kind": needed(one_of("standing", "correction")),
            "form": needed(WORD),
            "section": needed(SECTION),
            "text": needed(bounded(MAX_QUOTE)),
            "quote": needed(bounded(MAX_QUOTE)),
        },
        effect=ChangesNothing(
            "reflector can propose a rule for this request, and you decide on the proposal"
        ),
        summary=as_line("{kind}: {text}"),
        no_retraction=(
            "a request is not evidence; decide on the proposal for this request with "
            "`reflector review`"
        ),
        target=Target("the recorded part of the session", required=True),
    ),
)
