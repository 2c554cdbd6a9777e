"""What is worked out before its turn, and when it is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reflector.curator.wishes import wishes
from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Answer, Request
from reflector.sessions.prefetch import Prefetched, PrefetchedBackend, prefetch
from reflector.transcripts.formats import read_messages, scan
from tests.road.sessions import Session

BULLETS = (Bullet("pat-001", "pat", "Round once, at the end."), Bullet("pat-002", "pat", "Keep functions small."))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Session().cites("pat-002").cites("pat-001", "harmful").cites("mis-009").write(tmp_path / "s.jsonl")


def request(path: Path, *cited: str, bullets: tuple[Bullet, ...] = BULLETS) -> Request:
    return Request("s-1", bullets, cited, lambda: read_messages(path))


def judged(path: Path) -> Prefetched:
    return prefetch(path, None, {bullet.name: bullet for bullet in BULLETS})


class Asked(RulesBackend):
    """The rules, counting what they are asked."""

    times = 0

    def answer(self, request: Request, part: int = 1) -> Answer:
        self.times += 1
        return super().answer(request, part)


def test_a_transcript_is_judged_as_the_rules_judge_its_window(path: Path) -> None:
    found = judged(path)
    assert list(found.cited) == ["pat-002", "pat-001"]
    assert found.answer == RulesBackend().answer(request(path, "pat-002", "pat-001"))
    assert found.answer is not None
    assert '"tag":"harmful"' in found.answer.text
    assert '"tag":"helpful"' in found.answer.text


def test_nothing_is_judged_where_no_live_bullet_is_cited_or_nobody_asked(path: Path) -> None:
    assert prefetch(path, None, {"pat-777": Bullet("pat-777", "pat", "x")}).answer is None
    asked = prefetch(path, None, {})
    assert asked.answer is None
    assert replace(asked.scan, gathered=None) == scan(path)


def test_what_people_ask_for_is_heard_in_the_same_pass(tmp_path: Path) -> None:
    session = Session().cites("pat-001").user("Always run the linter before you push.").agent("I will.")
    path = session.user("Never commit generated files.").write(tmp_path / "s.jsonl")
    gathered = prefetch(path, None, {}).scan.gathered
    assert gathered is not None
    assert [wish.form for wish in gathered] == ["always", "never"]
    assert list(gathered) == list(wishes(read_messages(path)))


def test_an_answer_is_used_once_for_the_request_that_it_is_one_to(path: Path) -> None:
    rules = Asked()
    backend = PrefetchedBackend(rules)
    backend.ready = judged(path)
    asked = request(path, "pat-002", "pat-001")
    assert backend.answer(asked) == backend.answer(asked)
    assert (backend.used, rules.times) == (1, 1)


@pytest.mark.parametrize(
    ("cited", "bullets"),
    [
        (("pat-001", "pat-002"), BULLETS),
        (("pat-002",), BULLETS),
        (("pat-002", "pat-001"), (Bullet("pat-001", "pat", "Round twice."), BULLETS[1])),
        (("pat-002", "pat-001"), BULLETS[:1]),
    ],
)
def test_another_request_is_asked_about(path: Path, cited: tuple[str, ...], bullets: tuple[Bullet, ...]) -> None:
    rules = Asked()
    backend = PrefetchedBackend(rules)
    backend.ready = judged(path)
    assert backend.answer(request(path, *cited, bullets=bullets)) == rules.answer(
        request(path, *cited, bullets=bullets)
    )
    assert (backend.used, rules.times) == (0, 2)


def test_counters_of_a_bullet_are_no_part_of_the_question(path: Path) -> None:
    backend = PrefetchedBackend(Asked())
    backend.ready = judged(path)
    counted = tuple(Bullet(b.name, b.section, b.text, 5, 2) for b in BULLETS)
    backend.answer(request(path, "pat-002", "pat-001", bullets=counted))
    assert backend.used == 1
