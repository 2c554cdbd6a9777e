"""The sessions behind the counts of a rule."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from reflector.check.evidence import LineEvidence, evidence_lines, evidence_of
from reflector.project import Project
from reflector.sessions.checks import recorded_files
from tests.conftest import first_fast
from tests.road.agent import Agent
from tests.road.sessions import Session

TEXT = """# Rules

- Run `make lint` before you commit.
- Never use `eval()`.
- Be kind to your readers.

The folder has notes.
The notes are in `docs/notes.md`.
"""
LINT, EVAL, KIND, FACT, NOTE = 3, 4, 5, 7, 8


@pytest.fixture(name="agent_here")
def one_with_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project without a ledger whose CLAUDE.md has rules."""
    agent = Agent.bare(tmp_path)
    for name, value in agent.env().items():
        monkeypatch.setenv(name, value)
    (agent.project / "CLAUDE.md").write_text(TEXT)
    agent.commit_long_ago()
    return agent


def _lines(agent: Agent, number: int, *sessions: Session) -> list[str]:
    for session in sessions:
        for record in session.records:
            record["cwd"] = str(agent.project)
        session.write(agent.home / ".claude/projects/-shop" / f"{session.id}.jsonl")
    evidence = evidence_of(Project.at(agent.project), f"CLAUDE.md:{number}", date(2026, 11, 29))
    return [*evidence_lines(evidence)] if evidence else []


def _command(call: str, *, is_refused: bool = False) -> Session:
    session = Session("s-1").user("Fix it.")
    if is_refused:
        refusal = "The user doesn't want to proceed with this tool use."
        return session.runs(call, refusal, is_error=True)
    return session.runs(call, "ok")


@pytest.mark.parametrize(
    ("number", "made", "expected"),
    first_fast(
        3,
        [
            (LINT, _command("make lint && git commit"), "ran       make lint && git commit"),
            (LINT, _command("git commit").runs("make lint", ""), "not done  git commit"),
            (LINT, Session("s-1").user("Run make lint first.").agent("Ok."), 'you said  "Run make'),
            (EVAL, _command("node -e 'eval(1)'"), "ran       node -e 'eval(1)'"),
            (EVAL, _command("cat > a.js <<'E'\n\neval(2)\nE"), "wrote     eval(2)"),
        ],
    ),
)
def test_session_has_its_deed_and_a_line(
    agent_here: Agent, number: int, made: Session, expected: str
) -> None:
    assert expected in _lines(agent_here, number, made)[1]


def test_count_comes_first(agent_here: Agent) -> None:
    shown = _lines(agent_here, LINT, _command("git commit").runs("make lint", ""))
    assert shown[0] == "counted  not run beforehand in the only session that committed"


@pytest.mark.parametrize(("number", "is_shown"), [(LINT, True), (KIND, False)])
def test_rule_that_came_up_nowhere_has_no_evidence(
    agent_here: Agent, number: int, is_shown: bool
) -> None:
    _lines(agent_here, number, _command("git commit"))
    place = f"CLAUDE.md:{number}"
    project = Project.at(agent_here.project)
    evidence = evidence_of(project, place, date(2026, 11, 29), only_seen=True)
    assert (evidence is not None) == is_shown


def test_recorded_files_are_among_the_asked_ones(agent: Agent) -> None:
    agent.counted()
    project = Project.at(agent.project)
    with agent.open_ledger() as ledger:
        every = recorded_files(project, ledger)
        assert every == recorded_files(project, ledger, [path for path, _ in every])
        assert every
        assert recorded_files(project, ledger, []) == {}


def test_refused_call_is_not_shown(agent_here: Agent) -> None:
    shown = _lines(agent_here, LINT, _command("git commit", is_refused=True))
    assert "git commit" not in "".join(shown)


def test_secret_is_masked(agent_here: Agent) -> None:
    secret = "ghp_" + "a1B2" * 9
    shown = _lines(agent_here, EVAL, _command(f"TOKEN={secret} node -e 'eval(1)'"))
    assert secret not in "\n".join(shown)


def test_sessions_to_look_at_come_first(agent_here: Agent) -> None:
    done = Session("s-9").runs("make lint && git commit", "")
    others = [Session("s-2").runs("git commit", ""), Session("s-3").runs("ls", "")]
    shown = _lines(agent_here, LINT, done, *others)
    assert [line.split()[4] for line in shown[1:3]] == ["not", "ran"]
    assert shown[3].strip() == "no count in 1 session: s-3"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (KIND, "needs a judge: no command or edit shows whether the rule was followed"),
        (FACT, "a fact, so no session can break it; mentions cannot be counted"),
        (NOTE, "a fact, so no session can break it; the agent named the fact in 1 of 1"),
    ],
)
def test_line_without_counts_has_a_reason(agent_here: Agent, number: int, words: str) -> None:
    shown = _lines(agent_here, number, _command("cat docs/notes.md"))
    assert shown[0].startswith(f"counted  {words}")


def test_requests_about_a_rule_are_quoted(agent_here: Agent) -> None:
    (agent_here.project / "CLAUDE.md").write_text("- Ensure that features are well-tested.\n")
    asked = [
        Session(f"s-{number}").user(f"Always create a test, as for page {number}.")
        for number in range(3)
    ]
    shown = _lines(agent_here, 1, *(session.runs("ls", "") for session in asked))
    assert shown[-4].strip() == "you asked for tests in 3 sessions"
    assert {line.split('"')[1] for line in shown[-3:]} == {
        "Always create a test, as for page 0.",
        "Always create a test, as for page 1.",
        "Always create a test, as for page 2.",
    }


def test_heading_has_no_counts(agent_here: Agent) -> None:
    assert not _lines(agent_here, 1, _command("ls"))


def test_json_has_the_sessions_of_the_screen(agent_here: Agent) -> None:
    shown = _lines(agent_here, LINT, _command("git commit"))
    [line] = agent_here.json("blame", f"CLAUDE.md:{LINT}")
    [session] = line["counted"]["sessions"]
    assert [f"counted  {text}" for text in line["counted"]["counted"]] == shown[:1]
    assert (session["session"], session["deed"]) == ("s-1", "not done")


def test_lines_fit_the_screen(agent_here: Agent) -> None:
    many = [
        Session(f"s-{number:02}").runs(f"make lint {'x' * 200} && git commit", "")
        for number in range(20)
    ]
    shown = _lines(agent_here, LINT, *many)
    assert len(shown) <= 14
    assert max(map(len, shown)) <= 80
    assert shown[-1].strip() == "and 8 more sessions"


def test_figures_are_those_of_the_page(agent_here: Agent) -> None:
    _lines(agent_here, LINT, _command("git commit"), Session("s-2").runs("git commit", ""))
    [row] = [row for row in agent_here.json("check")["lines"] if row["place"] == "CLAUDE.md:3"]
    assert row["evidence"] == ["run beforehand in 0 of 2 sessions that committed"]
    assert _lines(agent_here, LINT)[0] == f"counted  {row['evidence'][0]}"


def test_blame_needs_no_name_for_a_rule(agent_here: Agent) -> None:
    _lines(agent_here, LINT, _command("git commit"))
    assert "not done  git commit" in agent_here.call("blame", "CLAUDE.md:3").out


def test_blame_shows_a_line_of_a_folder(agent_here: Agent) -> None:
    (agent_here.project / "ui").mkdir()
    (agent_here.project / "ui/CLAUDE.md").write_text("- **Types**: Never use `eval()`.\n")
    _lines(
        agent_here, LINT, _command("cat > ui/a.js <<'E'\neval(2)\nE"), Session("s-2").runs("ls", "")
    )
    shown = agent_here.call("blame", "ui/CLAUDE.md:1").out
    assert "wrote `eval(` in 1 of 1 session" in shown
    assert "wrote     eval(2)" in shown


@pytest.mark.parametrize(
    ("rule", "call", "line"),
    first_fast(
        2,
        [
            (
                "Commit titles stay under 5 characters.",
                "git commit -m 'Longer'",
                "wrote     Longer",
            ),
            ("Run `make a` before you commit Go code.", "git commit -m a", "not done  git commit"),
        ],
    ),
)
def test_evidence_of_a_commit_is_shown(agent_here: Agent, rule: str, call: str, line: str) -> None:
    (agent_here.project / "CLAUDE.md").write_text(f"- {rule}\n")
    made = _command("cat > a.go <<'E'\nx\nE").runs(call, "")
    assert line in _lines(agent_here, 1, made)[-1]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("Commit only if the tests pass.", "used      git commit -m a"),
        ("Never commit on `main`.", "ran       git commit -m a"),
        ("Read a file before you edit it.", "used      /shop/a.test.ts"),
        ("Never leave `it.only` in tests.", "wrote     it.only(b)"),
        ("Never edit `uv.lock`.", "wrote     sed -i s/a/b/ uv.lock"),
    ],
)
def test_evidence_of_a_course_is_shown(agent_here: Agent, rule: str, line: str) -> None:
    (agent_here.project / "CLAUDE.md").write_text(f"- {rule}\n")
    made = Session("s-1").runs("pytest -q", "Exit code 1", is_error=True)
    call = {"file_path": "/shop/a.test.ts", "old_string": "x", "new_string": "y\nit.only(b)"}
    made.records.append(_call_of("Edit", call, made))
    made.runs("sed -i s/a/b/ uv.lock", "").runs("git commit -m a", "")
    for record in made.records:
        record["gitBranch"] = "main"
    assert any(line in shown for shown in _lines(agent_here, 1, made))


def test_page_names_the_first_row(agent_here: Agent) -> None:
    _lines(agent_here, LINT, _command("eval()"), Session("s-2").runs("git commit", ""))
    shown = agent_here.call("check").out
    assert "To see the sessions of a rule: reflector blame CLAUDE.md:3" in shown


def test_evidence_of_an_import_names_its_file(agent_here: Agent) -> None:
    (agent_here.project / "CLAUDE.md").write_text("@AGENTS.md\n")
    (agent_here.project / "AGENTS.md").write_text("- Always use `make a`.\n")
    shown = agent_here.call("blame", "CLAUDE.md:1").out
    assert "counted  nothing, because CLAUDE.md only imports AGENTS.md\n" in shown


def test_place_of_a_rule_is_no_evidence(agent_here: Agent) -> None:
    """The line with the forbidden word is shown, not a file of the folder that the rule names."""
    (agent_here.project / "CLAUDE.md").write_text("- Never use `console.log` in `src/api/`.\n")
    made = Session("s-1").user("Fix it.")
    for name, text in (("a.ts", "let a = 1"), ("b.ts", "console.log(a)")):
        call = {"file_path": f"/shop/src/api/{name}", "content": text}
        made.records.append(_call_of("Write", call, made))
    assert "wrote     console.log(a)" in _lines(agent_here, 1, made)[2]


def _call_of(tool: str, arguments: dict[str, str], made: Session) -> dict[str, Any]:
    """Return the record of a call, for the end of a session."""
    copy = Session(made.id)
    copy.records = [*made.records]
    copy.runs("", "", tool=tool)
    record = copy.records[-2]
    record["message"]["content"][0]["input"] = arguments
    return record


def test_changed_file_without_the_command_is_shown(agent_here: Agent) -> None:
    (agent_here.project / "CLAUDE.md").write_text("- Run `make test` after changes to `src/`.\n")
    made = _command("cat > src/a.ts <<'E'\nlet a = 'src/b'\nE")
    assert "not done  src/a.ts" in _lines(agent_here, 1, made)[2]


def test_rule_below_a_case_needs_a_judge(agent_here: Agent) -> None:
    text = "# When you release\n\n- Run `make lint` before you commit.\n"
    (agent_here.project / "CLAUDE.md").write_text(text)
    shown = _lines(agent_here, LINT, _command("make lint"), Session("s-2").runs("git commit", ""))
    assert shown[:2] == [
        "counted  needs a judge: reflector cannot see when the rule applies",
        "         the agent ran `make lint`, as the rule asks, in 1 of 2 sessions",
    ]


def test_rule_below_an_occasion_is_counted(agent_here: Agent) -> None:
    (agent_here.project / "CLAUDE.md").write_text("# Before you commit\n\n- Run `make lint`.\n")
    commit = Session("s-2").runs("git commit", "")
    shown = _lines(agent_here, LINT, _command("make lint && git commit"), commit)
    assert shown[0] == "counted  run beforehand in 1 of 2 sessions that committed"


@pytest.mark.parametrize(
    ("rule", "call", "part", "shown"),
    first_fast(
        3,
        [
            (
                "Run both `ruff check` and `ruff format`.",
                "ls",
                "needs a judge",
                ["cannot see when", "0 of 2"],
            ),
            (
                "Never commit secrets, use `.env`.",
                "git commit",
                "needs a judge",
                ["without naming it", "0 of 2"],
            ),
            (
                "Use `retry_twice` for calls.",
                "ls",
                "never came up",
                ["did not come up in 2 sessions", "0 of 2"],
            ),
            (
                "Be kind to your readers.",
                "ls",
                "needs a judge",
                ["no command or edit shows whether"],
            ),
            (
                "Run `ruff check`.",
                "ruff check",
                "needs a judge",
                [
                    "cannot see when",
                    "the agent ran `ruff check`, as the rule asks, in 1 of 2 sessions",
                    "0 of 2",
                    "ruff check",
                    "no count in 1 session",
                ],
            ),
        ],
    ),
)
def test_category_is_that_of_the_page(
    agent_here: Agent, rule: str, call: str, part: str, shown: list[str]
) -> None:
    (agent_here.project / "CLAUDE.md").write_text(f"# Rules\n\n- {rule}\n")
    lines = _lines(agent_here, 3, _command(call), Session("s-2").runs("ls", ""))
    assert [line["part"] for line in agent_here.json("check")["lines"]] == [part]
    assert len(lines) == len(shown)
    assert all(words in line for words, line in zip(shown, lines, strict=True))


@pytest.mark.parametrize(
    ("call", "shown"),
    first_fast(
        3,
        [
            ('git add . && git commit -m "Mend the lamp\n\nIt was dark."', '-m "Mend the lamp"'),
            (
                "git commit -m \"$(cat <<'EOF'\nMend the lamp\n\nDark.\nEOF\n)\"",
                '-m "Mend the lamp"',
            ),
            ("cat > a <<'E'\nx\nE\ngit commit -m 'Mend it'", 'git commit -m "Mend it"'),
            ("git commit --message='Mend it'", '--message="Mend it"'),
            ("git commit -F - <<'EOF'\nMend it\nEOF", "git commit -F - <<'EOF'"),
        ],
    ),
)
def test_commit_is_shown_by_its_subject(agent_here: Agent, call: str, shown: str) -> None:
    [_, row] = _lines(agent_here, LINT, _command(call))
    assert row.endswith(shown)


@pytest.mark.parametrize(
    "call",
    [
        f"cd /{'long/' * 20} && python -m make lint && {'echo ' * 30} && git commit",
        f"cd /{'long/' * 20} && make lint && git commit",
    ],
)
def test_long_line_is_cut_around_the_match(agent_here: Agent, call: str) -> None:
    [_, row] = _lines(agent_here, LINT, _command(call))
    assert "make lint" in row
    assert len(row) <= 80


def test_rule_of_playbook_shows_its_sessions(agent_here: Agent) -> None:
    agent_here.call("add", "pat", "Use rg, not grep")
    _lines(agent_here, LINT, Session("s-1").user("No, use rg, not grep.").runs("grep x a", "x"))
    shown = agent_here.call("blame", "pat-001").out
    assert "before the rule: you said it in 1 of 1 session" in shown
    assert "before the rule: Claude used `grep` in 1 of 1 session" in shown
    assert 'you said  "No, use rg, not grep."' in shown


def test_long_count_keeps_its_end() -> None:
    count = f"the agent ran `{'a ' * 30}b`, as the rule asks, in 2 of 22 sessions"
    shown = [*evidence_lines(LineEvidence([count], [], 0))]
    assert " ".join(line[9:] for line in shown) == count
    assert max(map(len, shown)) <= 80
