"""Projects to report on: one after a simulated quarter, and one in which every text is hostile;
and the page that `report` writes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from reflector.changes.propose import propose
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fields import pack_keys
from reflector.ledger import append
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Verdict
from reflector.playbook.change import Change
from reflector.reflection import standing
from reflector.text.bounds import clean
from reflector.trials.trial import start
from tests.ledger.events import (
    about,
    added,
    changed,
    lesson,
    merged,
    outcome,
    reflected,
    told,
    window,
)
from tests.road.agent import Agent

DATASETTE = Path(__file__).parents[2] / "examples" / "datasette.json"
BEGIN = datetime(2025, 11, 24, 9, tzinfo=UTC)


_SECTIONS = ("pat", "pat", "mis", "pref", "ctx")


_DO = "Run|Read|Keep|Check|Write|Name|Ask for|Look up|Test|Log".split("|")


_WHAT = (
    "the failing test|the migration|the parser's error|each money amount in cents|the API's "
    "contract|feature flags|"
    "the retry queue|the cache key|time zones of orders|the invoice PDF|fixtures of the shop|the "
    "build's warnings"
).split("|")


_WHEN = (
    "before you change the module|after every rebase|in the staging project only|when a job is "
    "retried|"
    "and say what you found in the first line|instead of guessing from the name|with the linter's "
    "own command|"
    "so that the nightly run stays green|and never against the shared database"
).split("|")


_WHY = (
    "The run after the change ended green.|The same error came back two turns later.|The person "
    "undid the edit.|"
    "The command it names was run and passed.|Nothing in the session bears on it."
).split("|")


_SAID = (
    "no, not against staging|thanks, that is what I meant|please use cents everywhere|3 passed, 0 "
    "failed|"
    'you forgot the migration again|works now|error: relation "orders" does not exist'
).split("|")


_CAME = "turns words unread refusals interruptions approvals reverts files tokens seconds".split()


_JUDGES = (("rules", None), ("agent", "claude-sonnet-5-5"), ("anthropic", "claude-haiku-5-5"))


def text(number: int) -> str:
    """Advice as a person writes it."""
    return (
        f"{_DO[number % 10]} {_WHAT[number % len(_WHAT)]} {_WHEN[number * 7 % len(_WHEN)]} "
        f"(case {number})."
    )


@contextmanager
def at(moment: datetime) -> Iterator[None]:
    """What is recorded, is recorded at a moment."""
    with patch.object(append, "utc_now", lambda: _written(moment)):
        yield


def _written(moment: datetime) -> str:
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
    data = {"format": "1.0", "sha256": "0" * 64, "bullets": rows}
    with at(BEGIN):
        ledger.append([NewEvent(ev.PLAYBOOK_IMPORTED, identity("made"), data, "import")])
    good = {name: chance.choice((0.95, 0.9, 0.8, 0.75, 0.5, 0.3)) for name in names}
    weight = [1 / (1 + place) ** 0.6 if place % 4 != 3 else 0.001 for place in range(bullets)]
    for number in range(sessions):
        ended = BEGIN + timedelta(days=days * number / sessions, minutes=chance.randrange(300))
        with at(ended):
            cited = sorted(set(chance.choices(names, weight, k=chance.randrange(5))))
            shown = {*chance.sample(names[:60], k=min(40, bullets)), *cited}
            ledger.append(
                _Made(number, _written(ended), chance).session(cited, sorted(shown), good)
            )
            if number == sessions // 2:
                start(ledger, bullets=[], exempt=[], share=0.5, outcome="correction-free")
            if number % 40 == 10:
                _overrule(ledger, "helpful" if number > 120 else "harmful")
            if number % 131 == 100:
                ledger.append(
                    [
                        changed(
                            ev.BULLET_REVISED,
                            chance.choice(names[:40]),
                            number,
                            text=text(number + 1000),
                        )
                    ]
                )
    with at(BEGIN + timedelta(days=days)):
        ledger.append(_end(names))
        for one in range(3):
            change = Change("add", section="pat", text=text(2000 + one))
            propose(
                ledger,
                change,
                origin="agent",
                trust="agent",
                reason="two sessions said so",
                actor="agent",
            )


class _Made:
    """The events of one session."""

    def __init__(self, number: int, when: str, chance: random.Random) -> None:
        self.number, self.when, self.chance = number, when, chance
        self.id = str(UUID(int=chance.getrandbits(128), version=4))
        self.window = identity("made", number)

    def event(
        self, type_: str, actor: str, data: dict[str, Any], key: Any = None, **more: Any
    ) -> NewEvent:
        event_id = key or identity(type_, self.number)
        return NewEvent(type_, event_id, data, actor, self.when, self.id, **more)

    def session(self, cited: list[str], shown: list[str], good: dict[str, float]) -> list[NewEvent]:
        about, chance, number = {"target_id": self.window}, self.chance, self.number
        path = f"/home/ada/.claude/projects/-home-ada-shop/{self.id}.jsonl"
        data = {
            "agent": "claude-code",
            "agent_id": None,
            "trigger": "SessionEnd",
            "cited": cited,
            "carried": [],
            "transcript": {"path": path, "bytes": 90_000},
            "window": {"keys": pack_keys([number])},
        }
        found = [self.event(ev.SESSION_RECORDED, "hook:SessionEnd", data, self.window)]
        found += [
            self.event(
                ev.ADVICE_TOLD,
                "hook",
                {"via": "injection", "lessons": [], "bullets": shown},
                **about,
            )
        ]
        came = dict.fromkeys(_CAME, 3) | {
            "root": self.id,
            "corrections": int(number % 23 < 3),
            "rules": "1",
        }
        found += (
            [self.event(ev.SESSION_OUTCOME, "hook:SessionEnd", came, **about)] if number % 5 else []
        )
        if number % 31 == 30:
            return [
                *found,
                self.event(ev.REFLECTION_SKIPPED, "rules", {"reason": "nothing new"}, **about),
            ]
        if number % 211 == 210:
            failed = {"stage": "answer", "message": "the API is overloaded (529)", "attempts": 1}
            return [*found, self.event(ev.REFLECTION_FAILED, "agent", failed, **about)]
        found += self.judged(f"r{number}", *_JUDGES[min(2, chance.randrange(5) // 2)], cited, good)
        return found + (
            self.judged(f"c{number}", "agent", _JUDGES[1][1], shown[:4], good, "checked")
            if number % 9 == 4
            else []
        )

    def judged(
        self,
        id: str,
        backend: str,
        model: str | None,
        names: Sequence[str],
        good: dict[str, float],
        mode: str = "own",
    ) -> list[NewEvent]:
        chance, tags, said = self.chance, list[dict[str, Any]](), list[dict[str, Any]]()
        for index, name in enumerate(names):
            tag = (
                "neutral"
                if chance.random() < 0.15
                else "helpful"
                if chance.random() < good[name]
                else "harmful"
            )
            counts = "neutral" if tag == "neutral" else "counted" if mode == "own" else "checked"
            followed = {"followed": "no" if index % 7 == 6 else "yes"} if mode == "checked" else {}
            tags.append(
                {"index": index, "name": name, "tag": tag, "disposition": counts, **followed}
            )
            words = {"words": "person", "quote": chance.choice(_SAID), "turn": 3, "sure": "sure"}
            said.append(
                {
                    "index": index,
                    "rationale": chance.choice(_WHY),
                    **(words if tag != "neutral" else {}),
                }
            )
        whose = {"reflection_id": id, "target_id": self.window}
        spent = {
            "input_tokens": chance.randrange(4_000, 30_000),
            "output_tokens": chance.randrange(200, 900),
            "cost_usd": f"{chance.randrange(1_000, 90_000) / 1_000_000:.6f}",
        }
        answer = {
            "mode": mode,
            "backend": backend,
            "model": model,
            "answer": "{}",
            "asked": [*names],
        }
        read = {"analysis": "It went well", "rationales": said, "backend": backend, "model": model}
        type_ = ev.BULLET_TAGGED if mode == "own" else ev.BULLET_CHECKED
        return [
            self.event(
                ev.REFLECTION_ANSWERED,
                backend,
                answer,
                identity(id),
                **whose,
                meta=spent if model else {},
            ),
            self.event(
                ev.REFLECTION_COMPLETED,
                backend,
                read,
                identity(ev.REFLECTION_COMPLETED, id),
                **whose,
            ),
            *(self.event(type_, backend, tag, identity(id, tag["index"]), **whose) for tag in tags),
        ]


def _overrule(ledger: Ledger, verdict: Verdict) -> None:
    """A person overrules a verdict on the newest session."""
    session_id = ledger.windows()[-1].session_id
    found = next(standing.citations(ledger, session_id=session_id, decided=True), None)
    if found:
        standing.record_verdict(ledger, found, verdict, "I was there")


def _end(names: list[str]) -> list[NewEvent]:
    first, second = (
        lesson("l1", text="Add auth to each new route"),
        lesson("l2", "insight", "Read the sign"),
    )
    return [
        changed(ev.BULLET_REMOVED, names[-1], reason="pruned"),
        merged(
            "pat-9001",
            names[2],
            names[7],
            text=("Keep money in cents, and say so in the first line."),
        ),
        changed(ev.BULLET_MOVED, names[5], 1, section="oth"),
        *(first, second, *(outcome(first, "success" if n % 4 else "failure", n) for n in range(9))),
        *(outcome(second, "failure"), told(first, key=7)),
    ]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project after a simulated quarter."""
    agent = Agent.in_folder(tmp_path_factory.mktemp("report"), {})
    with at(BEGIN), agent.open_ledger() as ledger:
        life(ledger, 240, 30, 84)
    agent.call("list")
    return agent


#: Texts that try to be more than text; the 1 MB word is longer than its line.
HOSTILE = [
    json.loads(line)
    for line in Path(__file__).with_name("hostile.txt").read_text("utf-8").splitlines()
]


HOSTILE[HOSTILE.index("W")] *= 1 << 20


SESSION = "5f2a91c0-1111-2222-3333-444455556666"


SECRET = f"ghp_{'a1B2' * 9}"


def speaks(ledger: Ledger, number: int, text: str) -> None:
    """Let a text be a bullet's, and each word of a session on it: quote, reason, judge, id,
    folder and lesson.
    """
    shown = text[:300_000]
    bullet, recorded = (
        added(f"pat-{number:03d}", clean(text, 9_000)),
        window(number, f"{text[:60]}-{number}"),
    )
    recorded.data["transcript"]["path"] = f"/home/ada/{text[:200]}"  # type: ignore[index]
    recorded.data["cited"] = [f"pat-{number:03d}"]  # type: ignore[index]
    done, *tags = reflected(
        f"r{number}", recorded, (f"pat-{number:03d}", "helpful" if number % 2 else "harmful")
    )
    quoted = {"index": 0, "rationale": shown, "quote": text[:2000], "words": text[:40], "turn": 1}
    done.data.update(rationales=[quoted], backend="agent", model=text[:80])  # type: ignore[attr-defined]
    answered = about(ev.REFLECTION_ANSWERED, recorded, answer="{}", model=text[:80])
    answered.meta.update(input_tokens=1000 + number)  # type: ignore[attr-defined]
    ledger.append(
        [bullet, recorded, answered, done, *tags, lesson(f"l{number}", text=shown[:90_000])]
    )


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project in which every text is hostile."""
    agent = Agent.in_folder(tmp_path_factory.mktemp("hostile"), {})
    with agent.open_ledger() as ledger:
        for number, text in enumerate(HOSTILE, 1):
            speaks(ledger, number, text.replace("\x00", "\ufffd"))
    return agent


_VOID = {"meta", "br", "input", "link", "img"}


class Reader(HTMLParser):
    """Reads a page: its tables by caption, the bullets' rows by name, and every tag with its
    attributes.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.bullets: dict[str, dict[str, str]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self._span: list[str] = []
        self._caption, self._rows = "", list[list[str]]()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        if tag in _VOID:
            return
        self.open.append(tag)
        if tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        elif tag == "li" and own.get("data-name"):
            self.bullets[own["data-name"] or ""] = {}
        elif tag == "span" and self.bullets:
            self._span.append(own.get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags are closed in order"
        if tag == "table":
            self.tables[self._caption], self._caption, self._rows = self._rows[1:], "", []
        elif tag == "span" and self._span:
            self._span.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open or "script" in self.open:
            return
        self.text += data
        if "caption" in self.open:
            self._caption += data
        elif {"td", "th"} & {*self.open} and "ul" not in self.open[self.open.index("table") :]:
            self._rows[-1][-1] += data
        if self._span and "summary" in self.open:
            of = self.bullets[[*self.bullets][-1]]
            of[self._span[-1]] = of.get(self._span[-1], "") + data


_WRITTEN: dict[tuple[str, ...], str] = {}


def report(agent: Agent, *options: str) -> str:
    """The report's markup, which is written once for the same options of a project."""
    path, key = agent.project.parent / "report.html", (str(agent.project), *options)
    if key not in _WRITTEN or not path.exists():
        assert agent.call("report", "--out", path, *options).out.startswith(f"Wrote {path}, ")
        _WRITTEN[key] = path.read_text("utf-8")
    return _WRITTEN[key]
