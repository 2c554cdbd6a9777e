"""Rules that only the course of a session shows."""

import pytest

from reflector.counts.rules import Marks, PartCounts, RuleSet, rule_of, rule_set
from reflector.transcripts.message import Message, ToolResult
from tests.counts.messages import calls, edits, printed, runs, says, writes, you


def _bits(rule: str, *messages: Message, is_whole: bool = True) -> tuple[str, Marks]:
    made = rule_of(rule)
    rules = rule_set([made])
    marks = rules.count(messages, is_whole=is_whole).marks.get(made.key, Marks())
    return _verdict(rules, made.key, marks), marks


def _verdict(rules: RuleSet, key: int, marks: Marks) -> str:
    acts = marks.run | marks.written
    counting = rules.rules[key]
    if acts & counting.negated:
        return "broken"
    return "followed" if acts & counting.named else ""


def _ends(code: int, text: str = "") -> Message:
    """The result of a command with an exit code."""
    result = ToolResult("1", f"Exit code {code}\n{text}" if code else text, is_error=code != 0)
    return Message(0, "", "user", "tool", "", "", "", results=(result,))


def _on(branch: str, command: str) -> Message:
    return runs(command)._replace(branch=branch, folder="/home/me/app")


READ = calls("Read", file_path="/app/store.py")
EDIT = edits("b", "a")


@pytest.mark.parametrize(
    "rule",
    [
        "Read a file before you edit it.",
        "Always read the whole file before editing.",
        "You MUST read every file you modify in full before editing.",
        "Read files fully before making changes to them.",
        "Never edit a file without reading it first.",
        "Do not modify files you haven't read.",
        "Before you edit a file, read it first.",
    ],
)
@pytest.mark.parametrize(
    ("messages", "verdict"),
    [
        ([EDIT], "broken"),
        ([calls("Read", file_path="/app/other.py"), EDIT], "broken"),
        ([EDIT, READ], "broken"),
        ([READ, EDIT], "followed"),
        ([writes("/app/store.py"), EDIT], "followed"),
        ([runs("sed -n 1,9p store.py"), EDIT], "followed"),
        ([runs("wc -l store.py"), EDIT], ""),
        ([you("Look at @store.py."), EDIT], ""),
        ([runs("wc [id].ts"), edits("b", "a", file="/app/[id].ts")], ""),
        ([runs("cat *.py"), EDIT], ""),
        ([runs("git diff"), EDIT], ""),
        ([calls("mcp__files__get", id="7"), EDIT], ""),
        ([edits("b", "a", file="/app/CLAUDE.md")], ""),
        ([writes("/app/store.py")], ""),
        ([EDIT, _ends(1, "File has not been read yet.")], ""),
    ],
)
def test_edit_of_unread_file_is_broken(rule: str, messages: list[Message], verdict: str) -> None:
    assert _bits(rule, *messages)[0] == verdict


@pytest.mark.parametrize(
    "rule",
    [
        "Read CONTRIBUTING.md before you edit.",
        "Read the docs before you change files.",
        "Read a file before you edit it, unless it is small.",
        "For refactorings: read a file before you edit it.",
    ],
)
def test_other_reading_is_not_asked_for(rule: str) -> None:
    assert _bits(rule, EDIT)[0] == ""


def test_cut_transcript_shows_no_unread_file() -> None:
    rule = "Read a file before you edit it."
    assert _bits(rule, EDIT, is_whole=False)[0] == ""
    made = rule_of(rule)
    later = PartCounts(is_first=False)
    assert [*rule_set([made]).passing([EDIT], later)]
    assert not later.marks.get(made.key, Marks()).written


ONLY = edits("it.only(a)", "it(a)", file="/app/a.test.ts")
BACK = edits("it(a)", "it.only(a)", file="/app/a.test.ts")


@pytest.mark.parametrize(
    ("rule", "messages", "verdict"),
    [
        ("Never leave `it.only` in tests.", [ONLY], "broken"),
        ("Never leave `it.only` in tests.", [ONLY, ONLY, BACK], "broken"),
        ("Never leave `it.only` in tests.", [ONLY, BACK], ""),
        ("Never leave `it.only` in tests.", [BACK, ONLY], "broken"),
        ("Never leave `it.only` in tests.", [ONLY, runs("sed -i s/x/y/ a.test.ts")], ""),
        ("Never leave `it.only` in tests.", [ONLY, runs("git checkout .")], ""),
        ("Never leave `it.only` in tests.", [ONLY, runs("git checkout -b a")], "broken"),
        ("Never leave `it.only` in tests.", [ONLY, writes("/app/a.test.ts")], ""),
        ("Never leave `it.only` in tests.", [edits("it.only(", file="/app/a.ts")], ""),
        ("Don't commit `console.log`.", [edits("console.log(1)", file="/a.ts")], "broken"),
        ("Don't commit `console.log`.", [edits("console.log(1)", file="/tmp/a.ts")], ""),
        ("Don't commit `console.log`.", [runs("rg console.log; node -e 'console.log(1)'")], ""),
        ("Remove all `it.only` calls before you commit.", [ONLY], "broken"),
        ("Remove all `it.only` calls before you commit.", [ONLY, BACK], ""),
        ("Never write `it.only`.", [ONLY, BACK], "broken"),
        ("Never commit `debug.log`.", [edits("debug.log", file="/a/b.ts")], ""),
        ("Never commit `node_modules`.", [edits("node_modules", file="/a/b.js")], ""),
    ],
)
def test_code_that_is_taken_back_is_not_left(
    rule: str, messages: list[Message], verdict: str
) -> None:
    assert _bits(rule, *messages)[0] == verdict


PASS_FIRST = "`pnpm lint` must pass before you commit."
COMMIT = runs("git commit -m x")
LINT = runs("pnpm lint")


@pytest.mark.parametrize(
    "rule",
    [
        PASS_FIRST,
        "Commit only if `pnpm lint` passes.",
        "Only commit when `pnpm lint` is green.",
        "Never commit unless `pnpm lint` passes.",
        "Make sure that `pnpm lint` passes before committing.",
        "Don't commit if `pnpm lint` fails.",
        "Before committing, make sure `pnpm lint` passes.",
        "`pnpm lint` and `pnpm test` must pass before you commit.",
    ],
)
def test_commit_after_failed_command_is_broken(rule: str) -> None:
    assert _bits(rule, LINT, _ends(1), COMMIT)[0] == "broken"
    assert _bits(rule, LINT, _ends(0), COMMIT)[0] != "broken"


@pytest.mark.parametrize(
    ("messages", "is_broken"),
    [
        ([runs("cd app && pnpm lint 2>&1"), _ends(2), COMMIT], True),
        ([LINT, _ends(1), LINT, _ends(0), COMMIT], False),
        ([LINT, _ends(1), runs("npx eslint --fix . && pnpm lint"), _ends(0), COMMIT], False),
        ([LINT, _ends(1), runs("npx eslint ."), _ends(0), COMMIT], False),
        ([LINT, _ends(1), runs("pnpm lint && git commit -m x"), _ends(0)], False),
        ([LINT, _ends(1), runs("pnpm lint; git commit -m x"), _ends(0)], False),
        ([LINT, _ends(1), COMMIT, _ends(1)], False),
        ([LINT, _ends(1), runs("git push")], False),
        ([LINT, COMMIT], False),
        ([LINT, printed("error"), COMMIT], False),
        ([runs("pnpm lint | tail"), _ends(1), COMMIT], False),
        ([runs("pnpm lint && make types"), _ends(1), COMMIT], False),
        ([runs("make types && pnpm lint"), _ends(1), COMMIT], False),
        ([LINT, _ends(127), COMMIT], False),
        ([LINT, _ends(143), COMMIT], False),
    ],
)
def test_only_certain_failure_breaks_a_rule(messages: list[Message], *, is_broken: bool) -> None:
    assert (_bits(PASS_FIRST, *messages)[0] == "broken") is is_broken


def test_failed_command_was_still_run() -> None:
    assert _bits("Run `pnpm lint` before you commit.", LINT, _ends(1), COMMIT)[0] == "followed"


@pytest.mark.parametrize(
    ("rule", "messages", "verdict"),
    [
        ("Commit only if the tests pass.", [runs("pytest -q"), _ends(1), COMMIT], "broken"),
        ("All tests must pass before you commit.", [runs("npm test"), _ends(1), COMMIT], "broken"),
        ("Never commit with failing tests.", [runs("go test ./..."), _ends(1), COMMIT], "broken"),
        (
            "On release branches, commit only if the tests pass.",
            [runs("pytest"), _ends(1), COMMIT],
            "",
        ),
        ("Never push if the tests fail.", [runs("npm t"), _ends(1), runs("git push")], ""),
        ("Never push if the tests fail.", [runs("jest"), _ends(1), runs("git push")], "broken"),
        ("Never commit with failing tests.", [runs("pytest -q"), _ends(0), COMMIT], "followed"),
        ("Never commit with failing tests.", [runs("pytest -q"), _ends(4), COMMIT], ""),
        ("Never commit with failing tests.", [runs("pip install pytest"), _ends(1), COMMIT], ""),
        ("Never commit with failing tests.", [COMMIT], ""),
        (
            "Never commit with failing tests.",
            [runs("pytest"), _ends(1), runs("./check.sh"), _ends(0), COMMIT],
            "",
        ),
    ],
)
def test_result_of_tests_precedes_a_commit(
    rule: str, messages: list[Message], verdict: str
) -> None:
    assert _bits(rule, *messages)[0] == verdict


@pytest.mark.parametrize(
    "rule",
    [
        "Never commit on `main`.",
        "Never commit directly to main.",
        "Do not commit to the master branch.",
        "Never work on `main`.",
        "Work on a branch.",
        "Create a new branch for each change.",
        "Commit to a branch, not to `main`.",
        "Never commit or push to main.",
        "Don't make commits on main/master.",
        "Do not commit to `main`, create a branch first.",
        "Always work on a feature branch, never on main.",
    ],
)
@pytest.mark.parametrize(
    ("messages", "verdict"),
    [
        ([_on("main", "git add . && git commit -m x")], "broken"),
        ([_on("main", "cd web && git commit -m x")], "broken"),
        ([_on("fix/a", "git commit -m x")], ""),
        ([_on("", "git commit -m x")], ""),
        ([_on("main", "git status")], ""),
        ([_on("main", "git switch -c a && git commit -m x")], ""),
        ([_on("main", "git switch -c a"), _on("main", "git commit -m x")], ""),
        (
            [
                _on("main", "git switch -c a"),
                _on("a", "git switch main"),
                _on("main", "git commit -m x"),
            ],
            "broken",
        ),
        ([_on("main", "git checkout -- a.py"), _on("main", "git commit -m x")], "broken"),
        ([_on("main", "cd /home/me/app && git commit -m x")], "broken"),
        ([_on("main", "cd '/home/me/app/web' && git commit -m x")], "broken"),
        ([_on("main", "cd /home/me/app2 && git commit -m x")], ""),
        ([_on("main", "cd /home/me/app/.worktrees/a && git commit -m x")], ""),
        ([runs("cd /home/me/app && git commit -m x")._replace(branch="main")], ""),
        ([_on("main", "cd && git commit -m x")], ""),
        ([_on("main", "cd ../other && git commit -m x")], ""),
        ([_on("main", "git -C ../other commit -m x")], ""),
        ([_on("main", "git commit -m x"), _ends(1)], ""),
    ],
)
def test_commit_on_main_branch_is_broken(rule: str, messages: list[Message], verdict: str) -> None:
    assert _bits(rule, *messages)[0] == verdict


@pytest.mark.parametrize(
    ("branch", "command", "verdict"),
    [
        ("main", "git push", "broken"),
        ("main", "git push -u origin HEAD 2>&1", "broken"),
        ("fix/a", "git push origin main", "broken"),
        ("main", "git push origin fix/a", ""),
        ("main", "git push --tags upstream", ""),
        ("fix/a", "git push", ""),
    ],
)
def test_push_to_main_branch_is_broken(branch: str, command: str, verdict: str) -> None:
    assert _bits("Do not push to `main`.", _on(branch, command))[0] == verdict


@pytest.mark.parametrize(
    "rule",
    [
        "Work on a branch if the change is large.",
        "Never commit to `main` without asking.",
        "Never commit to `release`.",
    ],
)
def test_restricted_rule_about_branches_needs_a_judge(rule: str) -> None:
    assert _bits(rule, _on("main", "git commit -m x"))[0] == ""


@pytest.mark.parametrize(
    ("rule", "piece"),
    [
        ("Never commit on `main`.", "git x "),
        ("Never commit on `main`.", "cd x "),
        ("Do not push to `main`.", "git push -x "),
        ("Read a file before you edit it.", "cat x "),
        ("Commit only if the tests pass.", "make -x "),
        ("Commit only if the tests pass.", "cd x && "),
        ("Never leave `it.only`.", "git x "),
        ("Never edit `a.json`.", "echo > "),
        ("Never edit `a.json`.", "sed -i '"),
        ("Never edit `a.json`.", '\\"'),
    ],
)
def test_hostile_command_is_read_in_bounded_time(rule: str, piece: str) -> None:
    command = f"{piece * (60_000 // len(piece))} git commit x"
    made = rule_of(rule)
    assert rule_set([made]).count([_on("main", command), _ends(1), EDIT, COMMIT]).steps == 3


def test_background_command_has_no_result() -> None:
    tests = calls("Bash", command="pytest", run_in_background=True)
    assert _bits("Commit only if the tests pass.", tests, _ends(0), COMMIT)[0] == ""


def test_rewritten_file_is_not_new() -> None:
    rule = "Never create files in `legacy/`."
    writing = writes("/app/legacy/a.ts")
    read = calls("Read", file_path="/app/legacy/a.ts")
    assert _bits(rule, read, writing)[0] == ""
    result = ToolResult("1", "", is_error=False, former="y")
    assert _bits(rule, writing, printed("")._replace(results=(result,)))[0] == ""


def test_words_of_the_agent_name_no_file() -> None:
    assert _bits("Read a file before you edit it.", says("store.py"), EDIT)[0] == "broken"
