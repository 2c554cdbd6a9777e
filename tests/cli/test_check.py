"""`reflector check` in a project without hooks, about sessions that are there, by a judge that
answers by a script.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from reflector.sessions.found_transcripts import project_hash
from reflector.transcripts.readers import built_in_readers
from tests.judges.api import Api, Asked, Behaviour, error, sound
from tests.road.agent import Agent
from tests.road.sessions import Session
from tests.transcripts import agents

ADVICE = """# Shop

This repository holds the shop.

- Run the tests before you commit
- Never mock the database
- Use cents for prices, never floats
- Don't use cents for prices
- Keep the changelog in step
- never mock the database.
- Always keep the changelog in step
"""
#: By the line: the words of a turn that show it, whether it was followed, and the verdict.
SCRIPT = {
    "Run the tests before you commit": ("1 passed in 0.10s", "yes", "helpful"),
    "Never mock the database": ("No, don't mock the database", "no", "neutral"),
    "Use cents for prices, never floats": ("words that nobody said", "yes", "helpful"),
    "Keep the changelog in step": ("nor did anybody say these", "no", "neutral"),
    "Don't use cents for prices": ("mock the database", "no", "neutral"),  # what another line says
}
_TURN = re.compile(r'^\{"turn": (\d+), .*$', re.M)
_LINE = re.compile(r"^\[(\w+-\d+)\] helpful=0 harmful=0 :: (.*)$", re.M)


def judged(
    script: dict[str, tuple[str, str, str]], *proposals: dict[str, Any]
) -> Callable[[Asked], Behaviour]:
    """A judge that answers about the lines of a script which the session shows."""

    def answer(asked: Asked) -> Behaviour:
        turns = [(int(one[1]), one[0]) for one in _TURN.finditer(asked.text)]

        def quoted(words: str) -> dict[str, Any]:
            turn = next((number for number, text in turns if json.dumps(words)[1:-1] in text), None)
            return {"turn": turn or 1, "quote": words, "sure": "sure"}

        tags = [
            {"name": name, "relevant": True, "followed": followed, "rationale": "seen", "tag": tag}
            | quoted(words)
            for name, text in _LINE.findall(asked.text)
            if (found := script.get(text)) is not None
            for words, followed, tag in [found]
        ]
        said = [one | quoted(one["quote"]) for one in proposals]
        return sound(json.dumps({"analysis": "x", "bullet_tags": tags, "proposals": said}))

    return answer


@pytest.fixture
def fresh(tmp_path: Path, api: Api) -> Agent:
    """A project with a CLAUDE.md and four sessions, in which nothing of ours was ever typed."""
    agent = Agent.bare(tmp_path, api.environ())
    (agent.project / "CLAUDE.md").write_text(ADVICE)
    agent.commit_long_ago()
    for number in range(4):
        leave(agent, f"s-{number}")
    api.else_ = judged(SCRIPT)
    return agent


def session(id: str) -> Session:
    made = Session(id).user("Fix the total of the cart.").agent("I use a mock for the database.")
    made.user("No, don't mock the database. We have a fixture.").runs(
        "pytest -q", "1 passed in 0.10s"
    )
    return made.agent("Done.").user("Thanks. Ask me before you add a dependency.")


def leave(agent: Agent, id: str, made: Session | None = None) -> Path:
    made = made or session(id)
    for record in made.records:
        record["cwd"] = str(agent.project)
    return made.write(agent.home / ".claude/projects/-shop" / f"{id}.jsonl")


def lines(agent: Agent, *more: str, code: int | None = 0) -> dict[str, dict[str, Any]]:
    """What a check knows of each line, by its text."""
    found = agent.json("check", *more, code=code)
    return {one["text"]: one["judged"] for one in found["lines"]}


def files(agent: Agent) -> dict[str, str]:
    every = (
        one for one in agent.project.rglob("*") if one.is_file() and "reflector" not in one.parts
    )
    return {str(one): sha256(one.read_bytes()).hexdigest() for one in every}


def test_check_shows_the_answers_of_judges_with_quotes(fresh: Agent, api: Api) -> None:
    before = files(fresh)
    ran = fresh.call("check", "--yes")
    assert len(api.asked) == 4
    ignored = "reflector ignored 12 answers, because an answer counts only if its quote is in"
    assert f"{ignored} the session." in ran.err
    assert "Nothing was sent anywhere" not in ran.out
    assert "you repeated this rule in 4 of 4 sessions" in ran.out
    assert "broken in 4 of 4 sessions that a judge read, too few to tell" in " ".join(
        fresh.call("check", "--all").out.split()
    )
    found = lines(fresh)
    tests, mock = found["Run the tests before you commit"], found["Never mock the database"]
    assert [tests[key] for key in ("sessions", "relevant", "result")] == [
        4,
        4,
        "too few to tell",
    ]
    assert (tests["followed"]["yes"], tests["helped"]["yes"]) == (4, 4)
    assert (mock["followed"]["no"], mock["helped"]["yes"], mock["helped"]["no"]) == (4, 0, 0)
    assert found["Keep the changelog in step"]["result"] == "not seen in 4 sessions"
    assert (found["Use cents for prices, never floats"]["relevant"], files(fresh)) == (0, before)
    blamed = fresh.call("blame", mock["name"]).out
    assert (blamed.count("(not followed)"), blamed.count("No, don't mock the database")) == (4, 4)
    assert {one["status"] for one in fresh.json("list")} == {"watched"}
    assert fresh.call("verify").out == ""


def test_no_session_is_asked_about_twice(fresh: Agent, api: Api) -> None:
    fresh.call("check", "--yes")
    first = lines(fresh)
    for path in (fresh.home / ".claude/projects").rglob("*.jsonl"):
        path.write_bytes(b"x" * path.stat().st_size)
    assert (lines(fresh, "--yes"), len(api.asked)) == (first, 4)
    leave(fresh, "copy", session("s-1"))
    for _ in range(2):
        assert (lines(fresh, "--yes"), len(api.asked)) == (first, 4)
    assert fresh.json("check", "--dry-run")["questions"] == 0
    leave(fresh, "s-9")
    assert lines(fresh, "--yes")["Never mock the database"]["relevant"] == 5
    assert len(api.asked) == 5
    (fresh.project / "CLAUDE.md").write_text(
        ADVICE.replace("Keep the changelog in", "Keep the changelog in good")
    )
    reworded = lines(fresh, "--yes")["Keep the changelog in good step"]
    assert (reworded["name"], len(api.asked)) == (first["Keep the changelog in step"]["name"], 5)


def test_check_says_why_no_judge_was_asked(fresh: Agent, api: Api) -> None:
    asking = ("check", "--judge", "anthropic", "--yes")
    why = "No session was sent to the judge"
    assert [why in fresh.call(*asking).err for _ in range(2)] == [False, True]
    assert len(api.asked) == 4


@pytest.mark.slow
def test_killed_check_resumes_without_asking_again(fresh: Agent, api: Api) -> None:
    killed, appends = 0, cycle((3, 4, 5))
    while fresh.dies(next(appends), "check", "--yes"):
        killed += 1
    assert killed > 3
    assert len(api.asked) <= 4 + killed
    assert lines(fresh)["Never mock the database"]["followed"]["no"] == 4
    assert len(fresh.events("reflection.answered")) == 4
    assert fresh.call("verify").out == ""


def test_free_check_sends_and_leaves_nothing(fresh: Agent, api: Api) -> None:
    for more in ((), ("--all",), ("--json",), ("--dry-run", "--yes"), ("--judge", "anthropic")):
        fresh.call("check", *more)
    assert (api.asked, (fresh.project / ".claude").exists()) == ([], False)
    shown = fresh.call("check").out.splitlines()
    assert shown[0].startswith("CLAUDE.md: 6 rules, 1 fact, ")
    assert shown[1].endswith(" Nothing was sent anywhere.")
    assert '   +  "Ask me before you add a dependency."' in shown
    assert any(line.startswith("NEEDS A JUDGE: 6 rules, 1 of them above") for line in shown)
    assert shown[-1].endswith(": reflector install")


def test_connected_agent_keeps_counts_with_history(fresh: Agent) -> None:
    fresh.call("install")
    shown = fresh.call("check").out.splitlines()
    assert shown[-1].endswith(" deletes its sessions: reflector history")


def test_price_of_a_judge_is_before_its_command(fresh: Agent) -> None:
    shown = " ".join(fresh.call("check").out.split())
    priced = (
        r"To judge 6 rules: 4 sessions for Anthropic's API to read, "
        r"at most [\d,]+ tokens, \$0\.\d\d: "
    )
    assert re.search(priced + "reflector check --judge anthropic", shown)


@pytest.mark.parametrize(
    ("program", "command"),
    [
        ("", "export ANTHROPIC_API_KEY=… && reflector check --judge anthropic"),
        ("claude", "reflector judge allow"),
    ],
)
def test_lacking_judge_has_a_way_out(fresh: Agent, program: str, command: str) -> None:
    fresh.environ = {"PATH": f"{fresh.home}:/usr/bin:/bin"}
    if program:
        (fresh.home / program).touch(0o755)
    assert f": {command}" in " ".join(fresh.call("check").out.split())


def test_named_judge_that_is_absent_is_named(fresh: Agent) -> None:
    fresh.environ = {"PATH": "/usr/bin:/bin"}
    reason = "its program was not found, and no API key is set. To set up a judge: reflector judge"
    assert (
        f"claude did not judge your rules: {reason}"
        in fresh.call("check", "--judge", "claude", code=1).err
    )


def test_page_without_sessions_names_the_next_step(fresh: Agent) -> None:
    shown = fresh.call("check", "--since", "2999-01-01").out
    assert "reflector found no session of this folder. Nothing was sent anywhere." in shown
    assert "Use an agent in this folder" in shown


def test_rules_newer_than_every_session_need_no_judge(fresh: Agent) -> None:
    (fresh.project / "CLAUDE.md").write_text("- Always run `make lint` before you commit.\n")
    git(fresh, "commit", "--quiet", "--all", "-m", "rules")
    shown = fresh.call("check", "-n", "5").out
    assert "NEWER THAN ALL SESSIONS" in shown
    assert "After your next session, run: reflector check -n 5" in shown
    assert "--judge" not in shown


def test_command_of_a_block_is_a_fact(fresh: Agent) -> None:
    leave(fresh, "t-1", Session("t-1").user("Go.").runs("make all", "ok"))
    (fresh.project / "CLAUDE.md").write_text("# Build\n\n```bash\nmake all\n```\n")
    assert "named in 1 of 5 sessions\n" in fresh.call("check", "--all").out


def test_whole_page_names_text_that_is_not_checked(fresh: Agent) -> None:
    ran = fresh.call("check", "--all")
    assert "CLAUDE.md: line 10 repeats line 6" in ran.err
    assert "near: CLAUDE.md:11 and CLAUDE.md:9: the same words, apart from: always" in ran.err
    assert "CLAUDE.md:8  Don't use cents for prices" in ran.out


@pytest.mark.slow
def test_refused_judge_is_named_once_and_asked_later(fresh: Agent, api: Api) -> None:
    api.does = [error(401)]
    assert "401" in fresh.call("check", "--yes", code=1).err
    assert len(api.asked) == 1
    assert fresh.json("status")["failures"] == []
    fresh.call("check", "--yes")
    assert lines(fresh)["Never mock the database"]["relevant"] == 4


@pytest.mark.slow
def test_findings_count_once_a_session_if_configured(
    fresh: Agent,
) -> None:
    (fresh.project / "rules.txt").write_text(ADVICE)
    fresh.call("adopt", fresh.project / "rules.txt")
    fresh.call("check", "--yes")
    name = next(name for name, of in _texts(fresh).items() if of.startswith("Run the tests"))
    assert fresh.counters()[name] == (0, 0)
    for counts, then in (("true", (4, 0)), ("false", (0, 0)), ("true", (4, 0))):
        fresh.environ["REFLECTOR_CHECKED_COUNTS"] = counts
        fresh.call("lab", "reparse")
        assert fresh.counters()[name] == then
        assert fresh.json("check")["lines"][0]["judged"]["sessions"] == 4
        assert fresh.call("verify").out == fresh.call("rebuild", "--check").out == ""
    fresh.call("undo", "s-1", "--why", "a test run")
    assert fresh.counters()[name] == (3, 0)
    assert lines(fresh)["Run the tests before you commit"]["relevant"] == 3


@pytest.mark.parametrize(("back", "then"), [(False, (3, 0)), (True, (4, 0))])
def test_changed_setting_keeps_your_decision(
    fresh: Agent, back: bool, then: tuple[int, int]
) -> None:
    (fresh.project / "rules.txt").write_text(ADVICE)
    fresh.call("adopt", fresh.project / "rules.txt")
    fresh.environ["REFLECTOR_CHECKED_COUNTS"] = "true"
    fresh.call("check", "--yes")
    tag = fresh.events("bullet.tagged")[-1]
    fresh.call("undo", tag["reflection_id"] if back else tag["position"], "--why", "wrong")
    if back:
        fresh.call("undo", fresh.events("evidence.retracted")[-1]["position"])
    for counts in ("false", "true"):
        fresh.environ["REFLECTOR_CHECKED_COUNTS"] = counts
        fresh.call("lab", "reparse")
    assert fresh.counters()[tag["data"]["name"]] == then
    assert fresh.call("verify").out == ""


@pytest.mark.slow
def test_recount_keeps_your_own_verdict(fresh: Agent, api: Api) -> None:
    mock = ("No, don't mock the database", "yes", "helpful")
    api.else_ = judged({**SCRIPT, "Never mock the database": mock})
    fresh.call("add", "pat", "Run the tests before you commit")
    fresh.call("add", "pat", "Never mock the database")
    leave(fresh, "s-5", session("s-5").agent("As in [pat-001] and [pat-002]."))
    fresh.environ["REFLECTOR_CHECKED_COUNTS"] = "true"
    fresh.call("history")
    fresh.call("review", "pat-002", "harmful", "--session", "s-5")
    fresh.call("check", "--yes")
    fresh.call("review", "pat-001", "harmful", "--session", "s-5")
    first, second = (one for one in fresh.events("bullet.tagged") if one["actor"] == "human")
    fresh.call("undo", first["position"], "--why", "wrong")
    fresh.call("lab", "reparse")
    assert fresh.counters() == {"pat-001": (4, 1), "pat-002": (5, 0)}
    fresh.call("undo", second["position"], "--why", "wrong")
    assert fresh.counters() == {"pat-001": (5, 0), "pat-002": (5, 0)}


def test_session_counted_by_citation_counts_no_second_time(fresh: Agent) -> None:
    fresh.call("add", "pat", "Run the tests before you commit")
    leave(fresh, "s-5", session("s-5").cites("pat-001"))
    fresh.environ["REFLECTOR_CHECKED_COUNTS"] = "true"
    fresh.call("history")
    assert fresh.counters()["pat-001"] == (1, 0)
    fresh.call("check", "--yes")
    assert lines(fresh)["Run the tests before you commit"]["helped"]["yes"] == 5
    assert fresh.json("show", "pat-001")["helpful"] == 5
    assert fresh.call("verify").out == ""


def _texts(agent: Agent) -> dict[str, str]:
    return {one["name"]: one["text"] for one in agent.json("list", "--removed")}


@pytest.mark.slow
def test_returning_line_is_watched_again_with_its_evidence(
    fresh: Agent,
) -> None:
    fresh.call("check", "--yes")
    for content, there in (
        (ADVICE.replace(("- Run the tests before you commit\n"), ""), False),
        (ADVICE, True),
    ):
        (fresh.project / "CLAUDE.md").write_text(content)
        leave(fresh, f"s-{there}")
        fresh.call("check", "--yes")
        assert ("Run the tests before you commit" in lines(fresh)) is there
    assert lines(fresh)["Run the tests before you commit"]["relevant"] == 6
    assert len(fresh.json("list")) == 6


@pytest.mark.slow
def test_returning_line_stays_out_of_the_playbook(fresh: Agent) -> None:
    rule = "- Run the tests before you commit\n"
    for content in (ADVICE, ADVICE.replace(rule, ""), ADVICE):
        (fresh.project / "CLAUDE.md").write_text(content)
        leave(fresh, f"s-{len(content)}")
        fresh.call("check", "--yes")
    assert {row["status"] for row in fresh.json("list")} == {"watched"}


def test_rule_in_a_file_counts_helped_at_once(fresh: Agent) -> None:
    fresh.call("check", "--yes")
    name = next(name for name, of in _texts(fresh).items() if of.startswith("Run the tests"))
    assert [fresh.json("show", name)[key] for key in ("helpful", "place")] == [4, "CLAUDE.md:5"]
    fresh.call("lab", "reparse")
    assert fresh.json("show", name)["helpful"] == 4
    assert fresh.call("verify").out == fresh.call("rebuild", "--check").out == ""


@pytest.mark.slow
def test_moved_rule_keeps_its_counts(fresh: Agent) -> None:
    fresh.call("check", "--yes")
    fresh.call("adopt", "--move", "--yes", fresh.project / "CLAUDE.md")
    fresh.call("lab", "reparse")
    assert fresh.counters()["oth-001"] == (4, 0)
    fresh.call("undo")
    assert fresh.json("show", "oth-001")["helpful"] == 4


def test_judge_without_a_model_is_refused(fresh: Agent) -> None:
    refused = fresh.call("check", "--judge", "rules", code=2).err
    assert "the judge 'rules' does not ask a model" in refused


def test_missing_rule_is_proposed_once_with_all_quotes(fresh: Agent, api: Api) -> None:
    ask = {
        "kind": "add",
        "section": "pref",
        "text": "Use the fixture of the database.",
        "why": "asked for",
    }
    failed = {
        "kind": "add",
        "section": "ctx",
        "text": "The tests of the cart run with pytest -q.",
        "why": "it ran",
    }
    said = "We have a fixture."
    proposals = (
        failed | {"quote": "1 passed in 0.10s"},
        ask | {"quote": said},
        ask | {"quote": "made up, all"},
    )
    api.else_ = judged(SCRIPT, *proposals)
    fresh.call("check", "--yes", "--learn")
    proposed = fresh.json("review")["proposals"]
    first, second = (one for one in proposed if one["origin"] == "model")
    assert [one["trust"] for one in (first, second)] == ["person", "tool"]
    assert [(one["by"], one["text"]) for one in first["evidence"]] == [("person", said)] * 4
    refused = fresh.call("review", "approve", first["id"], second["id"], code=1).err
    assert "quotes a tool's output: read this proposal, and approve it" in refused
    fresh.call("check", "--yes", "--learn")
    assert len(fresh.json("review", "list")["proposals"]) == len(proposed)
    assert fresh.call("verify").out == ""


@pytest.mark.slow
def test_the_evidence_travels_with_the_ledger(fresh: Agent, tmp_path: Path) -> None:
    fresh.call("check", "--yes")
    export = tmp_path / "ledger.ndjson"
    export.write_text(fresh.call("export", "--format", "ndjson").out)
    other = Agent.bare(tmp_path / "other")
    (other.project / "CLAUDE.md").write_text(ADVICE)
    other.commit_long_ago()
    other.call("import", str(export))
    assert lines(other) == lines(fresh)
    assert other.call("verify").out == ""


@pytest.mark.slow
def test_machines_that_checked_equal_lines_merge_without_renaming(
    fresh: Agent, tmp_path: Path
) -> None:
    other = Agent.bare(tmp_path / "other", fresh.environ)
    (other.project / "CLAUDE.md").write_text("\n".join(reversed(ADVICE.splitlines())))
    other.commit_long_ago()
    for number in (3, 4, 5):
        leave(other, f"s-{number}")
    for agent in (fresh, other):
        (agent.project / ".claude").mkdir()
        agent.call("check", "--yes")
        (agent.home / "out.ndjson").write_text(agent.call("export", "--format", "ndjson").out)
    for agent, of in ((fresh, other), (other, fresh)):
        agent.call("import", of.home / "out.ndjson")
        assert agent.call("verify").out == agent.call("rebuild", "--check").out == ""
    here, there = lines(fresh), lines(other)
    for text in here.keys() & there.keys():
        for key in ("sessions", "relevant", "followed", "helped"):
            assert here[text][key] == there[text][key], text
    assert here["Run the tests before you commit"]["followed"]["yes"] == 6
    assert here["Keep the changelog in step"]["relevant"] == 0
    assert len(_texts(fresh)) == len(_texts(other)) == 6


def test_sessions_of_other_agents_are_found(fresh: Agent, api: Api) -> None:
    for number, begin in enumerate(agents.EVERY.values()):
        leave_anothers(fresh, begin(f"{number}{agents.SESSION[1:]}"))
    every = 4 + len(agents.EVERY)
    assert sum(fresh.json("check", "--dry-run")["sessions"].values()) == every
    for _ in range(2):
        fresh.call("check", "--yes")
        found = lines(fresh)["Never mock the database"]["followed"]["no"]
        assert (found, len(api.asked)) == (every, every)


def leave_anothers(agent: Agent, made: agents.Session) -> None:
    made.person("Fix the cart.").model("I mock it.").person("No, don't mock the database, please.")
    text = made.content().replace(b"/home/ada/shop", str(agent.project).encode())
    # no two sessions say the same at the same time
    text = text.replace(b"00.000Z", f"00.00{made.id[0]}Z".encode())
    text = text.replace(b"ab" * 32, project_hash(agent.project).encode())
    reader = next(reader for reader in built_in_readers() if reader.agent == made.agent)
    kept = reader.kept[0]
    folder = agent.home / kept.default / kept.below / made.id / Path(kept.pattern).parent
    path = folder / made.file_name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)


@pytest.mark.slow
def test_page_in_a_terminal_has_its_evidence(fresh: Agent) -> None:
    fresh.call("check", "--yes")
    shown = fresh.sent(80, "check").replace("\r", "").splitlines()
    assert "   6  Never mock the database" in shown
    assert max(map(len, shown)) <= 80
    assert len(shown) <= 24


def test_next_command_repeats_files_and_options(fresh: Agent) -> None:
    file = fresh.project / "more rules.md"
    file.write_text("- Run the linter before you push\n")
    fresh.commit_long_ago()
    typed = ("check", str(file), "-n", "3", "--judge", "anthropic", "--learn")
    shown = fresh.call(*typed, "--dry-run").out.splitlines()
    assert f"reflector check '{file}' -n 3 --learn --judge anthropic" in shown


def test_old_agent_is_named_with_its_version(fresh: Agent) -> None:
    program = fresh.home / "claude"
    program.write_text("#!/bin/sh\necho '2.1.197 (Claude Code)'\n")
    program.chmod(0o755)
    fresh.environ = {"PATH": f"{fresh.home}:/bin"}
    err = fresh.call("check", "--dry-run").err
    assert "Claude Code 2.1.197 is too old to judge; update Claude Code to 2.1.330 or later." in err
    program.write_text("#!/bin/sh\necho '2.1.332 (Claude Code)'\n")
    assert "too old" not in fresh.call("check", "--dry-run").err


def test_agent_that_may_not_judge_is_named(fresh: Agent) -> None:
    consent = fresh.home / ".local/share/reflector/judge/consent.json"
    consent.parent.mkdir(parents=True)
    consent.write_text(json.dumps({"codex": {"path": "/usr/bin/codex", "environ": {}}}))
    fresh.environ = {"REFLECTOR_BACKEND": "agent", "PATH": "/bin"}
    err = fresh.call("check", "--dry-run").err
    assert "did not judge 4 Claude Code sessions, because this judge needs your permission." in err
    assert fresh.json("check", "--dry-run")["questions"] == 0


def test_project_without_advice_gets_a_way_out(agent: Agent) -> None:
    err = agent.call("check", code=1).err
    assert "no CLAUDE.md, AGENTS.md, GEMINI.md or rules file found" in err
    assert err.endswith("; name a file: reflector check FILE\n")


def test_file_that_is_too_long_is_named(agent: Agent) -> None:
    (agent.project / "CLAUDE.md").write_text("- Run the tests first\n" * 60_000)
    err = agent.call("check", "--dry-run", code=1).err
    assert "not read: CLAUDE.md: has more than 1,048,576 bytes" in err
    assert "none is there" not in err


def test_link_as_only_file_is_named(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("- Run the tests first\n")
    (agent.project / "CLAUDE.md").symlink_to(tmp_path / "other.md")
    assert (
        "not read: CLAUDE.md, because this link points outside"
        in agent.call("check", "--dry-run", code=1).err
    )


def test_rule_for_some_files_costs_nothing_at_start(agent: Agent) -> None:
    (agent.claude / "rules").mkdir(parents=True)
    (agent.claude / "rules/ts.md").write_text(
        "---\npaths: src/**/*.ts\n---\n- Prefer const over let\n"
    )
    ran = agent.call("check", "--dry-run")
    assert re.search(r"ts.md: 1 rule, 0 facts, \d+ tokens only for src/\*\*/\*.ts", ran.out)
    assert agent.json("check", "--dry-run")["scopes"] == {".claude/rules/ts.md": ["src/**/*.ts"]}


def test_progress_is_shown_in_a_pipe(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reflector.cli.output._FIRST_NOTE", -1.0)
    (agent.project / "CLAUDE.md").write_text("- Run the tests first\n")
    folder = agent.home / ".claude/projects/p"
    for number in range(3):
        Session(f"s-{number}").user("Fix the total.").write(folder / f"{number}.jsonl")
    assert "reading your agents' sessions: 1 so far" in agent.call("check", "--dry-run").err
    assert "1 so far" in agent.call("history", "--dry-run").err


def test_session_without_a_step_is_not_asked_about(fresh: Agent) -> None:
    leave(fresh, "exit", Session("exit").user("/exit"))
    found = fresh.json("check", "--dry-run")
    assert (sum(found["sessions"].values()), found["questions"]) == (5, 4)


def test_session_in_two_files_is_priced_once(fresh: Agent) -> None:
    other = Session("s-0").user("Go on, please.").agent("I go on with the cart.")
    path = leave(fresh, "s-0-part", other)
    fresh.call("ingest", path, *sorted(path.parent.glob("s-?.jsonl")))
    assert fresh.json("check", "--dry-run")["questions"] == 5


def test_rules_of_the_playbook_are_checked(fresh: Agent) -> None:
    rules = "- Never mock the database\n- Run the tests before you commit\n"
    (fresh.project / "CLAUDE.md").write_text(rules)
    fresh.call("adopt", "--move", fresh.project / "CLAUDE.md", "--yes")
    places = {line["place"]: line["text"] for line in fresh.json("check")["lines"]}
    assert "Never mock the database" in places.values()
    assert all(re.fullmatch(r"[a-z]+-\d{3}", place) for place in places)
    fresh.call("check", "--yes")
    assert lines(fresh)["Never mock the database"]["followed"]["no"] == 4


def git(agent: Agent, *words: str) -> None:
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", "-C", str(agent.project), *identity, *words], check=True)


def test_path_that_git_lost_is_a_row(fresh: Agent) -> None:
    git(fresh, "init", "--quiet")
    (fresh.project / "locales").mkdir()
    (fresh.project / "locales/de.json").write_text("{}")
    rules = "- Put texts into `locales/`.\n- Put pages into `pages/`.\n"
    (fresh.project / "CLAUDE.md").write_text(rules)
    git(fresh, "add", ".")
    git(fresh, "commit", "--quiet", "-m", "start")
    assert "any more" not in fresh.call("check").out
    shutil.rmtree(fresh.project / "locales")
    shown = fresh.call("check").out
    assert shown.count("locales/ does not exist any more") == 1
    assert "pages/ any more" not in shown
    assert fresh.json("check")["since_edit"] == 0


def test_folder_outside_a_project_shows_all_projects(fresh: Agent) -> None:
    git(fresh, "init", "--quiet")
    (fresh.home / ".claude/CLAUDE.md").write_text("- Answer in English.\n")
    shown = fresh.call("--project", fresh.home, "check").out.splitlines()
    assert shown[0] == "1 project with sessions in the last 30 days. Nothing was sent anywhere."
    assert shown[1].split() == "PROJECT FILES RULES TOKENS SESSIONS LOOK AT".split()
    assert shown[2].split()[-4:] == ["6", "65", "4", "2"]
    assert shown[3].split()[:3] == ["All", "projects", "~/.claude/CLAUDE.md"]
    assert shown[-1] == f"Next: cd {fresh.project} && reflector check"
    assert max(map(len, shown)) <= 80 or len(str(fresh.project)) > 50


def test_next_folder_below_home_is_no_quoted_tilde(fresh: Agent) -> None:
    folder = fresh.home / "a shop"
    folder.mkdir()
    git(fresh, "-C", str(folder), "init", "--quiet")
    (folder / "CLAUDE.md").write_text("- Never use `eval`.\n")
    for transcript in (fresh.home / ".claude/projects/-shop").iterdir():
        transcript.unlink()
    session = leave(fresh, "t-1", Session("t-1").user("Go.").runs("eval x", "ok"))
    session.write_text(session.read_text().replace(str(fresh.project), str(folder)))
    shown = fresh.call("--project", fresh.home, "check").out.splitlines()
    assert shown[-1] == "Next: cd ~/'a shop' && reflector check"


def test_free_check_reads_no_ledger_of_another_project(fresh: Agent, api: Api) -> None:
    fresh.call("check", "--yes")
    before = files(fresh)
    fresh.call("--project", fresh.home, "check")
    assert files(fresh) == before
    assert len(api.asked) == 4


def test_day_without_sessions_is_named(fresh: Agent) -> None:
    shown = fresh.call("check", "--since", "2999-01-01").err
    assert "No session ended since 1 Jan 2999. To check all sessions: reflector check" in shown


def test_folder_without_sessions_was_not_judged(tmp_path: Path, api: Api) -> None:
    agent = Agent.bare(tmp_path, api.environ())
    (agent.project / "CLAUDE.md").write_text(ADVICE)
    assert "already read" not in agent.call("check", "--judge", "anthropic", "--yes").err


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ("-n 2", "to see 1 other note: reflector check {} -n 2 --all"),
        ("--since 2999-01-01", "To check all sessions: reflector check {}\n"),
    ],
)
def test_note_repeats_typed_files(fresh: Agent, options: str, command: str) -> None:
    rules = fresh.project / "rules.md"
    rules.write_text("- Use cents.\n- See @a.md and @b.md.\n")
    assert command.format(rules) in fresh.call("check", rules, *options.split()).err


@pytest.mark.parametrize(
    ("options", "sessions"),
    [("", "4 sessions since"), ("-n 2", "2 sessions since"), ("--since 2999-01-01", "no session")],
)
def test_options_limit_recorded_sessions_too(fresh: Agent, options: str, sessions: str) -> None:
    fresh.call("history")
    for transcript in (fresh.home / ".claude/projects/-shop").iterdir():
        transcript.unlink()
    shown = fresh.call("check", *options.split()).out
    assert sessions in shown
    assert "of 4" not in shown or not options
