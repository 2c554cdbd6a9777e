"""Events about the ledger itself: its counting policy, its redactions, its merges and its moves."""

from __future__ import annotations

from reflector.events import event as ev, fields as f
from reflector.events.effects import AdoptsPolicy, ChangesNothing
from reflector.events.kinds import EventType, Merge, Target, as_line
from reflector.events.sessions import reason

TYPES = (
    EventType(
        name=ev.EVENT_REDACTED,
        meaning=(
            "The text of another event, the target, was erased. `kept` is the rest of the target's "
            "data."
        ),
        # `kept` contains prose of the redacted event, whose type shows which fields are prose.
        fields={"reason": f.needed(f.PROSE), "earlier": f.PROSES, "kept": f.OBJECT},
        effect=ChangesNothing("from then on, `kept` replaces the data of the target"),
        summary=reason,
        no_retraction="erased text cannot be restored",
        target=Target("the event, or its last redaction", required=True, once=True),
    ),
    EventType(
        name=ev.POLICY_ADOPTED,
        meaning="You chose a counting policy. The policy applies from this event on.",
        fields={
            "policy": f.needed(f.TEXT),
            "counting": f.needed(f.COUNTING),
            "reason": f.PROSE_OR_NULL,
        },
        effect=AdoptsPolicy(),
        summary=as_line("counting {counting}"),
        no_retraction="choose another policy with `reflector ledger policy`",
        target=Target("the earlier `policy.adopted` that this event takes back"),
    ),
    EventType(
        name=ev.LEDGER_MERGED,
        meaning="Events of another ledger were merged into this ledger.",
        since=2,
        fields={
            "playbook": f.needed(f.TEXT),
            "origin": f.needed(f.TEXT),
            "position": f.needed(f.NUMBER),
            "chain": f.needed(f.TEXT),
            # For each event of the stretch that was already here: its position there, its id here,
            # its first moment.
            "here": f.needed(f.MERGED_EVENTS),
            # The models that worked in windows that were already here, by the windows' ids here.
            "models": f.OBJECT,
            "renamed": f.needed(f.RENAMED),
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
        name=ev.LEDGER_MOVED,
        meaning=(
            "The playbook moved to another ledger, which continues the history with a "
            "`ledger.arrived`."
        ),
        since=7,
        fields={"to": f.needed(f.TEXT)},
        effect=ChangesNothing("after this event, the database accepts only `ledger.arrived`"),
        summary=as_line("to {to}"),
        merge=Merge.LOCAL,
        no_retraction="the playbook continued in another ledger",
        checked=True,
    ),
    EventType(
        name=ev.LEDGER_ARRIVED,
        meaning="The history of a moved playbook continues in this ledger.",
        since=7,
        fields={"at": f.needed(f.TEXT)},
        effect=ChangesNothing("this event continues the history of its target"),
        summary=as_line("at {at}"),
        merge=Merge.LOCAL,
        no_retraction="the playbook continued in this ledger",
        target=Target("the `ledger.moved` before this event", required=True),
    ),
)
