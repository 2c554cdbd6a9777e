"""`.ci/changed.py`: which tests `make check` runs, in which order, and how it ends."""

import runpy
import subprocess
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "changed.py"
CHANGED = runpy.run_path(str(SCRIPT), run_name="changed")
#: Runs the script with other seconds, because a test that waits for a minute is no use. Only the
#: seconds that end a test are short, so that a busy machine does not change a result.
HURRIED = """
import runpy, sys
script = runpy.run_path(sys.argv[1], run_name="changed")
script["_SECONDS"].update(changed=float(sys.argv[2]), near=float(sys.argv[3]))
script["_SECONDS"].update(gates=0, rest=float("inf"))
sys.exit(script["main"]())
"""
PASSES = "def test_it(): pass\n"
WAITS = "import time\ndef test_first(): time.sleep(0.3)\ndef test_second(): pass\n"

Check = Callable[[float, float], subprocess.CompletedProcess[str]]


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("migrations/views/bullets.sql", "tests/ledger/test_migrations.py"),
        ("migrations/views/bullets.sql", "tests/audit/test_views.py"),
        ("migrations/schema.sqlite.sql", "tests/ledger/test_older_versions.py"),
        ("reflector/judges/reading/wordings.tsv", "tests/judges/rules/test_rules.py"),
        ("prompts/turn.txt", "tests/judges/test_prompts.py"),
        ("reflector/report/templates/page.css", "tests/report/test_page.py"),
        ("docs/counting.md", "tests/test_docs.py"),
        ("docs/counting.md", "tests/test_prose.py"),
        ("reflector/cli/figures.py", "tests/cli/test_measures.py"),
        ("reflector/cli/figures.py", "tests/cli/test_json.py"),
        ("reflector/ledger/tables.py", "tests/audit/test_views.py"),
        ("reflector/judges/backends/anthropic.py", "tests/judges/test_fixtures.py"),
        ("reflector/judges/backends/anthropic.py", "tests/judges/test_http_api.py"),
        ("reflector/judges/backends/anthropic.py", "tests/judges/test_consent.py"),
        ("reflector/judges/backends/anthropic.py", "tests/cli/test_judges.py"),
        ("reflector/judges/backends/anthropic.py", "tests/judges/test_anthropic.py"),
        ("reflector/transcripts/agents/pi.py", "tests/transcripts/test_formats.py"),
        ("CONTRIBUTING.md", "tests/test_contributing.py"),
        ("tests/schemas.py", "tests/cli/test_json.py"),
        ("tests/ledger/events.py", "tests/exchange/test_merge.py"),
        ("tests/ledger/sql.py", "tests/ledger/test_forged.py"),
        ("tests/cli/conftest.py", "tests/cli/test_mcp.py"),
        ("tests/judges/rules/outcomes.tsv", "tests/judges/rules/test_rules.py"),
        ("reflector/quality/verdict.py", "tests/quality/test_verdict.py"),
        ("reflector/embed/gated/log.py", "tests/embed/gated/test_writing.py"),
    ],
)
@pytest.mark.slow
def test_a_changed_file_has_its_tests(
    file: str, test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SCRIPT.parents[1])
    assert test in CHANGED["tests_of"](file)[0]


@pytest.mark.parametrize(
    ("file", "are_near"),
    [("reflector/quality/verdict.py", True), ("tests/conftest.py", False)],
)
def test_many_importers_are_not_near(
    file: str, are_near: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SCRIPT.parents[1])
    assert CHANGED["tests_of"](file)[1] is are_near


def test_changed_then_near_then_gates_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SCRIPT.parents[1])
    groups = CHANGED["groups"](["tests/text/test_words.py", "docs/counting.md"])
    assert [(group.title, group.must) for group in groups[:4]] == [
        ("changed", True),
        ("near", True),
        ("gates", False),
        ("rest", False),
    ]
    assert groups[1].tests == [
        "tests/test_docs.py",
        "tests/test_contributing.py",
        "tests/test_prose.py",
    ]
    assert [str(Path(group.tests[0]).parent) for group in groups[3:5]] == ["tests", "tests/text"]
    every = [test for group in groups for test in group.tests]
    assert sorted(every) == sorted(map(str, Path("tests").rglob("test_*.py")))


@pytest.mark.parametrize(("must", "uses"), [(True, True), (False, False)])
@pytest.mark.slow
def test_only_tests_of_changes_use_postgresql(
    must: bool, uses: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("import pytest\n@pytest.mark.postgres\ndef test_it(): pass\n")
    CHANGED["run"](CHANGED["Group"]("near", [str(test)], must), inf)
    assert ("1 passed" in capsys.readouterr().out) is uses


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """A repository with one committed module, its test and another test; a check of it."""
    for folder in ("tests/far", "reflector"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tests/mutations.py").write_text("MUTATIONS = []\n")
    (tmp_path / "reflector/thing.py").write_text("")
    for test in ("test_thing.py", "test_other.py", "far/test_far.py"):
        (tmp_path / "tests" / test).write_text(PASSES)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    for arguments in (["init", "-qb", "main"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *arguments], check=True)

    def run(changed: float, near: float) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", HURRIED, str(SCRIPT), str(changed), str(near)]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
        )

    return run


@pytest.mark.slow
def test_new_test_runs_before_changed_one(check: Check, tmp_path: Path) -> None:
    (tmp_path / "tests/test_other.py").write_text(PASSES + "\n")
    (tmp_path / "tests/test_young.py").write_text("def test_it(): assert False\n")
    ran = check(inf, inf)
    assert "changed: tests/test_young.py, tests/test_other.py" in ran.stdout
    assert ran.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("changed", ["tests/test_thing.py", "reflector/thing.py"])
def test_stopping_before_the_near_tests_exits_3(check: Check, tmp_path: Path, changed: str) -> None:
    (tmp_path / "tests/test_thing.py").write_text(WAITS)
    if changed.startswith("reflector"):  # its test is committed, so it is near and not changed
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
        subprocess.run([*git, "commit", "-qam", "x"], check=True)
        (tmp_path / changed).write_text("\n")
    ran = check(0.2, 0.2)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    assert "Not run, for lack of time: tests/test_thing.py\n" in ran.stdout


@pytest.mark.slow
def test_all_run_tests_exit_0(check: Check, tmp_path: Path) -> None:
    (tmp_path / "reflector/thing.py").write_text("\n")
    ran = check(inf, inf)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "near: tests/test_thing.py\n" in ran.stdout
    assert "rest: tests/far\n" in ran.stdout
    assert "Not run" not in ran.stdout
