"""A playbook's simulated life: sessions over a year, judged by three judges, with all that a report shows."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch
from uuid import UUID

from reflector.curation.proposals import propose
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fields import pack_keys
from reflector.ledger import append
from reflector.ledger.store import Ledger
from reflector.playbook.change import Change
from reflector.reflection import standing
from reflector.trials.running import start
from tests.ledger.events import about, changed, lesson, merged, outcome, reflected, told

BEGIN = datetime(2025, 11, 24, 9, tzinfo=UTC)
_SECTIONS = ("pat", "pat", "mis", "pref", "ctx")
_DO = """Run|Read|Keep|Check|Write|Name|Ask for|Look up|Test|Log""".split("|")
_WHAT = """the failing test|the migration|the parser's error|each money amount in cents|the API's contract|feature flags
the retry queue|the cache key|time zones of orders|the invoice PDF|fixtures of the shop|the build's warnings""".replace(
    "\n", "|"
).split("|")
_WHEN = """before you change the module|after every rebase|in the staging project only|when a job is retried
and say what you found in the first line|instead of guessing from the name|with the linter's own command
so that the nightly run stays green|and never against the shared database""".replace("\n", "|").split("|")
_WHY = """The run after the change ended green.|The same error came back two turns later.|The person undid the edit.
The command it names was run and passed.|Nothing in the session bears on it.""".replace("\n", "|").split("|")
_SAID = """no, not against staging|thanks, that is what I meant|please use cents everywhere|3 passed, 0 failed
you forgot the migration again|works now|error: relation "orders" does not exist""".replace("\n", "|").split("|")
_CAME = "turns words unread refusals interruptions approvals reverts files tokens seconds".split()
JUDGES = (("rules", None), ("agent", "claude-sonnet-5-5"), ("anthropic", "claude-haiku-5-5"))


def text(number: int) -> str:
    """Advice as a person writes it."""
    return f"{_DO[number % 10]} {_WHAT[number % len(_WHAT)]} {_WHEN[number * 7 % len(_WHEN)]} (case {number})."


@contextmanager
def at(moment: datetime) -> Iterator[None]:
    """What is recorded, is recorded at a moment."""
    with patch.object(append, "utc_now", lambda: written(moment)):
        yield


def written(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def life(ledger: Ledger, sessions: int, bullets: int, days: int = 364) -> None:
    """Append the life of a playbook to an empty ledger; the same for the same arguments."""
    chance = random.Random(29)
    slugs = [_SECTIONS[n % 5] for n in range(bullets)]
    names = [f"{slug}-{slugs[: n + 1].count(slug):03d}" for n, slug in enumerate(slugs)]
    rows = [
        {"name": n, "section": n.split("-")[0], "text": text(i), "helpful": 0, "harmful": 0}
        for i, n in enumerate(names)
    ]
    rows[0] |= {"helpful": 3, "harmful": 1}
    with at(BEGIN):
        ledger.append(
            [
                NewEvent(
                    ev.PLAYBOOK_IMPORTED,
                    identity("made"),
                    {"format": "1.0", "sha256": "0" * 64, "bullets": rows},
                    "import",
                )
            ]
        )
    good = {name: chance.choice((0.95, 0.9, 0.8, 0.75, 0.5, 0.3)) for name in names}
    weight = [1 / (1 + place) ** 0.6 if place % 4 != 3 else 0.001 for place in range(bullets)]
    for number in range(sessions):
        ended = BEGIN + timedelta(days=days * number / sessions, minutes=chance.randrange(300))
        with at(ended):
            cited = sorted(set(chance.choices(names, weight, k=chance.randrange(5))))
            ledger.append(_session(number, ended, cited, names, good, chance))
            if number == sessions // 2:
                start(ledger, bullets=[], exempt=[], share=0.5, outcome="correction-free", until=ended + timedelta(400))
            if number % 97 == 50:
                _human(ledger, chance)
            if number % 131 == 100:
                ledger.append([changed(ev.BULLET_REVISED, chance.choice(names[:40]), number, text=text(number + 1000))])
    with at(BEGIN + timedelta(days=days)):
        ledger.append(_end(names))
        for one in range(3):
            change = Change("add", section="pat", text=text(2000 + one))
            propose(ledger, change, origin="agent", trust="agent", reason="two sessions said so", actor="agent")


def _session(number, ended, cited, names, good, chance) -> list[NewEvent]:  # type: ignore[no-untyped-def]
    session_id, when = str(UUID(int=chance.getrandbits(128), version=4)), written(ended)
    path = f"/home/ada/.claude/projects/-home-ada-shop/{session_id}.jsonl"
    data = {
        "agent": "claude-code",
        "agent_id": None,
        "trigger": "SessionEnd",
        "cited": cited,
        "unknown": [],
        "carried": [],
        "transcript": {"path": path, "bytes": chance.randrange(9_000, 900_000)},
        "window": {"keys": pack_keys([number]), "records": chance.randrange(20, 400)},
    }
    window = NewEvent(ev.SESSION_RECORDED, identity("made", number), data, "hook:SessionEnd", when, session_id)
    shown = [one for place, one in enumerate(names) if place < 40 or one in cited]
    telling = NewEvent(
        ev.ADVICE_TOLD,
        identity("told", number),
        {"via": "injection", "lessons": [], "bullets": shown},
        "hook",
        when,
        session_id,
        target_id=window.event_id,
    )
    found = [window, telling]
    if number % 5:
        came = dict.fromkeys(_CAME, 3) | {"root": session_id, "corrections": int(number % 23 < 3), "rules": "1"}
        event_id = identity("outcome", number)
        found.append(
            NewEvent(ev.SESSION_OUTCOME, event_id, came, "hook:SessionEnd", when, session_id, target_id=window.event_id)
        )
    if number % 31 == 30:
        return [*found, about(ev.REFLECTION_SKIPPED, window, reason="no citation and nothing new")]
    if number % 211 == 210:
        return [
            *found,
            about(ev.REFLECTION_FAILED, window, stage="answer", message="the API is overloaded (529)", attempts=1),
        ]
    backend, model = JUDGES[min(2, chance.randrange(5) // 2)]
    return [*found, *_judged(f"r{number}", window, when, backend, model, cited, good, chance)]


def _judged(reflection, window, when, backend, model, cited, good, chance) -> list[NewEvent]:  # type: ignore[no-untyped-def]
    meta = (
        {"input_tokens": chance.randrange(4_000, 30_000), "output_tokens": chance.randrange(200, 900)} if model else {}
    )
    whose = {"session_id": window.session_id, "reflection_id": reflection, "target_id": window.event_id}
    answer = {
        "mode": "citation_guided",
        "backend": backend,
        "model": model,
        "answer": "{}",
        "template_sha256": "5" * 64,
    }
    answered = NewEvent(
        ev.REFLECTION_ANSWERED, identity("answer", reflection), answer, backend, when, **whose, meta=meta
    )
    tags, said = [], []
    for index, name in enumerate(cited):
        roll = chance.random()
        tag = "neutral" if roll < 0.15 else "helpful" if chance.random() < good[name] else "harmful"
        tags.append((name, tag, "counted" if tag != "neutral" else "neutral"))
        quoted = (
            {"words": "person", "quote": chance.choice(_SAID), "turn": 3, "sure": "sure"} if tag != "neutral" else {}
        )
        said.append({"index": index, "rationale": chance.choice(_WHY), **quoted})
    done, *tagged = reflected(reflection, window, *tags, actor=backend)
    done.data.update(rationales=said, backend=backend, model=model)  # type: ignore[attr-defined]
    for event in (done, *tagged):
        object.__setattr__(event, "occurred_at", when)
    return [answered, done, *tagged]


def _human(ledger: Ledger, chance: random.Random) -> None:
    """A person overrules the newest verdict."""
    window = ledger.windows()[-1]
    found = standing.citations(ledger, session_id=window.session_id, decided=True)
    if found:
        standing.judge(ledger, found[0], chance.choice(("helpful", "harmful")), "I was there")


def _end(names: list[str]) -> list[NewEvent]:
    first, second = (
        lesson("l1", text="Add auth middleware to each new route"),
        lesson("l2", "insight", "Read the sign of the amount"),
    )
    outcomes = [outcome(first, "success" if n % 4 else "failure", n) for n in range(9)]
    return [
        changed(ev.BULLET_REMOVED, names[-1], reason="pruned"),
        merged("pat-9001", names[2], names[7], text="Keep money in cents, and say so in the first line."),
        changed(ev.BULLET_MOVED, names[5], 1, section="oth"),
        first,
        second,
        *outcomes,
        outcome(second, "failure"),
        told(first, key=7),
    ]


def made(folder: Path, sessions: int, bullets: int, days: int = 364) -> Path:
    """Make the ledger of a project in a folder, and return its file."""
    path = folder / ".claude" / "reflector" / "ledger.db"
    with Ledger.open_file(path) as ledger:
        life(ledger, sessions, bullets, days)
    return path
