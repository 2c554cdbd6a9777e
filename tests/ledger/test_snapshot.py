"""A question sees one state of its ledger, whatever others append meanwhile."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reflector.audit import blame, doubles
from reflector.events import event as ev
from reflector.ledger import usage
from reflector.ledger.as_of import Past
from reflector.ledger.store import Ledger
from reflector.proof.verify import verify
from tests.ledger.events import about, added, window


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Ledger, Ledger]]:
    """One ledger, opened twice."""
    path = tmp_path / "ledger.db"
    with Ledger.open_file(path) as one, Ledger.open_file(path) as other:
        one.append([added("pat-001")])
        yield one, other


def test_snapshot_shows_no_later_event(two: tuple[Ledger, Ledger]) -> None:
    one, other = two
    with one.snapshot():
        assert len(one.rows()) == 1
        other.append([added("pat-002", "later")])
        assert (len(one.rows()), one.head().position) == (1, 1)
        with one.snapshot():
            assert len(list(one.events())) == 1
    assert (len(one.rows()), one.head().position) == (2, 2)


@pytest.mark.parametrize("module", [doubles, blame])
def test_a_question_reports_no_corruption_during_an_add(
    two: tuple[Ledger, Ledger], monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    one, other = two

    def past(ledger: Ledger, position: int | None = None) -> Past:
        found = Past(ledger, position)
        other.append([added("pat-002", "later")])
        return found

    monkeypatch.setattr(module, "Past", past)
    if module is doubles:
        assert [total.name for total in doubles.find_double_counts(one).totals] == ["pat-001"]
    else:
        with pytest.raises(blame.UnknownBullet):
            blame.blame_bullet(one, "pat-002")


def test_counts_from_before_a_redaction_are_not_kept(
    two: tuple[Ledger, Ledger], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one, other = two
    seen = window(1)
    data = {
        "backend": "rules",
        "model": "a model with a secret name",
        "mode": "m",
        "answer": "SECRET",
    }
    answered = replace(about(ev.REFLECTION_ANSWERED, seen, "x", **data), reflection_id="r1")
    one.append(
        [
            seen,
            answered,
            *(added(f"oth-{number:03d}", f"text {number}") for number in range(1, 1100)),
        ]
    )
    keep = usage._write_row

    def redacted_first(*arguments: object) -> None:
        other.redact([answered.event_id], reason="a name", actor="human")
        keep(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(usage, "_write_row", redacted_first)
    usage.answers_at(one)
    assert list(verify(one)) == []
    assert b"secret name" not in b"".join(path.read_bytes() for path in tmp_path.glob("ledger.db*"))
