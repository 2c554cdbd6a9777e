"""Events about the ledger itself: its counting policy, its redactions, its merges and its moves."""

from __future__ import annotations

from reflector.events.effects import AdoptsPolicy, ChangesNothing
from reflector.events.event import (
    EVENT_REDACTED,
    LEDGER_ARRIVED,
    LEDGER_MERGED,
    LEDGER_MOVED,
    POLICY_ADOPTED,
)
from reflector.events.fields import (
    COUNTING,
    MERGED_EVENTS,
    NUMBER,
    OBJECT,
    PROSE,
    PROSE_OR_NULL,
    PROSES,
    RENAMED,
    TEXT,
    needed,
)
from reflector.events.kinds import EventType, Merge, Target, as_line
from reflector.events.sessions import reason

TYPES = (
    EventType(
        name=EVENT_REDACTED,
        meaning=(
            "The text of another event, the target, was erased. `kept` is the part of the "
            "target's data that was not erased."
        ),
        # `kept` contains prose of the redacted event, whose type shows which fields are prose.
        fields={"reason": needed(PROSE), "earlier": PROSES, "kept": OBJECT},
        effect=ChangesNothing("from this event on, `kept` replaces the data of the target"),
        summary=reason,
        no_retraction="erased text cannot be restored",
        target=Target("the event, or its last redaction", required=True, once=True),
    ),
    EventType(
        name=POLICY_ADOPTED,
        meaning="You chose a counting policy. The policy applies from this event on.",
        fields={
            "policy": needed(TEXT),
            "counting": needed(COUNTING),
            "reason": PROSE_OR_NULL,
        },
        effect=AdoptsPolicy(),
        summary=as_line("counting {counting}"),
        no_retraction="choose another policy with `reflector ledger policy`",
        target=Target("the earlier `policy.adopted` that this event undoes"),
    ),
    EventType(
        name=LEDGER_MERGED,
        meaning="Events of another ledger were merged into this ledger.",
        since=2,
        fields={
            "playbook": needed(TEXT),
            "origin": needed(TEXT),
            "position": needed(NUMBER),
            "chain": needed(TEXT),
            # For each event of the stretch that was already here: its position there, its id here,
            # its first moment.
            "here": needed(MERGED_EVENTS),
            # The models that worked in windows that were already here, by the windows' ids here.
            "models": OBJECT,
            "renamed": needed(RENAMED),
        },
        effect=ChangesNothing("this event only records the origin of the merged events"),
        summary=lambda facts: (
            f"playbook {facts.get('playbook')} of ledger {str(facts.get('origin'))[:8]}, up to "
            f"position {facts.get('position')}"
        ),
        no_retraction="name a session, a reflection, a verdict or a retraction",
        checked=True,
    ),
    EventType(
        name=LEDGER_MOVED,
        meaning=(
            "The playbook moved to another ledger, which continues the history with a "
            "`ledger.arrived`."
        ),
        since=7,
        fields={"to": needed(TEXT)},
        effect=ChangesNothing("after this event, the database accepts only `ledger.arrived`"),
        summary=as_line("to {to}"),
        merge=Merge.LOCAL,
        no_retraction="the playbook continued in another ledger",
        checked=True,
    ),
    EventType(
        name=LEDGER_ARRIVED,
        meaning="The history of a moved playbook continues in this ledger.",
        since=7,
        fields={"at": needed(TEXT)},
        effect=ChangesNothing("the event only shows that the history continues in this ledger"),
        summary=as_line("at {at}"),
        merge=Merge.LOCAL,
        no_retraction="the playbook continued in this ledger",
        target=Target("the `ledger.moved` before this event", required=True),
    ),
)
