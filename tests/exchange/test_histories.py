"""Clones that exchange their rules through git and through imports, in any order."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from reflector.exchange.transfer import exported, load_ledger
from reflector.ledger.store import BulletRow
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from tests.conftest import Fresh, first_fast
from tests.exchange.clones import Clone, Repository
from tests.exchange.pairs import sound
from tests.ledger.events import reflected, window

SECTIONS = ("pat", "ctx", "mis")
_WEIGHTS = {
    "add": 3,
    "reword": 4,
    "move": 1,
    "remove": 2,
    "judge": 5,
    "commit": 1,
    "git": 5,
    "take": 5,
    "undo": 2,
}


def rule_of(text: str) -> str:
    """Return the rule that a text belongs to: each text begins with its rule."""
    return text.split()[0]


class History:
    """Several clones, and what their rules and counts must be.

    texts    every text that was ever given to each rule
    judged   the number of helpful verdicts on each rule
    removed  rules that a clone removed
    undone   rules that an undo changed
    """

    def __init__(self, folder: Path, urls: Sequence[str], *, is_copied: bool) -> None:
        self.repository = Repository()
        self.clones = [
            Clone(folder / name, self.repository, url)
            for name, url in zip("abc", urls, strict=False)
        ]
        self.number = 0
        self.texts: dict[str, set[str]] = defaultdict(set)
        self.judged: dict[str, int] = defaultdict(int)
        self.removed: set[str] = set()
        self.undone: set[str] = set()
        first, *others = self.clones
        self.add(first, "ctx")
        first.pull_and_push()
        for clone in others:
            if is_copied:
                load_ledger(clone.ledger, exported(first.ledger))
            clone.start()

    def text(self, rule: str = "") -> str:
        """Return a new text of a rule; without one, of a new rule."""
        self.number += 1
        text = f"{rule or f'Rule{self.number}'} in words {self.number}"
        self.texts[rule_of(text)].add(text)
        return text

    def add(self, clone: Clone, section: str = "pat") -> None:
        clone.change(Change("add", section=section, text=self.text()))

    def reword(self, clone: Clone, bullet: Bullet) -> None:
        text = self.text(rule_of(bullet.text))
        clone.change(Change("revise", bullet.name, text=text))

    def move(self, clone: Clone, bullet: Bullet, section: str) -> None:
        if section != bullet.section:
            clone.change(Change("move", bullet.name, section=section))

    def remove(self, clone: Clone, bullet: Bullet) -> None:
        self.removed.add(rule_of(bullet.text))
        clone.change(Change("remove", bullet.name))

    def judge(self, clone: Clone, bullet: Bullet) -> None:
        """Record a session in which a rule helped."""
        self.number += 1
        seen = window(self.number, f"s{self.number}", keys=[self.number])
        verdict = reflected(f"r{self.number}", seen, (bullet.name, "helpful"))
        clone.sync()
        clone.ledger.append([seen, *verdict])
        self.judged[rule_of(bullet.text)] += 1

    def undo(self, clone: Clone, row: BulletRow) -> None:
        before = clone.bullets()
        clone.undo(row.name)
        changed = {*before} ^ {*clone.bullets()}
        self.undone |= {rule_of(bullet.text) for bullet in changed}

    def play(self, chance: random.Random) -> None:
        """Take one random step."""
        clone, other = chance.sample(self.clones, 2)
        step = chance.choices([*_WEIGHTS], [*_WEIGHTS.values()])[0]
        bullets = clone.bullets()
        exchanges: dict[str, Callable[[], None]] = {
            "add": lambda: self.add(clone, chance.choice(SECTIONS)),
            "commit": clone.commit,
            "git": clone.pull_and_push,
            "take": lambda: clone.take(other),
            "undo": lambda: self.undo(clone, chance.choice(clone.ledger.rows())),
        }
        if step in exchanges:
            exchanges[step]()
        elif bullets:
            bullet = chance.choice(bullets)
            changes: dict[str, Callable[[], None]] = {
                "reword": lambda: self.reword(clone, bullet),
                "move": lambda: self.move(clone, bullet, chance.choice(SECTIONS)),
                "remove": lambda: self.remove(clone, bullet),
                "judge": lambda: self.judge(clone, bullet),
            }
            changes[step]()

    def exchange(self) -> None:
        """Bring every change to every clone, by git and by imports."""
        for clone in [*self.clones, *self.clones]:
            clone.pull_and_push()
        for _ in range(2):
            for clone in self.clones:
                for other in self.clones:
                    if other is not clone:
                        clone.take(other)

    def check(self) -> None:
        """Exchange all changes twice, and check the laws of an exchange."""
        self.exchange()
        states = [clone.rules() for clone in self.clones]
        self.exchange()
        agreed = self.clones[0].rules()
        assert states.count(states[0]) < len(states) or agreed == states[0]
        for clone in self.clones:
            assert clone.rules() == agreed
        for rule, texts in self.texts.items():
            rows = [row for row in agreed.elements() if rule_of(str(row[1])) == rule]
            is_kept = rule not in self.removed and rule not in self.undone
            assert len(rows) == 1 if is_kept else len(rows) <= 1, (rule, rows)
            assert {row[1] for row in rows} <= texts
            if is_kept:
                assert rows[0][2] == self.judged[rule], rows
        sound(*(clone.ledger for clone in self.clones))


@pytest.fixture
def urls(fresh: Fresh) -> Iterator[list[str]]:
    """The URLs of three empty ledgers."""
    with ExitStack() as stack:
        yield [stack.enter_context(fresh()) for _ in range(3)]


@pytest.fixture(params=["copied", "apart"])
def history(request: pytest.FixtureRequest, urls: list[str], tmp_path: Path) -> Iterator[History]:
    """Two clones that share a rule; the second ledger is a copy of the first one or not."""
    history = History(tmp_path, urls[:2], is_copied=request.param == "copied")
    yield history
    for clone in history.clones:
        clone.ledger.close()


@pytest.fixture
def three(urls: list[str], tmp_path: Path) -> Iterator[History]:
    """Three clones whose ledgers are copies."""
    history = History(tmp_path, urls, is_copied=True)
    yield history
    for clone in history.clones:
        clone.ledger.close()


def last(clone: Clone) -> Bullet:
    return clone.ledger.bullets()[-1]


def test_wording_before_git_is_the_same_rule(history: History) -> None:
    one, two = history.clones
    history.add(two)
    one.take(two)
    history.judge(two, last(two))
    history.reword(one, last(one))
    history.check()


def test_second_name_of_a_rule_stays_taken(history: History) -> None:
    one, two = history.clones
    history.add(two)
    one.take(two)
    history.reword(one, last(one))
    for clone in (one, two, one):
        clone.pull_and_push()
    history.add(one)
    history.check()


@pytest.mark.parametrize("has_two_names", [False, True])
def test_published_rule_stays_removed(history: History, has_two_names: bool) -> None:
    """A removed rule was published, under its name or another one, beside its removal."""
    one, two = history.clones
    if has_two_names:
        history.add(one)
    history.add(two)
    two.pull_and_push()
    one.take(two)
    removed = last(two)
    history.remove(two, removed)
    two.pull_and_push()
    history.check()
    assert removed.text not in [
        bullet.text for clone in history.clones for bullet in clone.bullets()
    ]


def test_removal_outlives_the_commit_that_was_picked(history: History) -> None:
    one, two = history.clones
    for clone in history.clones:
        history.add(clone)
    history.remove(two, last(two))
    one.commit()
    two.cherry_pick(one)
    history.remove(two, last(two))
    one.pull_and_push()
    two.pull_and_push()
    assert len(two.bullets()) == 1


def test_rule_added_again_under_another_name_returns(history: History) -> None:
    one, two = history.clones
    history.add(one)
    rule = last(one)
    for clone in (one, two):
        clone.pull_and_push()
    history.remove(two, rule)
    two.pull_and_push()
    one.pull_and_push()
    history.add(one)
    one.change(Change("add", section=rule.section, text=rule.text))
    one.pull_and_push()
    two.pull_and_push()
    assert rule.text in [bullet.text for bullet in two.bullets()]


def test_rule_published_beside_its_rewording_is_one(history: History) -> None:
    one, two = history.clones
    history.add(two)
    two.pull_and_push()
    one.take(two)
    history.judge(one, last(one))
    history.reword(two, last(two))
    for clone in (two, one, two):
        clone.pull_and_push()
    assert one.bullets()[-1].helpful == 1
    texts = [{bullet.text for bullet in clone.bullets()} for clone in history.clones]
    assert len(texts[0]) == 2
    assert texts[0] == texts[1]
    history.check()


def test_session_of_both_clones_counts_after_joining(history: History) -> None:
    one, two = history.clones
    history.judge(one, last(one))
    seen = window(history.number, f"s{history.number}", keys=[history.number])
    two.ledger.append([seen, *reflected(f"r{history.number}", seen, (last(two).name, "helpful"))])
    history.judge(two, last(two))
    history.remove(two, last(two))
    two.pull_and_push()
    history.reword(one, last(one))
    one.start()
    history.reword(one, last(one))
    for clone in (one, two):
        clone.pull_and_push()
    history.check()
    assert [bullet.helpful for bullet in one.bullets()] == [2]


def test_undone_removal_brings_a_rule_back(three: History) -> None:
    _, two, other = three.clones
    three.reword(other, last(other))
    three.remove(two, last(two))
    other.take(two)
    two.pull_and_push()
    three.undo(two, two.ledger.rows()[0])
    other.pull_and_push()
    three.check()


@pytest.mark.slow
def test_rule_with_two_names_stays(three: History) -> None:
    _, two, other = three.clones
    three.remove(two, last(two))
    three.add(two, "ctx")
    other.take(two)
    three.reword(two, last(two))
    three.reword(other, last(other))
    three.undo(two, two.ledger.rows()[1])
    three.remove(two, last(two))
    three.check()


def test_name_given_again_gets_no_earlier_verdict(three: History) -> None:
    one, two, other = three.clones
    three.add(one)
    two.take(one)
    three.judge(two, last(two))
    two.pull_and_push()
    three.add(two)
    three.undo(two, two.ledger.rows()[1])
    three.add(other)
    three.check()


@pytest.mark.parametrize("seed", first_fast(2, range(60)))
def test_any_history_gives_one_playbook(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    urls = ["sqlite://"] * chance.choice([2, 3])
    history = History(tmp_path, urls, is_copied=chance.random() < 0.5)
    for _ in range(8 if seed < 2 else chance.randrange(5, 25)):
        history.play(chance)
    history.check()
