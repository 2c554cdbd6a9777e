"""`.ci/changed.py`: which tests `make check` runs for a file that changed."""

import runpy
from pathlib import Path

import pytest

CHANGED = runpy.run_path(str(Path(__file__).parents[1] / ".ci" / "changed.py"), run_name="changed")


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("migrations/views/bullets.sql", "tests/ledger/test_migrations.py"),
        ("migrations/schema.sqlite.sql", "tests/ledger/test_older_versions.py"),
        ("reflector/judges/reading/wordings.tsv", "tests/judges/rules"),
        ("prompts/turn.txt", "tests/judges/test_prompts.py"),
        ("docs/counting.md", "tests/test_docs.py"),
        ("CONTRIBUTING.md", "tests/test_contributing.py"),
        ("tests/schemas.py", "tests/cli/test_json.py"),
        ("tests/ledger/events.py", "tests/exchange/test_merge.py"),
        ("reflector/quality/verdict.py", "tests/quality/test_verdict.py"),
        ("reflector/embed/gated/log.py", "tests/embed/gated/test_writing.py"),
    ],
)
def test_a_changed_file_has_its_tests(
    file: str, test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    assert test in CHANGED["tests_near"](file)
