"""Recall finds what was learned by its words, and nothing where nothing fits."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import reflector
from reflector.embed.lessons.recall import Document, recall, search
from reflector.embed.lessons.recording import observe_outcome, record_lesson
from reflector.events import event as ev
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from tests.ledger.events import added, changed
from tests.road.agent import Agent

TEXTS = (
    "Add auth middleware to every new endpoint",
    "Run the tests before you commit",
    "Retry flaky network tests once",
    "The cart is in cart.py",
)
DOCUMENTS = [Document("bullet", f"pat-{n:03}", text, text) for n, text in enumerate(TEXTS, start=1)]


def names(query: str, **more: object) -> list[str]:
    return [one.document.id for one in search(DOCUMENTS, query, **more)]  # type: ignore[arg-type]


def test_the_text_with_the_rarer_words_comes_first() -> None:
    assert names("flaky tests") == ["pat-003", "pat-002"]
    assert names("testing", k=1) == ["pat-003"]  # by its stem
    assert names("AUTH endpoints?") == ["pat-001"]


@pytest.mark.parametrize(
    "query",
    ["kubernetes ingress", "", "???", "\0", "zebra giraffe the elephant", "a" * 100_000],
    ids=lambda query: ascii(query[:20]),
)
def test_query_that_fits_nothing_has_no_answer(query: str) -> None:
    assert names(query) == []


def test_nothing_is_found_in_nothing() -> None:
    assert search([], "tests") == []
    assert names("tests", k=0) == []


@pytest.mark.parametrize(
    "query",
    ['"', "tests OR", "NEAR(tests", "body:tests", "tests*", "-tests", "tests'; DROP TABLE x"],
)
def test_a_query_is_words_and_no_language(query: str) -> None:
    assert set(names(query)) <= {"pat-002", "pat-003"}


@given(st.text(max_size=50))
def test_any_query_has_the_same_answer_twice(query: str) -> None:
    assert names(query) == names(query)


@pytest.mark.parametrize(
    ("query", "cosine"), [("run the TESTS before you commit!", 1.0), ("run the tests", None)]
)
def test_text_equal_to_the_query_is_marked(query: str, cosine: float | None) -> None:
    found = search(DOCUMENTS, query)[0]
    assert (found.document.id, found.cosine) == ("pat-002", cosine)


def test_recall_finds_bullets_and_lessons_of_a_moment(ledger: Ledger) -> None:
    ledger.append([added("pat-001", "Write migrations by hand")])
    id = record_lesson(
        ledger,
        "mistake",
        "Always add middleware",
        actor="engine",
        task="api",
        mistake="forgot authentication",
    )
    assert [one.document.id for one in recall("authentication", of=ledger)] == [id]
    assert [one.document.kind for one in recall("migrations", of=ledger)] == ["bullet"]
    assert recall("authentication", of=Past(ledger, 1)) == []
    for _ in range(3):
        observe_outcome(ledger, id, "failure", source="api")
    assert recall("authentication", of=ledger) == []  # archived
    ledger.append([changed(ev.BULLET_REMOVED, "pat-001", 1, reason="deleted", into=None)])
    assert recall("migrations", of=ledger) == []
    assert recall("migrations", of=Past(ledger, 2)) != []


def test_program_recalls_from_the_working_folders_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent.in_folder(tmp_path)
    monkeypatch.chdir(agent.project)
    assert reflector.recall("the failing test") == []
    assert not agent.ledger.exists()
    agent.call("list")
    assert [one.document.id for one in reflector.recall("the failing test", 1)] == ["pat-001"]


def test_the_command_prints_what_fits(agent: Agent) -> None:
    with agent.open_ledger() as ledger:
        id = record_lesson(ledger, "mistake", "Add auth middleware", actor="engine", task="api")
    assert id[:8] in agent.call("lessons", "recall", "auth").out
    (found,) = agent.json("lessons", "recall", "auth", "-n", "3")
    assert (found["kind"], found["id"], found["words"]) == ("mistake", id, 1.0)
    assert agent.json("lessons", "recall", "kubernetes") == []
    assert "Nothing matches" in agent.call("lessons", "recall", "kubernetes").err


_UNSPACED = {
    "合并分支前必须更新依赖": ("更新依赖", "依赖", "怎么更新依赖"),
    "マージ前に依存関係を更新する": ("依存関係", "依存関係の更新", "マージ"),
    "อัปเดตแพ็กเกจก่อนรวมสาขา": ("แพ็กเกจ", "รวมสาขา", "อัปเดตแพ็กเกจ"),
    "ອັບເດດແພັກເກດກ່ອນລວມສາຂາ": ("ແພັກເກດ", "ລວມສາຂາ", "ອັບເດດແພັກເກດ"),
    "ធ្វើបច្ចុប្បន្នភាពកញ្ចប់មុនពេលបញ្ចូលសាខា": ("កញ្ចប់", "បញ្ចូលសាខា", "បច្ចុប្បន្នភាពកញ្ចប់"),
}


@pytest.mark.parametrize("text", _UNSPACED)
def test_text_without_spaces_is_found(text: str) -> None:
    others = [*TEXTS, *_UNSPACED]
    documents = [Document("bullet", one, one, one) for one in others]
    for query in _UNSPACED[text]:
        assert search(documents, query)[0].document.id == text
    assert search(documents, text)[0].cosine == 1.0


@pytest.mark.parametrize("query", ["缓存策略", "キャッシュ", "ฐานข้อมูล", "ຖານຂໍ້ມູນ", "មូលដ្ឋានទិន្នន័យ"])
def test_other_words_without_spaces_find_nothing(query: str) -> None:
    assert search([Document("bullet", one, one, one) for one in _UNSPACED], query) == []
