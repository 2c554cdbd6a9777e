"""Help, exit codes, errors, and what a question leaves behind."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import click
import pytest
from click.shell_completion import ShellComplete

from reflector.cli.app import reflector
from reflector.cli.table import COMMANDS, GROUPS, HIDDEN, MOVED
from reflector.ledger.store import Ledger
from reflector.lessons.recording import record_lesson
from tests import processes
from tests.cli.conftest import tamper
from tests.processes import REFLECTOR
from tests.road.agent import Agent

QUESTIONS = [
    "list",
    "log",
    "status",
    "show pat-001",
    "blame pat-001",
    "show s-1",
    "export",
    "verify",
    "rebuild --check",
    "double-counts",
    "stats",
    "diff 0..",
    "list --counting once_per_session",
    "ledger policy",
    "ledger head",
]


def own(name: str) -> click.Command:
    command = reflector.get_command(click.Context(reflector), name)
    assert command is not None
    return command


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    first, _, rest = own(name).get_short_help_str(limit=200).partition(" ")
    assert first[0].isupper()
    assert rest.endswith(".")
    assert COMMANDS[name].examples


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_a_command_are_accepted_by_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("session.jsonl", "playbook.json", "CLAUDE.md", "ledger.ndjson", "ledger.backup"):
        (tmp_path / file).touch()
    for example in COMMANDS[name].examples:
        arguments = shlex.split(re.sub(r"[<>]+ [\w.]+$", "", example))
        command = own(name)
        context = command.make_context(name, arguments, click.Context(reflector))
        if isinstance(command, click.Group) and arguments:
            inner, chosen, rest = command.resolve_command(context, arguments)
            assert chosen is not None
            chosen.make_context(inner, rest, context)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_of_it_has_help(agent: Agent, name: str) -> None:
    told = agent.call(name, "--help").out
    assert told.startswith(f"Usage: reflector {name}")
    for parameter in own(name).params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.opts[-1] in told
    assert told.rstrip().endswith(f"reflector {name} {COMMANDS[name].examples[-1]}".rstrip())
    assert " RANGE" not in told
    assert [line for line in told.partition("\nCommands:\n")[2].splitlines() if line.endswith("...")] == []


def test_help_lists_the_commands_and_the_version_is_told(agent: Agent) -> None:
    told = agent.call("--help").out
    places = [told.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    for name in (name for group in GROUPS.values() for name in group):
        assert f"  {name} " in told
        assert own(name).get_short_help_str(limit=200) in " ".join(told.split())
    assert not [name for name in HIDDEN if f"  {name} " in told]
    assert agent.call("--version").out.startswith("reflector, version ")


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["lits"], "Did you mean 'list'?"),
        (["frobnicate"], "See 'reflector --help'."),
        (["list", "--josn"], "Did you mean '--json'?"),
        (["blame", "pat-01"], "Did you mean pat-001?"),
        (["blame", "nothing"], "See 'reflector list --all'."),
        (["show", "nothing"], "See 'reflector log'."),
        (["log", "--session", "nothing"], "See 'reflector log'."),
        (["log", "--type", "tagged"], "bullet.tagged"),
        (["log", "-n", "-1"], "x>=0"),
        (["add", "habits", "Be kind."], "pat (PATTERNS & APPROACHES), mis (MISTAKES TO AVOID)"),
        (["list", "--as-of", "soon"], "2026-11-21T09:14"),
        (["list", "--as-of", "99"], "ends at"),
        (["list", "--as-of", "2026-13-01"], "not a time"),
        (["diff", "1"], "A..B"),
        (["diff", "1..0"], "write 0..1"),
        (["list", "--counting", "twice"], "once_per_session"),
        (["log", "--follow", "--until", "1"], "--until"),
        (["verify", "--anchor", "7"], "POSITION:CHAIN"),
        (["verify", "--anchor", "/etc/hostname"], "POSITION:CHAIN"),
        (["export", "--format", "xml"], "ndjson"),
        (["completion", "tcsh"], "fish"),
        (["--project", "/no/such/folder", "list"], "--project"),
        (["ingest"], "FILE"),
        (["undo", "nothing", "--why", "x"], "reflector log"),
        (["redact", "1", "--why", "x"], "--yes"),
        (["ledger", "assert", "pat-001", "7"], "such as 7/2"),
        (["ledger", "assert", "pat-01", "7/2"], "Did you mean pat-001?"),
        (["import", "/no/such/file"], "/no/such/file"),
    ],
)
def test_a_usage_error_exits_2_and_says_what_would_be_right(agent: Agent, arguments: list[str], wanted: str) -> None:
    ran = agent.call(*arguments, code=2)
    assert ran.out == ""
    assert wanted in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(
    ("text", "variable", "wanted"),
    [
        ("backned = 'rules'", {}, "did you mean 'backend'?"),
        ("idle_minutes = 'an hour'", {}, "reflector.toml"),
        ("", {"REFLECTOR_LEDGER_ULR": "x"}, "REFLECTOR_LEDGER_ULR"),
    ],
)
def test_a_wrong_setting_exits_2(agent: Agent, text: str, variable: dict[str, str], wanted: str) -> None:
    (agent.claude / "reflector.toml").write_text(text)
    agent.environ = variable
    assert wanted in agent.call("list", code=2).err


@pytest.mark.parametrize(("gone", "now"), MOVED.items())
def test_a_name_or_an_option_that_is_gone_says_the_new_one(agent: Agent, gone: str, now: str) -> None:
    said = agent.call(*gone.split(), code=2).err
    assert f"`reflector {gone}` is now `" in said or f"`reflector {gone.split()[0]}` is now `" in said
    assert now.split()[0] in said


def test_a_bullet_that_is_there_or_cannot_be_is_refused(agent: Agent) -> None:
    assert "pat-002 says exactly this already" in agent.call("add", "pat", "Keep functions small.", code=1).err
    assert "the text is empty" in agent.call("add", "pat", "  ", code=1).err
    assert "U+001B" in agent.call("add", "pat", "red \x1b[31m", code=1).err
    assert "10,000" in agent.call("add", "pat", "x" * 10_001, code=1).err
    token = "ghp_" + "a1B2" * 9
    refused = agent.call("add", "pat", f"Push with {token}.", code=1).err
    assert "looks like a secret (github-token); say where it is kept" in refused
    assert token not in refused
    assert len(agent.counters()) == 3


def test_silence_when_all_is_well_and_1_with_a_remedy_when_history_was_changed(agent: Agent) -> None:
    agent.counted()
    anchor = agent.call("ledger", "head").out.strip()
    for quiet in (["verify"], ["verify", "--anchor", anchor], ["rebuild", "--check"], ["rebuild"], ["drain"]):
        ran = agent.call(*quiet)
        assert (ran.out, ran.err) == ("", "")
    tamper(agent)
    told = agent.call("verify", code=1).out
    assert "position " in told
    assert "trigger" in told
    assert all(";" in line for line in told.splitlines())


def test_rebuild_check_shows_the_difference_and_changes_nothing(agent: Agent) -> None:
    agent.call("drain")
    edited = agent.playbook.read_text().replace('"helpful": 3', '"helpful": 4')
    agent.playbook.write_text(edited)
    told = agent.call("rebuild", "--check", code=1)
    assert '-        "helpful": 4,' in told.out.splitlines()
    assert '+        "helpful": 3,' in told.out.splitlines()
    assert agent.playbook.read_text() == edited


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_where_nothing_is_leaves_nothing_behind(tmp_path: Path, question: str) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    for as_json in ([], ["--json"]):
        ran = Agent(project, home).call("--project", project, *question.split(), *as_json, code=None)
        assert ran.code in (0, 2)
        assert "Traceback" not in ran.err
    assert list(project.iterdir()) == list(home.iterdir()) == []


def test_a_question_takes_in_what_the_hooks_left_first(agent: Agent) -> None:
    agent.ended()
    assert agent.json("list")[0]["helpful"] == 1
    assert agent.deliveries() == []


def test_a_question_does_not_wait_for_a_drain_that_is_at_work(agent: Agent) -> None:
    agent.call("drain")
    with (agent.state / "drain.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = agent.call("list")
        assert told.out.count("\n") == 4
        assert told.err == "reflector: another command is at work on this playbook; ask again in a moment\n"
        assert "Another drain is running" in agent.call("drain", "--background").err


@pytest.mark.parametrize("question", [["list"], ["show", "pat-001"], ["log"], ["status"], ["stats"]], ids=str)
def test_a_question_says_that_a_session_is_still_being_processed(agent: Agent, question: list[str]) -> None:
    agent.call("drain")
    agent.ended()
    with (agent.state / "drain.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert re.search("reflector: a session is (still )?being processed", agent.call(*question).err)
    agent.call("list")
    assert "processed" not in agent.call(*question).err


def test_a_question_says_which_windows_wait_for_the_model(agent: Agent) -> None:
    agent.ended()
    agent.environ = {"REFLECTOR_BACKEND": "anthropic"}
    assert agent.call("list").err == "reflector: 1 session window waits for the model's verdicts\n"


def test_a_session_is_named_by_the_beginning_of_its_id(agent: Agent) -> None:
    for id in ("abcd-1", "abcd-2", "efgh-1"):
        agent.counted(id=id)
    assert agent.json("show", "ef")["session_id"] == "efgh-1"
    assert {event["session_id"] for event in agent.json("log", "--session", "ef")} == {"efgh-1"}
    assert "it could be abcd-1, abcd-2" in agent.call("show", "abcd", code=2).err


@pytest.mark.parametrize("typed", ["pat-1", "PAT-01", "pat1", "pat_001", "pat 001"])
def test_a_short_name_suggests_the_bullet_that_it_is_short_for(agent: Agent, typed: str) -> None:
    agent.write_playbook(
        {"PATTERNS & APPROACHES": [{"name": f"pat-{n:03}", "text": f"Advice {n}."} for n in (1, 10, 11, 51)]}
    )
    assert "Did you mean pat-001?" in agent.call("show", typed, code=2).err


@pytest.mark.parametrize("section", ["mis", "MISTAKES TO AVOID", "mistakes", "Mis"])
def test_a_section_is_called_by_its_slug_its_title_or_the_beginning_of_it(agent: Agent, section: str) -> None:
    agent.call("add", section, "Guessing.")
    assert "[mis-002]" in agent.call("show", "[mis-002]").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_for_the_shell_and_knows_the_commands(agent: Agent, shell: str) -> None:
    script = agent.call("completion", shell).out
    assert "_REFLECTOR_COMPLETE" in script
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True).returncode == 0
    for typed, wanted in [("bla", "blame"), ("blame pat-0", "pat-002"), ("lits --js", "")]:
        word = typed.split()[-1]
        asked = {"COMP_WORDS": f"reflector {typed}", "COMP_CWORD": word if shell == "fish" else str(len(typed.split()))}
        done = processes.run(
            REFLECTOR, env=agent.env(_REFLECTOR_COMPLETE=f"{shell}_complete", **asked), capture_output=True, text=True
        )
        assert wanted in done.stdout
        assert done.stderr == ""


def test_the_shell_completes_what_the_project_has(agent: Agent) -> None:
    agent.counted(id="abcd-1")
    with Ledger.open_file(agent.ledger) as ledger:
        lesson = record_lesson(ledger, "mistake", "Add auth", actor="engine")[:8]
    completed = {
        "blame --js": "--json",
        "show ab": "abcd-1",
        "show pat-0": "pat-001",
        "log --type bullet.t": "bullet.tagged",
        "add m": "mis",
        f"show {lesson[:3]}": lesson,
        "lessons pro": "promote",
        f"lessons promote {lesson[:3]}": lesson,
        f"outcome {lesson[:3]}": lesson,
        "config get back": "backend",
    }
    with patch.dict(os.environ, agent.env(), clear=True):
        for typed, wanted in completed.items():
            *words, last = typed.split()
            found = ShellComplete(reflector, {}, "reflector", "_REFLECTOR_COMPLETE").get_completions(words, last)
            assert wanted in {item.value for item in found}


@pytest.mark.parametrize("command", ["export --format json", "log"])
def test_a_reader_that_has_left_is_no_error(agent: Agent, command: str) -> None:
    agent.call("drain")
    read, write = os.pipe()
    os.close(read)
    process = agent.start(*command.split(), stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_a_closed_stdout_is_no_error(agent: Agent) -> None:
    agent.call("drain")
    for command in ("list", "export"):
        script = 'exec "$@" >&-'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *REFLECTOR, *command.split()],
            env=agent.env(),
            cwd=agent.project,
            stderr=subprocess.PIPE,
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_the_console_script_and_the_module_are_the_same(agent: Agent) -> None:
    script = Path(sys.executable).parent / "reflector"
    if not script.exists():
        pytest.skip("the package is not installed with its script")
    done = subprocess.run([script, "--version"], env=agent.env(), capture_output=True, text=True)
    assert done.stdout == agent.run("--version").out


def test_a_module_that_was_cut_off_is_no_interruption(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(_: str) -> None:
        raise EOFError("marshal data too short")

    monkeypatch.setattr("reflector.cli.app.import_module", cut)
    told = agent.call("list", code=1).err
    assert "a part of the program cannot be read (marshal data too short); reinstall it" in told
