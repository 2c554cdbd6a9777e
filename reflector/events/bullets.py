"""Events about bullets: their creation, changes and removal, and the tags that they get."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from reflector.events.effects import (
    AddsBullets,
    ChangesBullet,
    ChangesNothing,
    MergesBullets,
    Recounts,
    TagsBullet,
    UndoesMerge,
)
from reflector.events.event import (
    BULLET_ADDED,
    BULLET_ASSERTED,
    BULLET_CHECKED,
    BULLET_MERGED,
    BULLET_PROPOSED,
    BULLET_RECOUNTED,
    BULLET_REMOVED,
    BULLET_RESTORED,
    BULLET_TAGGED,
    BULLET_UNMERGED,
    PLAYBOOK_IMPORTED,
    RULES_MOVED,
)
from reflector.events.fields import (
    ADVICE,
    COUNT,
    EVENT_ID,
    FLAG,
    NAME,
    NAME_OR_NULL,
    NUMBER,
    PROSE,
    SECTION,
    TEXT,
    WORD,
    WORD_OR_PROSE,
    loose,
    needed,
    one_of,
    several,
    within,
)
from reflector.events.kinds import EventType, Merge, Target, as_line
from reflector.events.state import REDACTED, Data
from reflector.playbook.change import KINDS, MAX_SOURCES, ChangeKind
from reflector.playbook.entry import Entry
from reflector.playbook.names import section_slug

_NAMED = {"name": needed(NAME)}
_SECTION = {"section": needed(SECTION)}
_ADVICE = {"text": needed(ADVICE)}
_NUMBER = needed(NUMBER)
_BASELINE = {"helpful": COUNT, "harmful": COUNT}
_FORMER = {f"baseline_{key}": field for key, field in _BASELINE.items()}
_BULLET = {**_NAMED, **_SECTION, **_ADVICE, **_BASELINE}
#: Why a judge's verdict does not count, by the disposition of its tag.
DROPPED = {
    "not_asked": "the judge was not asked about this rule",
    "not_followed": "the agent did not follow the rule, or the rule is not about this session",
    "no_quote": "the verdict does not quote at least 12 characters of the session",
    "misquoted": "the quote is not at the place that the judge named",
    "too_early": "the quote does not come after the citation",
    "no_proof": (
        "the quote does not prove the verdict: a quote must be your words, or a command's output"
    ),
    "few_cases": "reflector has too few measured cases to trust this kind of evidence",
    "shared": "the judge quoted the same words for another rule",
    "unsure": "the judge was not sure enough of this verdict",
    "own_words": "the verdict quotes the rule itself",
}
#: Why a verdict of any judge does not count, by the disposition of its tag.
UNCOUNTED = {
    **DROPPED,
    "double": "an equal verdict already counts",
    "recounted": "the counters were set after this verdict",
    "retired_bullet": "the rule had already been removed",
    "unknown_bullet": "the playbook did not have this rule",
}
#: The words for a verdict without a quote, because your own template asked for none.
WITHOUT_A_QUOTE = "without a quote"
_DISPOSITIONS = (
    "counted",
    "neutral",
    "unknown_bullet",
    "retired_bullet",
    "unknown_tag",
    "malformed",
    *DROPPED,
)
_JUDGED = {
    "index": loose(NUMBER),
    "name": loose(needed(NAME_OR_NULL)),
    "tag": loose(needed(one_of("helpful", "harmful", "neutral", "unknown", None))),
    "followed": loose(one_of("yes", "no", "unclear")),
    # It counts without a quote, because your own template asked for none.
    "unquoted": loose(FLAG),
}
#: The reason with which earlier versions removed a bullet from its project.
PROMOTED = "promoted"
_SOURCES = several(NAME, MAX_SOURCES, "names of rules")
_UNDO = "undo this change with `reflector undo`, or change the rule with `reflector edit`"
_CAUSE = Target("the proposal that was approved, or the change that this event undoes")


def _is_promoted(data: Data) -> bool:
    """Return whether an earlier version moved the bullet to the user's own playbook. Then `into` is
    a name there.
    """
    return data.get("reason") == PROMOTED


def _without_baseline(data: Data) -> Sequence[Data]:
    return [{key: data[key] for key in ("name", "section", "text")}] if "name" in data else []


def _removed(entry: Entry, data: Data) -> dict[str, object]:
    """Return the new fields of a removed bullet. With `follows`, its evidence counts for another
    one.
    """
    follows = data.get("follows")
    if entry.status == "merged" and follows is None:
        # The bullet is gone already. Its evidence stays with the bullet that it was merged into. If
        # the merge is undone, it stays gone.
        return {"reason": data.get("reason") or "removed"}
    status = "merged" if follows else "removed"
    return {"status": status, "removed_into": data.get("into"), "reason": data.get("reason")}


def _restored(entry: Entry, data: Data) -> dict[str, object]:
    status = "watched" if data.get("watched") else "live"
    back = {"status": status, "removed_into": None} if entry.status != "merged" else {}
    return {**back, "reason": None}


def _count(data: Any) -> str:
    count = len(data.get("bullets", ()))
    return f"{count} rule{'' if count == 1 else 's'} from a file (format: {data.get('format')})"


def _removal(data: Any) -> str:
    into = f", into {data['into']}" if data.get("into") else ""
    return f"{data.get('name')} ({data.get('reason')}{into})"


def _merger(data: Any) -> str:
    sources = ", ".join(data.get("sources", ()))
    return f"{sources} into {data.get('name')} in {data.get('section')}: {data.get('text')}"


def _tag(data: Any) -> str:
    disposition = data.get("disposition")
    is_plain = disposition in ("counted", "neutral")
    reason = "" if is_plain else f" ({disposition})"
    return f"{data.get('name')} {data.get('tag')}{reason}{unquoted_words(data)}"


def unquoted_words(tag: Any) -> str:
    """Return the words that every screen adds to a verdict without a quote, from its data; "" for
    any other verdict.
    """
    return f" {WITHOUT_A_QUOTE}" if tag.get("unquoted") is True else ""


#: The type of an event that changes bullets.
_changed = partial(EventType, merge=Merge.BESIDE, no_retraction=_UNDO, target=_CAUSE, checked=True)


def _setting(kind: ChangeKind) -> EventType:
    """Return the event type of a kind that only sets fields of a bullet: a section, a text or
    numbers.
    """

    def values(_: Entry, data: Data) -> dict[str, object]:
        values = {name: data.get(name, REDACTED) for name in kind.set_fields}
        if "section" in values:
            values["section"] = section_slug(values["section"])
        return values

    fields = {name: {**_SECTION, **_ADVICE}.get(name, _NUMBER) for name in kind.set_fields}
    return _changed(
        name=kind.event,
        meaning=kind.meaning,
        since=kind.since,
        fields={**_NAMED, **fields},
        effect=ChangesBullet(values),
        summary=as_line(kind.log_line),
    )


TYPES = (
    EventType(
        name=PLAYBOOK_IMPORTED,
        meaning="Rules were imported from a file, with their counters.",
        fields={"bullets": needed(within(_BULLET, several=True))},
        effect=AddsBullets(lambda data: list(data.get("bullets", ()))),
        summary=_count,
        merge=Merge.BESIDE,
        no_retraction=_UNDO,
        checked=True,
    ),
    EventType(
        name=BULLET_PROPOSED,
        meaning="The agent proposed a rule. Newer versions record `change.proposed` instead.",
        fields={**_SECTION, **_ADVICE, "reason": needed(PROSE)},
        effect=ChangesNothing(
            "the approval appends a `bullet.added` event that points to the proposal"
        ),
        summary=as_line("in {section}: {text}"),
        no_retraction="decide on the proposal with `reflector review`",
        target=Target("the lesson from which the rule was made"),
        all_prose=True,
        checked=True,
    ),
    _changed(
        name=BULLET_ADDED,
        meaning="A rule was added, by you or by the approval of a proposal.",
        # `watched`: judged, but neither in the playbook nor shown. `heading`: above it in your
        # file.
        fields={**_BULLET, "watched": FLAG, "heading": PROSE},
        effect=AddsBullets(lambda data: [data] if "name" in data else []),
        summary=as_line("{name} in {section}: {text}"),
        id_is_name=True,
    ),
    *(_setting(kind) for kind in KINDS.values() if kind.meaning),
    _changed(
        name=BULLET_REMOVED,
        meaning=(
            "A rule was removed, or merged into another rule. No new rule gets the name of a "
            "removed rule."
        ),
        # A merge of ledgers sets `follows`: whether the evidence also counts for `into`, as after a
        # `bullet.merged`.
        fields={
            **_NAMED,
            "reason": WORD_OR_PROSE,
            "into": NAME_OR_NULL._replace(elsewhere=_is_promoted),
            "follows": FLAG,
        },
        effect=ChangesBullet(_removed),
        summary=_removal,
    ),
    _changed(
        name=BULLET_RESTORED,
        meaning="A removed rule was restored.",
        since=6,
        fields={**_NAMED, "watched": FLAG},
        effect=ChangesBullet(_restored),
        summary=as_line("{name}"),
    ),
    _changed(
        name=BULLET_MERGED,
        meaning=(
            "Rules were merged into a new rule. The verdicts of the merged rules also count for "
            "the new rule."
        ),
        since=6,
        fields={**_NAMED, **_SECTION, **_ADVICE, "sources": needed(_SOURCES)},
        effect=MergesBullets(_without_baseline),
        summary=_merger,
        id_is_name=True,
    ),
    _changed(
        name=BULLET_UNMERGED,
        meaning=(
            "A merge was undone. The old rules are in the playbook again, and the merged rule is "
            "removed."
        ),
        since=6,
        fields=_NAMED,
        effect=UndoesMerge(),
        summary=as_line("{name}"),
    ),
    _changed(
        name=BULLET_RECOUNTED,
        meaning=(
            "You set a rule's counters by hand, or undid such a change. Later verdicts add to "
            "these counters."
        ),
        # `into`: git gave the name to other advice, and this bullet has the earlier counts.
        # `since`: of an undo, the event whose baseline and later tags count again; earlier versions
        # use the counters of that time.
        fields={**_NAMED, **_BASELINE, "into": NAME_OR_NULL, "since": EVENT_ID, **_FORMER},
        effect=Recounts(),
        summary=as_line("{name} helpful={helpful} harmful={harmful}"),
    ),
    EventType(
        name=RULES_MOVED,
        meaning="Rules were moved from your file into the playbook, or back into the file.",
        since=10,
        fields={
            "file": needed(WORD),
            "before": needed(TEXT),
            "after": needed(TEXT),
            "rules": _NUMBER,
        },
        effect=ChangesNothing(
            "the events that were appended together with this event change the playbook"
        ),
        summary=as_line("{rules} rules of {file}"),
        no_retraction="undo the move with `reflector undo`",
        target=Target("the move that this event undoes"),
    ),
    EventType(
        name=BULLET_ASSERTED,
        meaning=(
            "The current counters of a rule were recorded, so that `verify` can compare the "
            "counters with the events."
        ),
        fields={**_NAMED, "helpful": _NUMBER, "harmful": _NUMBER},
        effect=ChangesNothing("`verify` compares the events with the recorded counters"),
        summary=as_line("{name} helpful={helpful} harmful={harmful}"),
        merge=Merge.LOCAL,
        no_retraction="name a session, a reflection, a verdict or a retraction",
        checked=True,
    ),
    EventType(
        name=BULLET_TAGGED,
        meaning="A judge gave a verdict on a rule, such as helpful.",
        fields={**_JUDGED, "disposition": loose(needed(one_of(*_DISPOSITIONS)))},
        effect=TagsBullet(),
        summary=_tag,
        no_retraction="",
    ),
    EventType(
        name=BULLET_CHECKED,
        meaning=(
            "For `check`, a judge found that a rule was relevant in a part of a session, and "
            "judged the rule."
        ),
        since=9,
        fields={**_JUDGED, "disposition": loose(needed(one_of("checked", *_DISPOSITIONS)))},
        effect=ChangesNothing(
            "`check` counts this answer; the rule's counters include this answer only if the "
            "setting `checked_counts` contains the verdict"
        ),
        summary=_tag,
        no_retraction="",
        target=Target("the recorded part of the session", required=True),
    ),
)
