"""The report of a simulated life: its numbers are those of the commands, and what it says of a
moment was so.
"""

import json
import random
import re
import resource
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from reflector.audit.blame import blame_bullets
from reflector.audit.checked import checked_lines
from reflector.changes.propose import propose, read_proposals
from reflector.events import event as ev
from reflector.events.event import NewEvent, identity
from reflector.events.fields import pack_keys
from reflector.ledger import append
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Verdict
from reflector.playbook.change import Change
from reflector.reflection import standing
from reflector.report.page import MOST_RULES
from reflector.trials.trial import standing as trial_standing, start
from tests.ledger.events import changed, lesson, merged, outcome, told
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
    found = standing.citations(ledger, session_id=ledger.windows()[-1].session_id, decided=True)
    if found:
        standing.record_verdict(ledger, found[0], verdict, "I was there")


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


def whole(text: str) -> int:
    """The number that a cell shows."""
    return int(text.strip().replace(",", ""))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """A project after a simulated quarter."""
    agent = Agent.in_folder(tmp_path_factory.mktemp("report"), {})
    with at(BEGIN), agent.open_ledger() as ledger:
        life(ledger, 240, 30, 84)
    agent.call("list")
    return agent


_WRITTEN: dict[tuple[str, ...], str] = {}


def report(agent: Agent, *options: str) -> str:
    """The report's markup, which is written once for the same options of a project."""
    path, key = agent.project.parent / "report.html", (str(agent.project), *options)
    if key not in _WRITTEN or not path.exists():
        assert agent.call("report", "--out", path, *options).out.startswith(f"{path}, ")
        _WRITTEN[key] = path.read_text("utf-8")
    return _WRITTEN[key]


def said(agent: Agent, *words: str) -> Any:
    return json.loads(agent.call(*words, "--json", code=None).out)


@pytest.mark.parametrize("moment", ["", "1000"])
def test_every_number_is_that_of_json(agent: Agent, moment: str) -> None:
    as_of = ["--as-of", moment] if moment else []
    page = Reader(report(agent, "--since", "2025-12-20", *as_of))
    listed, overruled = said(agent, "list", "--sort", "best", *as_of), dict[int, bool]()
    assert [*page.bullets] == [one["name"] for one in listed]
    for one in listed:
        shown = page.bullets[one["name"]]
        counts = [one["helped"], one["harmed"], *filter(None, [one["undecided"]])]
        numbers = re.findall(r"\d+(?:\.\d+)?", shown["count"])
        assert numbers == [f"{count:.3g}" for count in counts]
        assert re.search(rf"cited in {one['cited']} session", shown["use"])
        if one["told_sessions"] is not None:
            assert f"shown in {one['told_sessions']:,}" in shown["use"]
        votes = one["helped"] + one["harmed"]
        if one["share"] is None:
            assert shown["of"] == "–"
        elif votes < 5:
            helped = f"{one['helped']:.3g} of {votes:.3g}"
            assert shown["of"].startswith(f"{helped}, too few to tell")
            assert "%" not in shown["of"]
        else:
            assert shown["of"].split()[0] == f"{one['share']:.0%}"
            assert f"{one['low'] * 100:.0f}–{one['high']:.0%}" in shown["of"]
        steps = said(agent, "blame", one["name"], *as_of)
        by_hand = [(s, (s["uncounted_by"] or {}).get("reason") or "") for s in steps]
        overruled |= {
            s["position"]: not why.endswith(s["tag"])
            for s, why in by_hand
            if "you judged it" in why
        }
        rows = page.tables.get(f"{one['name']}: its last verdicts, the last one first", [])
        assert [row[3] for row in rows] == [
            f"{s['helpful']}/{s['harmful']}" for s in steps[:-21:-1]
        ]
        assert [row[1] for row in rows] == [(s["session_id"] or "–")[:8] for s in steps[:-21:-1]]
        assert all(
            (s["quote"] or "") in row[-1] for s, row in zip(steps[:-21:-1], rows, strict=True)
        )
        if len(steps) > 20:
            assert f"{len(steps) - 20} earlier verdicts: reflector blame {one['name']}" in page.text
    assert f"You overruled {sum(overruled.values())}." in page.text
    assert len(page.tables.get("Verdicts that you overruled", ())) == sum(overruled.values())
    assert moment or len(overruled) > sum(overruled.values()) > 0, (
        "a person agreed once and did not once"
    )
    stats = said(agent, "stats", *as_of)
    judges = [
        [row[0], *map(whole, (*row[1:5], row[7]))] for row in page.tables["Verdicts by judge"]
    ]
    for one in stats["by_model"]:
        one["total"] = one["helpful"] + one["harmful"] + one["neither"]
    keys = ("helpful", "harmful", "neither", "total", "answers")
    by_hand = {"human": "by hand"}
    assert judges == [
        [by_hand.get(one["model"], one["model"]), *(one[key] for key in keys)]
        for one in stats["by_model"]
    ]
    for kind, groups in (("model", stats["by_model"]), ("month", stats["by_day"])):
        sums = Counter[str]()
        for one in groups:
            if one.get("model") == "human":
                continue
            sums[(one.get("day") or one["model"])[: 7 if kind == "month" else None]] += one[
                "tokens"
            ]
        assert {row[0]: whole(row[2]) for row in page.tables[f"Tokens and cost by {kind}"]} == sums
    spent = page.tables["Tokens and cost by week and model"]
    for column, key in ((2, "answers"), (3, "tokens")):
        by_people = sum(one[key] for one in stats["by_model"] if one["model"] == "human")
        assert sum(whole(row[column]) for row in spent) == stats[key] - by_people
    assert sum(float(row[4]) for row in spent) == pytest.approx(
        float(stats["cost_usd"]), abs=0.01 * len(spent)
    )
    until = moment or ""
    changed = said(agent, "diff", f"2025-12-20..{until}")["bullets"]
    totals = {one["name"]: [one[side] or {} for side in ("before", "after")] for one in changed}
    assert {row[0]: row[3:5] for row in page.tables["Rules that changed"]} == {
        name: [f"{of['helpful']}/{of['harmful']}" if of else "–" for of in both]
        for name, both in totals.items()
    }
    lessons = said(agent, "lessons", *as_of)
    shown_lessons = sorted((row[0], row[3]) for row in page.tables.get("Lessons by worth", []))
    assert shown_lessons == sorted(
        (one["data"]["text"], f"{one['effectiveness']:.2f}") for one in lessons
    )


def test_what_a_check_found_and_where_a_trial_stands(agent: Agent) -> None:
    page = Reader(report(agent))
    with agent.open_ledger() as ledger:
        found, trial = checked_lines(ledger), trial_standing(ledger)
    rows = page.tables["Rules that were checked"]
    asked = [c for c in found.lines if c.result != "not asked about"]
    wanted = {
        c.name: [
            c.text,
            c.result,
            f"{c.relevant} of {c.sessions}",
            f"{c.followed.yes} of {c.followed.yes + c.followed.no}",
        ]
        for c in asked
    }
    assert f"{len(found.lines) - len(asked)} not asked about: reflector check" in page.text
    assert {row[0]: row[1:5] for row in rows} == wanted
    assert "check: followed 27 of 27" in page.bullets["ctx-004"]["text"]
    arms = [[arm.sessions, arm.good] for arm in (trial.told, trial.without)]
    assert [list(map(whole, row[1:3])) for row in page.tables["Sessions of the trial"]] == arms
    assert trial.sentence in page.text


def test_weeks_add_up_to_what_the_view_of_sessions_says(agent: Agent) -> None:
    rows = Reader(report(agent)).tables["Sessions by week"]
    query = "SELECT count(*) AS n, sum(helpful) AS up, sum(harmful) AS down FROM sessions"
    (of,) = json.loads(agent.call("sql", query, "--json").out)
    sums = [sum(whole(row[column]) for row in rows) for column in (1, 2, 3)]
    assert sums == [of["n"], of["up"], of["down"]]
    outcomes = said(agent, "log", "-n", "0", "--type", "session.outcome")
    assert (
        sum(whole(row[4]) for row in rows)
        == sum(one["data"]["corrections"] for one in outcomes)
        > 0
    )


def test_what_waits_is_named_with_the_command_that_decides_it(agent: Agent) -> None:
    page = Reader(report(agent))
    with agent.open_ledger() as ledger:
        undecided = len(standing.citations(ledger))
        proposals = len(read_proposals(ledger))
    waits = {
        "undecided citations": (undecided, "review"),
        "proposals": (proposals, "review"),
        "failures": (len(said(agent, "status")["failures"]), "reflect"),
    }
    assert all(many for many, _ in waits.values())
    for kind, (many, command) in waits.items():
        assert f"{many} {kind}: reflector {command}" in page.text
    first = page.tables["Failures"][0]
    assert first[3] == f"reflector reflect {first[1]}"
    assert said(agent, "show", first[1])["session_id"].startswith(first[1])
    assert "Undecided citations" not in Reader(report(agent, "--as-of", "1000")).tables


def test_a_flag_names_the_commands_that_act(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reflector.report.rules.HARMS", 0)
    page = Reader(report(agent, "--since", "1000"))
    for name, row in page.bullets.items():
        assert (
            f"harms too often for chance reflector edit {name} or reflector remove {name}"
        ) in row["text"]


def test_an_empty_playbook_has_a_page(tmp_path: Path) -> None:
    agent = Agent.in_folder(tmp_path, {})
    assert Reader(report(agent)).bullets == {}


@pytest.mark.slow
def test_page_of_many_bullets_is_bounded(tmp_path: Path) -> None:
    agent = Agent.in_folder(
        tmp_path,
        {"PATTERNS & APPROACHES": [f"Run step {n} first" for n in range(MOST_RULES + 50)]},
    )
    page = report(agent)
    assert len(Reader(page).bullets) == MOST_RULES
    assert "50 more rules are not on this page: <code>reflector list</code>" in page


@pytest.mark.slow
def test_blames_grow_with_the_playbook(tmp_path: Path) -> None:
    """Four times the imported bullets take about four times as long; each of them read its whole
    import once.
    """
    times = []
    for number in (1_500, 6_000):
        texts = [f"Run step {step}" for step in range(number)]
        agent = Agent.in_folder(tmp_path / str(number), {"PATTERNS & APPROACHES": texts})
        agent.call("list")
        with agent.open_ledger() as ledger:
            then = Past(ledger)
            began = time.process_time()
            assert len(blame_bullets(ledger, [*then.entries], then)) == number
            times.append(time.process_time() - began)
    assert times[1] < 8 * times[0] + 0.2


@pytest.mark.slow
@pytest.mark.parametrize("descriptors", [8, 12])
def test_few_descriptors_give_no_traceback(agent: Agent, tmp_path: Path, descriptors: int) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    path = tmp_path / "page.html"
    ran = agent.run("report", "--out", path, code=None, preexec_fn=few)
    lines = [line for line in ran.err.splitlines() if not line.startswith("reading ")]
    assert path.exists() == (ran.code == 0)
    if ran.code:
        assert len(lines) == 1
        assert "ulimit -n" in lines[0]
    else:
        assert lines == []


def test_unknown_moment_is_one_error(agent: Agent) -> None:
    assert agent.run("report", "--as-of", "never", code=2).err.count("rror") == 1


def test_each_query_for_datasette_answers(agent: Agent) -> None:
    metadata = json.loads(DATASETTE.read_text("utf-8"))
    charts = metadata["plugins"]["datasette-dashboards"]["playbook"]["charts"]
    queries = [one["sql"] for one in metadata["databases"]["ledger"]["queries"].values()]
    for query in (*queries, *(one["query"] for one in charts.values())):
        assert json.loads(agent.call("sql", query.replace(":name", "'pat-001'"), "--json").out), (
            query
        )
    with closing(sqlite3.connect(agent.ledger)) as connection:
        tables = {
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        }
    hidden = {
        name for name, of in metadata["databases"]["ledger"]["tables"].items() if of.get("hidden")
    }
    assert {one for one in tables if not one.startswith("sqlite_")} == hidden
