"""Free counts of rules over the sessions of a project."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reflector.check import counting
from reflector.check.counting import Counted, RuleCount, StateOf, counts_of
from reflector.check.facts import Counts
from reflector.check.plan import Typed
from reflector.counts.rules import Marks, Rule, rule_of, rule_set
from reflector.project import Project
from reflector.sessions.found_transcripts import FoundTranscript
from tests.road.agent import Agent
from tests.road.sessions import Session

LINT = rule_of("Run `make lint` before you commit.")
NPM = rule_of("Use `pnpm`, not `npm`.")
CONTAINS = rule_of("Never use `strings.Contains`.")


@pytest.fixture(name="project")
def one_with_ledger(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project that has a ledger."""
    for name, value in agent.env().items():
        monkeypatch.setenv(name, value)
    with agent.open_ledger():
        pass
    return Project.at(agent.project)


def _found(folder: Path, *sessions: Session) -> list[FoundTranscript]:
    paths = [session.write(folder / f"{session.id}.jsonl") for session in sessions]
    return [FoundTranscript(path, str(folder), "", path.stat().st_size) for path in paths]


def _always(state: str) -> StateOf:
    return lambda *_: state


def _counts(
    project: Project, files: list[FoundTranscript], *rules: Rule, state: str = "since"
) -> Counted:
    return counts_of(project, rules, files, _always(state), Typed())


def _linted(number: int = 1) -> Session:
    session = Session(f"s-{number}").user("Fix it.").runs("make lint", "ok")
    return session.runs("git commit -m x", "ok")


def test_each_session_is_in_its_period(project: Project, tmp_path: Path) -> None:
    files = _found(tmp_path, _linted(1), _linted(2), Session("s-3").runs("git commit", ""))
    cut = datetime(2026, 11, 1, tzinfo=UTC)
    counted = counts_of(
        project, [LINT], files, lambda _, began: "since" if began > cut else "before", Typed()
    )
    count = counted.by_rule[LINT.key]
    assert (count.since, count.before) == (
        Counts(2, 2, 1, ran=1, done=1),
        Counts(1, 1, 1, ran=1, done=1),
    )
    assert count.occasion == "sessions that committed"


def test_run_counts_where_occasion_came_up(project: Project, tmp_path: Path) -> None:
    files = _found(tmp_path, _linted(1), Session("s-2").runs("make lint", ""))
    assert _counts(project, files, LINT).by_rule[LINT.key].since == Counts(2, 1, 1, ran=2, done=1)


def test_command_after_the_occasion_is_late(project: Project, tmp_path: Path) -> None:
    session = Session("s-1").runs("git commit -m x", "").runs("make lint", "ok")
    count = _counts(project, _found(tmp_path, session), LINT).by_rule[LINT.key]
    assert count.since == Counts(1, 1, ran=1)


def test_forbidden_command_has_no_order(project: Project, tmp_path: Path) -> None:
    rule = rule_of("Never run `git push --force`, not even before you open a pull request.")
    files = _found(tmp_path, Session("s-1").runs("git push --force", ""))
    tally = _counts(project, files, rule).by_rule[rule.key].since
    assert (tally.run, tally.ran) == (1, 0)


def test_choice_without_an_occasion_is_never_due(project: Project, tmp_path: Path) -> None:
    rule = rule_of("Use `pnpm i`, not `npm i`.")
    files = _found(tmp_path, Session("s-1").runs("npm i", ""))
    count = _counts(project, files, rule).by_rule[rule.key]
    assert (count.occasion, count.since.against, count.since.came_up) == ("", 1, 1)


def test_rule_counts_where_it_is_loaded(project: Project, tmp_path: Path) -> None:
    rule = rule_of("Never use `eval()`.", scope=("ui/*.{ts,tsx}",))
    sessions = (
        Session(f"s-{number}").runs(f"cat > {file} <<'E'\neval(x)\nE", "ok")
        for number, file in enumerate(("ui/a.tsx", "api/a.ts"))
    )
    files = _found(tmp_path, *sessions)
    assert _counts(project, files, rule).by_rule[rule.key].since == Counts(1, written=1)


@pytest.mark.parametrize(
    ("marks", "tally"),
    [(Marks(run=1, came_up=1), Counts(1, ran=1)), (Marks(came_up=1), Counts(1, came_up=1))],
)
def test_kept_count_without_order_claims_nothing(marks: Marks, tally: Counts) -> None:
    count = RuleCount(rule_set([LINT]).rules[LINT.key])
    count.add("since", marks)
    assert count.since == tally


@pytest.mark.parametrize(
    ("command", "tally"),
    [
        ("pnpm ci", Counts(1, 1, run=1, ran=1, done=1)),
        ("npm ci", Counts(1, 1, against=1)),
        ("ls", Counts(1)),
    ],
)
def test_choice_comes_up_with_either(
    project: Project, tmp_path: Path, command: str, tally: Counts
) -> None:
    files = _found(tmp_path, Session("s-1").runs(command, ""))
    assert _counts(project, files, NPM).by_rule[NPM.key].since == tally


def test_files_of_one_session_are_one(project: Project, tmp_path: Path) -> None:
    first = _found(tmp_path, _linted(1))
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(first[0].path.read_bytes())
    files = [*first, FoundTranscript(copy, str(tmp_path), "", copy.stat().st_size)]
    assert len(_counts(project, files, LINT).starts) == 1


@pytest.mark.parametrize("state", ["unknown", "anything else"])
def test_other_state_is_unknown(project: Project, tmp_path: Path, state: str) -> None:
    count = _counts(project, _found(tmp_path, _linted()), LINT, state=state)
    assert count.by_rule[LINT.key].unknown.sessions == 1


@pytest.mark.parametrize(
    ("rule", "forbids", "tally"),
    [
        (NPM, False, Counts(1, 1, run=0, against=1)),
        (CONTAINS, True, Counts(1, written=1)),
    ],
)
def test_negated_tokens_are_apart(
    project: Project, tmp_path: Path, rule: Rule, *, forbids: bool, tally: Counts
) -> None:
    session = Session().runs("npm ci", "").runs("cat > a.go <<'E'\nstrings.Contains\nE", "")
    count = _counts(project, _found(tmp_path, session), rule).by_rule[rule.key]
    assert (count.forbids, count.since) == (forbids, tally)


@pytest.mark.parametrize(
    ("rule", "token"),
    [
        (NPM, "`npm`"),
        (CONTAINS, "`strings.Contains`"),
        (rule_of("Never use `Contains` or `Index`."), "`Contains`"),
    ],
)
def test_token_that_a_rule_speaks_against_is_named(
    project: Project, tmp_path: Path, rule: Rule, token: str
) -> None:
    session = Session("s-1").runs("npm strings.Contains Contains", "")
    counted = _counts(project, _found(tmp_path, session), rule)
    count = counted.by_rule[rule.key]
    assert count.in_words(count.breaches) == token


def test_session_without_step_is_not_counted(project: Project, tmp_path: Path) -> None:
    files = _found(tmp_path, Session().user("/exit"))
    assert _counts(project, files, LINT).by_rule[LINT.key].since == Counts()


def test_newest_sentence_is_quoted(project: Project, tmp_path: Path) -> None:
    first = Session("s-1").user("Please run make lint first.").agent("Yes.")
    second = Session("s-2").user("Go.").agent("Done.").user("Run make lint again.").agent("Yes.")
    counted = _counts(project, _found(tmp_path, first, second), LINT)
    last_said = counted.by_rule[LINT.key].last_said
    assert last_said is not None
    assert (last_said.words, last_said.session_id) == ("Run make lint again.", "s-2")


def test_sentence_in_no_rule_is_repeated(project: Project, tmp_path: Path) -> None:
    sessions = [
        Session(f"s-{number}").user("Please use tabs, not spaces.").agent("Yes.")
        for number in range(1, 4)
    ]
    counted = _counts(project, _found(tmp_path, *sessions), LINT)
    assert [row.said for row in counted.repeated] == [
        dict.fromkeys(("s-3", "s-2", "s-1"), "Please use tabs, not spaces.")
    ]
    of_rule = _counts(project, _found(tmp_path, *sessions), rule_of("Use tabs, not spaces."))
    assert of_rule.repeated == []


def test_fact_has_the_sessions_that_used_it(project: Project, tmp_path: Path) -> None:
    fact = rule_of("The build is `make lint`.", is_fact=True)
    files = _found(tmp_path, _linted(1), _linted(2), Session("s-3").runs("ls", ""))
    assert _counts(project, files, fact, NPM).used == {fact.key: {"s-1", "s-2"}}


def test_fact_of_words_alone_is_not_counted(project: Project, tmp_path: Path) -> None:
    fact = rule_of("The build tool is mise.", is_fact=True)
    assert _counts(project, _found(tmp_path, _linted(1)), fact).used == {}


def test_sentence_like_a_fact_is_in_no_rule(project: Project, tmp_path: Path) -> None:
    words = "Please always answer with `make lint` in the pull request"
    fact = rule_of(words, is_fact=True)
    sessions = [Session(f"s-{number}").user(words).runs("ls", "") for number in range(4)]
    files = _found(tmp_path, *sessions)
    assert [len(row.said) for row in _counts(project, files, fact).repeated] == [4]


def test_unchanged_transcript_is_not_read_again(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _linted().user("Never touch vendor. Run make lint again.")
    files = _found(tmp_path, session)
    first = _counts(project, files, LINT)
    monkeypatch.delattr(counting, "_count_file")
    assert _counts(project, files, LINT) == first


def test_cache_holds_no_words_of_yours(project: Project, tmp_path: Path) -> None:
    _counts(project, _found(tmp_path, _linted().user("Run make lint, secretly.")), LINT)
    assert "secretly" not in json.dumps(project.read_kept("counts.json"))


@pytest.mark.parametrize("change", ["rule", "file"])
def test_change_is_counted_again(project: Project, tmp_path: Path, change: str) -> None:
    _counts(project, _found(tmp_path, _linted()), LINT)
    session = _linted().runs("pnpm i", "") if change == "file" else _linted()
    rules = [LINT, NPM] if change == "rule" else [LINT]
    count = _counts(project, _found(tmp_path, session), *rules).by_rule[LINT.key]
    assert count.since == Counts(1, 1, 1, ran=1, done=1)


def test_damaged_cache_is_made_anew(project: Project, tmp_path: Path) -> None:
    project.keep("counts.json", [])
    assert _counts(project, _found(tmp_path, _linted()), LINT).by_rule[LINT.key].since.run == 1


def test_unreadable_transcript_is_left_out(project: Project, tmp_path: Path) -> None:
    files = _found(tmp_path, _linted(1), _linted(2))
    files[0].path.unlink()
    assert _counts(project, files, LINT).by_rule[LINT.key].since.sessions == 1


def test_deleted_transcript_counts_by_its_event(agent: Agent, project: Project) -> None:
    (agent.project / "CLAUDE.md").write_text(f"# Rules\n\n- {LINT.text}\n")
    transcript = _linted().write(agent.home / "s-1.jsonl")
    agent.hands("SessionEnd", transcript, drain=True)
    found = _found(agent.home, _linted())
    before = _counts(project, found, LINT).by_rule[LINT.key]
    assert _counts(project, [], LINT).by_rule[LINT.key] == before
    assert before.since == Counts(1, 1, 1, ran=1, done=1)


@pytest.mark.parametrize("records", [1, 3])
def test_cut_transcript_keeps_its_recorded_counts(
    agent: Agent, project: Project, records: int
) -> None:
    (agent.project / "CLAUDE.md").write_text(f"# Rules\n\n- {LINT.text}\n")
    session = _linted()
    agent.hands("SessionEnd", session.write(agent.home / "s-1.jsonl"), drain=True)
    before = _counts(project, _found(agent.home, session), LINT).by_rule[LINT.key]
    session.records = session.records[:records]
    after = _counts(project, _found(agent.home, session), LINT).by_rule[LINT.key]
    assert after.since == before.since == Counts(1, 1, 1, ran=1, done=1)


def test_wishes_survive_deleted_transcripts(agent: Agent, project: Project) -> None:
    (agent.project / "CLAUDE.md").write_text(f"# Rules\n\n- {LINT.text}\n- {NPM.text}\n")
    said = (
        "always show me the diff before committing",
        "show me the diff before committing, always",
        "Always show me the diff before you commit.",
    )
    sessions = [_linted(number).user(words).agent("Ok.") for number, words in enumerate(said)]
    for session in sessions:
        agent.hands("SessionEnd", session.write(agent.home / f"{session.id}.jsonl"), drain=True)
    files = _found(agent.home, *sessions)
    for left in (files, files[:1], []):
        [row] = _counts(project, left, LINT, NPM).repeated
        assert {*row.said.values()} == {*said}


def test_project_without_ledger_keeps_nothing(tmp_path: Path) -> None:
    project = Project.at(tmp_path / "project")
    project.root.mkdir()
    count = _counts(project, _found(tmp_path / "files", _linted()), LINT)
    assert count.by_rule[LINT.key].since == Counts(1, 1, 1, ran=1, done=1)
    assert list(project.root.iterdir()) == []


@pytest.mark.parametrize("name", ["rules.json", "counts.json", "births.json"])
def test_file_of_a_repository_keeps_nothing(project: Project, name: str) -> None:
    project.keep(name, {"state": []})
    folder = project.make_state_dir()
    (folder / name).write_text('{"state": ["forged"]}')
    assert project.read_kept(name) == {"state": []}
    assert project.own_dir is not None
    assert not project.own_dir.is_relative_to(project.root)


def test_a_project_without_a_ledger_keeps_no_counts(
    agent: Agent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in agent.env().items():
        monkeypatch.setenv(name, value)
    bare = Project.at(agent.project)
    _counts(bare, _found(tmp_path, _linted()), LINT)
    assert bare.read_kept("counts.json") is None


def test_mention_of_a_path_is_no_change(project: Project, tmp_path: Path) -> None:
    """Only a changed file below the path is the occasion of the rule."""
    rule = rule_of("Run `make test` after changes to `src/lib/`.")
    session = Session("s-1").runs("cat > notes.md <<'E'\nsee src/lib/a.ts\nE", "ok")
    changed = Session("s-2").runs("cat > src/lib/a.ts <<'E'\nlet a\nE", "ok")
    count = _counts(project, _found(tmp_path, session, changed), rule).by_rule[rule.key]
    assert (count.since.sessions, count.since.came_up) == (2, 1)


@pytest.mark.parametrize("field", ["parentUuid", "logicalParentUuid", "isCompactSummary"])
def test_session_without_its_begin_shows_no_order(
    project: Project, tmp_path: Path, field: str
) -> None:
    session = Session("s-1").user("Go on.").runs("git commit", "ok").runs("make lint", "ok")
    session.records[0][field] = "earlier"
    count = _counts(project, _found(tmp_path, session), LINT).by_rule[LINT.key]
    assert (count.since, count.lacks_start) == (Counts(sessions=1, ran=1), True)


def test_command_in_time_needs_no_begin(project: Project, tmp_path: Path) -> None:
    session = Session("s-1").runs("make lint", "ok").runs("git commit", "ok")
    session.records[0]["parentUuid"] = "earlier"
    count = _counts(project, _found(tmp_path, session), LINT).by_rule[LINT.key]
    assert (count.since, count.lacks_start) == (Counts(1, 1, 1, ran=1, done=1), False)


@pytest.mark.parametrize(
    ("rule", "may_apply"),
    [
        ("Prefer `if let` chains.", True),
        ("Never use `if_let`.", False),
        ("When you sort, use `sort_by`.", True),
        ("Read `docs/a.md`.", True),
        ("Put it into `locales/`.", False),
        ("Every feature needs an entry in CHANGELOG.md.", True),
    ],
)
def test_rule_may_apply_without_a_sign(
    project: Project, tmp_path: Path, rule: str, *, may_apply: bool
) -> None:
    """A word of it occurred, its condition is unknown, or it only names a path."""
    session = Session("s-1").runs("cat > a.rs <<'E'\nlet a = 1;\nE", "")
    count = _counts(project, _found(tmp_path, session), rule_of(rule)).by_rule[rule_of(rule).key]
    assert count.may_apply is may_apply


@pytest.mark.parametrize(
    ("rule", "command", "came_up"),
    [
        ("Never use `rm -rf`.", "git push", 0),
        ("Never force push.", "git push", 1),
        ("Never force push.", "git status", 0),
        ("Don't use `git push -n`.", "git push", 1),
        ("Never use `npm install`.", "pnpm add left-pad", 1),
        ("Never commit to main.", "git status", 0),
        ("Never commit to main.", "git switch main && git commit -m x", 0),
        ("Never push to main.", "git switch -c fix && git push", 0),
        ("Never use `console.log`.", "eslint --rule no-console a.js", 0),
        ("Never edit `src/gen/`.", "cat src/gen/a.py", 0),
        ("Never use `time.sleep` in tests.", "pytest", 0),
        ("Never use `time.sleep` in tests.", "cat > tests/test_a.py <<E\nx\nE", 1),
    ],
)
def test_kept_ban_is_followed_at_its_occasion(
    project: Project, tmp_path: Path, rule: str, command: str, came_up: int
) -> None:
    """A word of a ban is not its occasion. The branch of a later commit is unknown."""
    files = _found(tmp_path, Session("s-1").runs(command, "ok"))
    count = _counts(project, files, rule_of(rule)).by_rule[rule_of(rule).key]
    assert count.since == Counts(1, came_up, done=came_up)
