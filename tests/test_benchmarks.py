"""The benchmarks: nothing of a source decides how that source is judged, no answer is paid for
twice, and the figures of docs/install.md are those of the last full run.
"""

import json
import lzma
import platform
import re
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from benchmarks import bench_append, bench_ledger, bench_transcripts, made, verdict_price
from benchmarks.harness import Row, machine, table
from benchmarks.judgement import Case, interval, left_out, main, tables
from benchmarks.made_transcript import write_transcript
from benchmarks.readme_block import BEGIN, END, SHOWN, block, fill
from benchmarks.replay import Replay
from reflector.ledger.store import Ledger
from tests.judges.api import Api, sound
from tests.road.sessions import Session

ENDS = {
    "helpful": "Perfect, that works. Thanks!",
    "harmful": "No, the total is wrong, revert it.",
    "neutral": "Go home.",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Invented sessions of four sources: they test the mechanism, not the figures."""
    folder = tmp_path_factory.mktemp("judged")
    (folder / "transcripts").mkdir()
    points, labels = [], []
    for number, label in enumerate([*ENDS] * 4):
        bullet = f"pat-{number + 1:03d}"
        points.append(
            {
                "name": bullet,
                "text": ("Change how the cart adds up its total."),
                "helpful": 0,
                "harmful": 0,
            }
        )
        session = Session(f"s-{number}").cites(bullet, None).user(ENDS[label])
        written = session.agent("Fine.").write(folder / "one.jsonl").read_bytes()
        (folder / "transcripts" / f"{number}.jsonl.xz").write_bytes(lzma.compress(written))
        case = {
            "transcript": f"{number}.jsonl.xz",
            "group": f"g{number % 4}",
            "bullet": bullet,
            "label": label,
        }
        labels.append(
            {**case, "confidence": "high", "sampling": "random" if number == 5 else "chosen"}
        )
    sections = {"PATTERNS & APPROACHES": points}
    (folder / "playbook.json").write_text(json.dumps({"version": "1.0", "sections": sections}))
    (folder / "labels.jsonl").write_text("".join(json.dumps(label) + "\n" for label in labels))
    return folder


def test_source_is_judged_by_findings_of_the_others() -> None:
    right = [Case(source, "chosen", "helpful", "helpful", found=("mended",)) for source in "ab"]
    wrong = Case("c", "chosen", "neutral", "helpful", found=("mended",))
    alone = Case("d", "chosen", "harmful", "harmful", found=("refused",))
    said = [one.said for one in left_out([*right, wrong, alone])]
    assert said == ["neutral", "neutral", "helpful", "neutral"]


def test_chosen_and_random_points_are_told_apart(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder)]) == 0
    printed = capsys.readouterr().out
    for title in (
        "all (12)",
        "chosen points (11)",
        "random points (1)",
        "all, each source left out in turn (12)",
    ):
        assert f"| {title} | harmful |" in printed
    assert "| all (12) | helpful | 4/4 = 1.00 (0.51–1.00) | 4/4 = 1.00 (0.51–1.00) |" in printed
    assert "| g1 | 1 | 1 | 1 | 1, 1 | 1, 1 |" in printed
    assert "| faulty | harmful | 4/4 = 1.00 (0.51–1.00) | 4 |" in printed


def test_model_is_asked_once_and_then_replayed(
    folder: Path,
    tmp_path: Path,
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in api.environ(XDG_CONFIG_HOME=str(tmp_path)).items():
        monkeypatch.setenv(name, value)
    answers = tmp_path / "answers.jsonl"
    asks = [str(folder), "--limit", "2", "--answers", str(answers)]
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert main([*asks, "--judge", "anthropic"]) == 1
    assert (api.asked, answers.exists()) == ([], False)
    assert "2 questions: about" in capsys.readouterr().out
    api.does = [
        sound(
            json.dumps(
                {
                    "bullet_tags": [
                        {"name": name, "tag": "helpful", "turn": 3, "quote": quote, "sure": "sure"}
                    ]
                }
            )
        )
        for name, quote in (("pat-001", "Perfect, that works."), ("pat-002", "what nobody said"))
    ]
    for backend in ("anthropic", "anthropic", "fixtures"):
        assert main([*asks, "--judge", backend, "--yes"]) == 0
        printed = capsys.readouterr().out
        assert "| all (2) | helpful | 1/1 = 1.00 (0.21–1.00) |" in printed
        assert "Verdicts without evidence: 1 " in printed
        assert len(api.asked) == 2


def test_part_without_a_step_is_not_sent(folder: Path) -> None:
    questions = list(verdict_price.measured([folder], None, 32_000))
    assert len(questions) == 12
    assert not any(question.early for question in questions)


def test_resumed_sessions_are_asked_about_twice() -> None:
    sent = verdict_price.Question(tokens=300, constant=100, answer=10, early=200, verdicts=1)
    unsent = replace(sent, early=0)
    found = verdict_price.total([sent, unsent], resumed=True)
    assert (found.questions, found.tokens, found.cached, found.verdicts) == (3, 800, 300, 2)


@pytest.mark.parametrize(("cited_first", "verdicts"), [(True, 20), (False, 10)])
def test_day_spends_its_questions(cited_first: bool, verdicts: int) -> None:
    citing = [verdict_price.Question(300, 100, 10, 0, 1)] * 20
    other = [verdict_price.Question(200, 100, 10, 0, 0)]
    found = verdict_price.day(citing, other, cited_first=cited_first)
    assert found.questions == 20
    assert found.verdicts == pytest.approx(verdicts, abs=0.5)


def test_each_word_of_a_model_has_its_share() -> None:
    cases = [
        Case("a", "chosen", "helpful", said, word)
        for said in ("helpful", "harmful")
        for word in ("sure", "likely")
    ]
    cases.append(Case("a", "chosen", "harmful", "harmful", "sure"))
    assert [*tables(cases, by_rules=False)][-1] == '\njudge_measured = "sure=66 likely=50"'


def test_a_folder_without_labels_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "has no labels.jsonl" in capsys.readouterr().err


def test_a_ledger_answers_what_its_benchmark_asks(tmp_path: Path) -> None:
    with Ledger.open_file(tmp_path / "ledger.db") as ledger:
        ledger.append(
            [made.playbook(), *(event for number in range(120) for event in made.session(number))]
        )
        bench_ledger._look_up(ledger)
        bench_ledger._counted(ledger)
        counted = bench_ledger._core_fold(ledger)
        assert counted[made.MARKED, "helpful"]


@pytest.mark.slow  # a process for each project and each session
def test_sessions_end_in_one_project_after_another(tmp_path: Path) -> None:
    ends = bench_transcripts._Ends(tmp_path)
    write_transcript(tmp_path / "session.jsonl", 1 << 18)
    for template in (ends.uncited, ends.cited, ends.uncited):
        assert ends._end(tmp_path / "session.jsonl", template) > 0


def test_an_interval_is_wide_where_little_was_seen() -> None:
    assert interval(0, 0) == "-"
    assert interval(9, 10) == "9/10 = 0.90 (0.60–0.98)"


ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
MADE = "# Measured\n\nMeasured with `x` on 2 cores.\n\n" + table(
    [
        Row(SHOWN[0], 0.010, 0.012, 1.2, 1.5, "a floor"),
        Row(SHOWN[1], 0.010, 0.030, 3.0, 2.0),
        Row("asking", 0.010, 0.5, 50.0),
    ]
)


def test_install_shows_the_last_full_run() -> None:
    readme = (ROOT / "docs" / "install.md").read_text("utf-8")
    shown = readme.partition(BEGIN)[2].partition(END)[0]
    assert shown == block(RESULTS.read_text("utf-8") if RESULTS.exists() else "")


def test_misses_page_lists_exactly_the_missed_goals() -> None:
    rows = [
        line.strip("|").split(" | ")
        for line in RESULTS.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    missed = {row[0].strip() for row in rows if row[5].strip() == "**missed**"}
    told = (RESULTS.parent / "MISSES.md").read_text("utf-8").splitlines()
    assert {line.removeprefix("- ") for line in told if line.startswith("- ")} == missed


def test_table_replaces_only_the_part_in_readme(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}old\n{END}after\n", "utf-8")
    fill(readme, MADE)
    shown = readme.read_text("utf-8")
    assert shown == f"before\n{BEGIN}{block(MADE)}{END}after\n"
    assert f"| {SHOWN[0]} | 10 ms | 12 ms | 1.20 × | ≤ 1.5 × |\n" in shown
    assert f"| {SHOWN[1]} | 10 ms | 30 ms | 3.00 × | ≤ 2 × **missed** |\n" in shown
    assert "asking" not in shown
    assert "Measured with `x` on 2 cores." in shown
    readme.write_text("nothing\n", "utf-8")
    with pytest.raises(ValueError, match="lacks the lines"):
        fill(readme, MADE)


def test_published_figures_name_no_folder_or_machine() -> None:
    published = machine() + (RESULTS.read_text("utf-8") if RESULTS.exists() else "")
    assert re.search(r"(?<![\w.])/\w+/", published) is None
    assert f" {platform.node()} " not in published


def test_the_floor_of_an_append_is_one_transaction(tmp_path: Path) -> None:
    file, numbers = tmp_path / "ledger.db", count()
    with Ledger.open_file(file) as ledger:
        ledger.append([made.playbook(), *bench_append.sessions(numbers, 2)])
    replay = Replay(file)
    statements: list[str] = []
    replay.cursor.connection.set_trace_callback(statements.append)
    replay.ratio([([], [bench_append.sessions(numbers, 2)]) for _ in range(2)])
    replay.close()
    ends = [word for word in statements if word.startswith(("BEGIN", "COMMIT"))]
    assert ends == ["BEGIN IMMEDIATE", "COMMIT"] * 2
    assert (statements[0], statements[-1]) == (ends[0], ends[-1])
