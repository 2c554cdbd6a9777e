"""Keep pairs of ledgers that parted from one: `python .ci/keep_parted.py VERSION [CASE…]`.

VERSION is one of `LANDED` in tests/exchange/older.py, whose code makes them: one ledger, copied to
a second machine, and then changes on both machines at the same positions. Up to c4b5c401 two such
changes got one event id. Without a CASE only the pair with every change is kept.
tests/exchange/test_parted.py merges each pair both ways.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.exchange.older import LANDED, SESSION, WHY, Machine, Step, code_of

_KEPT = Path(__file__).parents[1] / "tests" / "exchange" / "parted"

_ADDED: list[Step] = [
    ("add", "pat", "Run the tests"),
    ("add", "pat", "Run every test"),
    ("add", "mis", "No mocks"),
]
_JUDGED: list[Step] = [*_ADDED, ("ingest", "session.jsonl")]

#: By the name of the pair: the common history, and the changes on each machine.
CASES: dict[str, tuple[list[Step], list[Step], list[Step]]] = {
    "both-revise": (
        _ADDED,
        [("edit", "pat-001", "Text of A")],
        [("edit", "pat-001", "Text of B")],
    ),
    "both-add-other-texts": (
        _ADDED,
        [("add", "pat", "Added by A")],
        [("add", "pat", "Added by B")],
    ),
    "both-add-one-text": (
        _ADDED,
        [("add", "pat", "Added by both")],
        [("add", "pat", "Added by both")],
    ),
    "both-remove": (
        _ADDED,
        [("remove", "pat-001", "--why", "A")],
        [("remove", "pat-001", "--why", "B")],
    ),
    "both-add-and-remove": (
        _ADDED,
        [("add", "pat", "Added by A"), ("remove", "pat-003", "--why", "A")],
        [("add", "pat", "Added by B"), ("remove", "pat-003", "--why", "B")],
    ),
    "remove-and-revise": (_ADDED, [("remove", "pat-001")], [("edit", "pat-001", "Text of B")]),
    "revise-and-remove": (_ADDED, [("edit", "pat-001", "Text of A")], [("remove", "pat-001")]),
    "both-judge": (
        _JUDGED,
        [("review", "pat-001", "helpful", "--session", SESSION)],
        [("review", "pat-001", "harmful", "--session", SESSION)],
    ),
    "both-judge-two-bullets": (
        _JUDGED,
        [
            ("review", "pat-001", "helpful", "--session", SESSION),
            ("review", "mis-001", "harmful", "--session", SESSION),
        ],
        [
            ("review", "mis-001", "harmful", "--session", SESSION),
            ("review", "pat-001", "helpful", "--session", SESSION),
        ],
    ),
    "both-redact": (
        [*_ADDED, ("add", "ctx", "Call Jane Doe")],
        [("redact", "--where", "Jane Doe", *WHY, "--yes")],
        [("redact", "--where", "Jane Doe", *WHY, "--yes")],
    ),
    "both-revise-and-redact": (
        _ADDED,
        [
            ("edit", "pat-001", "Call Jane Doe of A"),
            ("redact", "--where", "Jane Doe", *WHY, "--yes"),
        ],
        [
            ("edit", "pat-001", "Call Jane Doe of B"),
            ("redact", "--where", "Jane Doe", *WHY, "--yes"),
        ],
    ),
    "both-adopt": (
        _JUDGED,
        [("ledger", "policy", "once_per_session")],
        [("ledger", "policy", "once_per_reflection")],
    ),
    "undo-on-one-side": (
        _ADDED,
        [("edit", "pat-001", "Text of A"), ("undo",)],
        [("edit", "pat-001", "Text of B")],
    ),
    "undo-on-both-sides": (
        _ADDED,
        [("edit", "pat-001", "Text of A"), ("undo",)],
        [("edit", "pat-001", "Text of B"), ("undo",)],
    ),
    "both-merge": (
        _ADDED,
        [("merge", "pat-001", "pat-002", "--text", "Merged by A")],
        [("merge", "pat-001", "pat-002", "--text", "Merged by B")],
    ),
    "both-merge-others": (
        _ADDED,
        [("merge", "pat-001", "pat-002", "--text", "Merged by A")],
        [("merge", "pat-002", "mis-001", "--text", "Merged by B")],
    ),
    "merge-and-revise": (
        _ADDED,
        [("merge", "pat-001", "pat-002", "--text", "Merged by A")],
        [("edit", "pat-001", "Text of B")],
    ),
    "every-change": (
        [*_JUDGED, ("add", "ctx", "Call Jane Doe")],
        [
            ("edit", "pat-001", "Text of A"),
            ("add", "pat", "Added by A"),
            ("add", "oth", "Added by both"),
            ("remove", "mis-001"),
            ("review", "pat-001", "helpful", "--session", SESSION),
            ("ledger", "policy", "once_per_session"),
            ("redact", "--where", "Jane Doe", *WHY, "--yes"),
            ("add", "pref", "Only on A"),
        ],
        [
            ("edit", "pat-001", "Text of B"),
            ("add", "pat", "Added by B"),
            ("add", "oth", "Added by both"),
            ("remove", "mis-001"),
            ("review", "pat-001", "harmful", "--session", SESSION),
            ("ledger", "policy", "once_per_reflection"),
            ("redact", "--where", "Jane Doe", *WHY, "--yes"),
            ("add", "pref", "Only on B"),
        ],
    ),
}


def keep(code: Path, version: str, case: str) -> None:
    """Make one pair. One with every change is kept as the ledgers' files, any other as exports."""
    before, ours, theirs = CASES[case]
    with TemporaryDirectory() as folder:
        a = Machine.new(code, Path(folder, "a"))
        for step in before:
            a.does(step)
        b = a.cloned(Path(folder, "b"))
        for machine, steps in ((a, ours), (b, theirs)):
            for step in steps:
                machine.does(step)
            stem = f"{version}-{case}-{machine.folder.name}"
            if case == "every-change":
                machine.keep_file(_KEPT / f"{stem}.db.xz")
            else:
                machine.keep_export(_KEPT / f"{stem}.ndjson.xz")


if __name__ == "__main__":
    version, *cases = sys.argv[1:]
    with TemporaryDirectory() as folder:
        code = code_of(LANDED[version], Path(folder))
        for case in cases or ["every-change"]:
            print(f"{version} {case}")
            keep(code, version, case)
