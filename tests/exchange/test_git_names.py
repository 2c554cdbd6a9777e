"""Machines whose rules got other names through git, and whose ledgers are then merged."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from reflector.changes.apply import apply_changes, bullet_event
from reflector.exchange.matching import Birth, TheirEvent, candidate_ids, id_beside
from reflector.exchange.merge import merge_ledger
from reflector.exchange.transfer import exported, load_ledger
from reflector.ledger.store import Ledger
from reflector.playbook.bullet import Bullet
from reflector.playbook.change import Change
from reflector.playbook.document import dump_shared, load
from reflector.playbook.versions import merge_versions
from reflector.playbook_files.edits import take_version
from reflector.playbook_files.kept_copies import content_digest
from tests.conftest import Fresh, first_fast
from tests.exchange.pairs import sound
from tests.ledger.events import add_bullet, added, reflected, window


@dataclass
class Repository:
    """A playbook.json in git, and the verdicts that were given for each rule's text."""

    root: Path
    pushed: Sequence[Bullet] = ()
    verdicts: Counter[str] = field(default_factory=Counter)


@dataclass
class Clone:
    """A machine with a clone of the repository; `pulled` is the version that it has from git."""

    ledger: Ledger
    repository: Repository
    pulled: Sequence[Bullet] = ()

    def add(self, text: str) -> None:
        """Add a rule with a verdict on it."""
        self.judge(add_bullet(self.ledger, "ctx", text).name)

    def judge(self, name: str) -> None:
        """Record a session in which a rule helped."""
        verdicts = self.repository.verdicts
        number = verdicts.total() + 1
        seen = window(number, f"s{number}", keys=[number])
        self.ledger.append([seen, *reflected(f"r{number}", seen, (name, "helpful"))])
        texts = {bullet.name: bullet.text for bullet in self.ledger.bullets()}
        verdicts[texts[name]] += 1

    def pull_and_push(self) -> None:
        """Let git merge the two versions, record the result, and publish it."""
        ours = self.ledger.bullets()
        merged = [bullet for bullet, _ in merge_versions(self.pulled, ours, self.repository.pushed)]
        content = dump_shared(merged)
        before = load(dump_shared(ours))
        digest = content_digest(content)
        take_version(self.ledger, self.repository.root, load(content), digest, before)
        self.pulled = self.repository.pushed = load(dump_shared(self.ledger.bullets())).bullets

    def take(self, other: "Clone") -> None:
        """Import the ledger of another machine."""
        lines = list(exported(other.ledger))
        merge_ledger(self.ledger, lambda: lines, rename=True)

    def counts(self) -> Counter[tuple[str, int]]:
        return Counter((bullet.text, bullet.helpful) for bullet in self.ledger.bullets())


@pytest.fixture(params=["copied", "apart"])
def clones(
    request: pytest.FixtureRequest, machines: list[Ledger], tmp_path: Path
) -> tuple[Clone, Clone]:
    """Two machines that share a rule; the second ledger is a copy of the first one or not."""
    repository = Repository(tmp_path)
    one, two = (Clone(ledger, repository) for ledger in machines)
    begin([one, two], is_copied=request.param == "copied")
    return one, two


def begin(clones: Sequence[Clone], *, is_copied: bool) -> None:
    first, *others = clones
    first.add("Run the linter")
    first.pull_and_push()
    for clone in others:
        if is_copied:
            load_ledger(clone.ledger, exported(first.ledger))
        clone.pull_and_push()


def exchange(clones: Sequence[Clone]) -> None:
    """Bring every change to every machine, by git and by imports."""
    for clone in [*clones, *clones]:
        clone.pull_and_push()
    for _ in range(2):
        for clone in clones:
            for other in clones:
                if other is not clone:
                    clone.take(other)


def assert_agreed(clones: Sequence[Clone]) -> None:
    wanted = Counter(clones[0].repository.verdicts.items())
    for clone in clones:
        assert clone.counts() == wanted
    sound(*(clone.ledger for clone in clones))


def test_renamed_rule_keeps_text_and_verdicts(clones: tuple[Clone, Clone]) -> None:
    one, two = clones
    one.add("Alpha")
    two.add("Bravo")
    exchange(clones)
    assert_agreed(clones)


@pytest.mark.parametrize("first", [0, 1], ids=["importer first", "owner first"])
def test_imported_rule_keeps_verdicts_after_pull(clones: tuple[Clone, Clone], first: int) -> None:
    one, two = clones
    one.add("Alpha")
    two.add("Bravo")
    one.take(two)
    clones[first].pull_and_push()
    exchange(clones)
    assert_agreed(clones)


def test_pulled_names_keep_verdicts_of_this_ledger(clones: tuple[Clone, Clone]) -> None:
    one, two = clones
    one.add("Alpha")
    two.add("Bravo")
    one.take(two)
    before = one.counts()
    two.pull_and_push()
    one.pull_and_push()
    assert one.counts() == before


def test_rules_that_exchange_names_keep_verdicts(clones: tuple[Clone, Clone]) -> None:
    one, two = clones
    one.add("Alpha")
    two.add("Bravo")
    lines = list(exported(one.ledger))
    one.take(two)
    merge_ledger(two.ledger, lambda: lines, rename=True)
    exchange(clones)
    assert_agreed(clones)


def test_renaming_is_known_as_the_birth_it_became() -> None:
    """A third ledger may bring a renaming as a birth before the renaming itself arrives."""
    birth = Birth("origin", 7, "recount", "hash")
    renaming = TheirEvent("bullet.recounted", birth, ("recount",))
    ids = candidate_ids(renaming, "recount", {}, "hash")
    assert id_beside("bullet.added", birth) in ids


@pytest.mark.parametrize("is_brought", [False, True], ids=["of this ledger", "imported"])
def test_import_keeps_text_of_a_left_name(one: Ledger, two: Ledger, *, is_brought: bool) -> None:
    (one if is_brought else two).append([added("pat-001", "Alpha")])
    lines = list(exported(one))
    merge_ledger(two, lambda: lines)
    apply_changes(two, [Change("revise", "pat-001", text="Bravo")], actor="human")
    removal = Change("remove", "pat-001")
    left = bullet_event(removal, "key", actor="git", reason="merged", into="pat-002")
    two.append([added("pat-002", "Bravo"), left])
    one.append([added("ctx-001", "Charlie")])
    new_lines = list(exported(one))
    assert merge_ledger(two, lambda: new_lines).restated == ()
    assert {row.name: row.text for row in two.rows()}["pat-001"] == "Bravo"


@pytest.mark.parametrize("seed", first_fast(2, range(20)))
def test_any_names_give_one_playbook(
    fresh_machines: list[Ledger], tmp_path: Path, seed: int
) -> None:
    """Texts, sections and counters agree after any order of additions, verdicts, pulls, imports."""
    chance = random.Random(seed)
    repository = Repository(tmp_path)
    clones = [Clone(ledger, repository) for ledger in fresh_machines]
    begin(clones, is_copied=chance.random() < 0.5)
    for number in range(12):
        clone, other = chance.sample(clones, 2)
        match chance.choice(["add", "judge", "pull", "take"]):
            case "add":
                clone.add(f"Rule {number}")
            case "judge":
                clone.judge(chance.choice(clone.ledger.bullets()).name)
            case "pull":
                clone.pull_and_push()
            case "take":
                clone.take(other)
    exchange(clones)
    assert_agreed(clones)


def test_session_of_two_machines_counts_after_renaming(
    fresh_machines: list[Ledger], tmp_path: Path
) -> None:
    repository = Repository(tmp_path)
    third, *both = clones = [Clone(ledger, repository) for ledger in fresh_machines]
    begin(clones, is_copied=True)
    both[0].add("Alpha")
    both[1].take(both[0])
    both[1].judge("ctx-002")
    seen = window(9, "s9", keys=[9])
    for clone in both:
        clone.ledger.append([seen, *reflected("r9", seen, ("ctx-002", "helpful"))])
    repository.verdicts["Alpha"] += 1
    third.add("Given the same name")
    exchange(clones)
    assert_agreed(clones)


@pytest.fixture
def fresh_machines(machines: list[Ledger], fresh: Fresh) -> Iterator[list[Ledger]]:
    """The empty ledgers of three machines."""
    with fresh() as url, Ledger.open(url) as third:
        yield [*machines, third]
