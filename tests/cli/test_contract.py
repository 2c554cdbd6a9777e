"""Help, exit codes, errors, what a question leaves behind, and the user's own playbook beside
the project's.
"""

import fcntl
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import reflector as reflector_package
from reflector.__main__ import main
from reflector.cli.app import Place, reflector, run
from reflector.cli.options import NAME, bullet_named
from reflector.cli.table import FORMER, GROUPS, MORE, SYNONYMS
from reflector.ledger.store import Ledger
from tests.cli.commands import EVERY, QUESTIONS, examples
from tests.cli.conftest import tamper
from tests.conftest import first_fast
from tests.ledger.events import added
from tests.road.agent import REFLECTOR, Agent

#: Calls of questions beside the first example of each.
FURTHER = (
    "status",
    "show s-1",
    "export",
    "verify",
    "rebuild --check",
    "stats --doubles",
    "diff 0..",
    "list --counting once_per_session",
    "ledger policy",
    "sql SELECT(1)",
)
#: Commands that repair or judge, and find nothing to do.
REPAIRS = (
    "reflect",
    "drain",
    "edit",
    "edit pat-001 Words",
    "review",
    "rebuild",
    "remove pat-001",
    "undo",
    "ledger restore nothing.backup",
)


@pytest.mark.parametrize("path", EVERY)
def test_help_explains_a_command_and_its_options(agent: Agent, path: str) -> None:
    command = EVERY[path]
    first, _, rest = command.get_short_help_str(limit=200).partition(" ")
    assert first[0].isupper()
    assert rest.endswith(".")
    lines = agent.call(*path.split(), "--help").out.splitlines()
    assert lines[0].startswith(f"Usage: reflector {path}")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert any(parameter.opts[-1] in line for line in lines)
    assert not [line for line in lines if " RANGE" in line]
    summaries = lines[lines.index("Commands:") + 1 :] if "Commands:" in lines else []
    assert not [line for line in summaries if line.endswith("...")]


@pytest.mark.parametrize("path", EVERY)
def test_a_command_accepts_the_examples_of_its_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks").mkdir()
    for file in ("session.jsonl", "playbook.json", "CLAUDE.md", "ledger.ndjson", "ledger.backup"):
        (tmp_path / file).touch()
    (tmp_path / "trajectories.jsonl").touch()
    calls = examples(path)
    typed = path.removesuffix(" NAME").split()
    assert calls
    for words in calls:
        assert words[: len(typed)] == typed
        above = click.Context(reflector, obj=Place(tmp_path))
        EVERY[path].make_context(path, words[len(typed) :], above)


#: The most names of options that the whole program has.
MOST_OPTIONS = 50


def test_the_program_has_few_option_names() -> None:
    parameters = [one for command in (reflector, *EVERY.values()) for one in command.params]
    names = {name for one in parameters if isinstance(one, click.Option) for name in one.opts}
    assert len(names) <= MOST_OPTIONS, f"reuse one of {sorted(names)}, or ask in the issue"


def test_the_first_screen_fits_a_small_terminal(agent: Agent) -> None:
    lines = agent.call("--help").out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_first_screen_names_each_command(agent: Agent) -> None:
    words = agent.call("help").out.split()
    shown = {name for group in (*GROUPS.values(), MORE) for name in group}
    assert shown <= {word.rstrip(".") for word in words}


def test_help_all_has_a_line_for_each_command(agent: Agent) -> None:
    lines = agent.call("help", "--all").out.splitlines()
    entries = {
        **MORE,
        **{name: entry for group in GROUPS.values() for name, entry in group.items()},
    }
    shown = dict(line.strip().split(maxsplit=1) for line in lines if line.startswith("  "))
    assert {name: entry.summary for name, entry in entries.items()}.items() <= shown.items()


def test_the_version_is_shown(agent: Agent) -> None:
    assert agent.call("--version").out.startswith("reflector, version ")


@pytest.mark.parametrize(("word", "meant"), SYNONYMS.items())
def test_a_synonym_names_the_command(
    capsys: pytest.CaptureFixture[str], word: str, meant: str
) -> None:
    assert run([*word.split(), "x"]) == 2
    assert f"use `reflector {meant}`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["lits"], "Did you mean 'list'?"),
        (["list", "--user"], "`reflector --user list`"),
        (["frobnicate"], "Try 'reflector --help' for help."),
        (["show", "pat-001", "--josn"], "Did you mean '--json'?"),
        (["blame", "pat-0011"], "Did you mean pat-001?"),
        (["blame", "nothing"], "To list all rules: `reflector list --removed`"),
        (["show", "nothing"], "see `reflector log`"),
        (["log", "nothing"], "see `reflector log`"),
        (["log", "--type", "tagged"], "bullet.tagged"),
        (["log", "1..", "--since", "yesterday"], "`1..` and --since"),
        (["log", "--memory", "--since", "yesterday"], "--memory cannot be used together"),
        (["log", "--memory", "--type", "bullet.tagged"], "--memory cannot be used together"),
        (["add", "habits", "Be kind."], "pat (PATTERNS & APPROACHES), mis (MISTAKES TO AVOID)"),
        (["list", "--as-of", "soon"], "2026-11-21 09:14, yesterday"),
        (["history", "--since", "soon"], "2 weeks ago"),
        (["stats", "pat-001"], "pat-001 --doubles"),
        (["diff", "1"], "A..B"),
        (["list", "--counting", "twice"], "once_per_session"),
        (["verify", "--anchor", "7"], "POSITION:CHAIN"),
        (["--project", "/no/such/folder", "list"], "--project"),
        (["undo", "nothing", "--why", "x"], "reflector log"),
        (["redact", "1", "--why", "x"], "--yes"),
        (["ledger", "assert", "pat-001", "7"], "such as 7/2"),
        (["edit", "pat-022", "New."], "Did you mean pat-002?"),
        (["edit", "pat-002"], "use `reflector edit pat-002 TEXT`"),
        (["reject", "5f2a91c0"], "use `reflector review reject`"),
        (["restore"], "use `reflector ledger restore`"),
        (["judge", "5f2a91c0"], "to judge a session: reflector reflect 5f2a91c0"),
        (["judge", "claude"], "to allow this judge: reflector judge allow claude"),
        (["judge", "alow"], "Did you mean 'allow'?"),
    ],
)
def test_usage_error_exits_2_with_a_correction(
    agent: Agent, arguments: list[str], wanted: str
) -> None:
    ran = agent.call(*arguments, code=2)
    assert ran.out == ""
    assert wanted in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("gone", "now"), FORMER.items())
def test_former_name_exits_2_with_the_new_one(
    capsys: pytest.CaptureFixture[str], gone: str, now: str
) -> None:
    assert run([*gone.split(), "x"]) == 2
    assert f"`reflector {gone}` is now `reflector {now}`" in capsys.readouterr().err
    name, *rest = now.removeprefix("--user ").split()
    command = EVERY.get(" ".join([name, *rest[:1]]), EVERY[name])
    options = {option for one in command.params for option in one.opts}
    assert {word for word in rest if word.startswith("--")} <= options


@pytest.mark.parametrize("command", ["add pat Run the tests", "edit pat-001 Run the tests"])
def test_text_without_quotes_is_named(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert run(command.split()) == 2
    assert "put the whole text in quotes" in capsys.readouterr().err


def test_no_message_names_a_former_command() -> None:
    package = Path(str(reflector_package.__file__)).parent
    texts = {path: path.read_text("utf-8") for path in package.rglob("*.py")}
    named = [
        (path.name, gone)
        for path, text in texts.items()
        for gone in FORMER
        if re.search(rf"`reflector {re.escape(gone)}(?![\w-])", text)
    ]
    assert named == []


@pytest.mark.parametrize(
    "name", first_fast(3, ["Pat-001", "[pat-001]", "pat-1", "pat001", "PAT 001", "pat-01"])
)
def test_a_name_may_be_typed_loosely(agent: Agent, name: str) -> None:
    for command in ("show", "blame", "log"):
        assert agent.json(command, name) == agent.json(command, "pat-001")


@pytest.mark.parametrize(
    "change", [("edit", "pat-1", "Test first."), ("remove", "PAT1"), ("merge", "pat-1", "pat-02")]
)
def test_change_accepts_a_loose_name(agent: Agent, change: tuple[str, ...]) -> None:
    text = ("--text", "Test small functions first.") if change[0] == "merge" else ()
    assert agent.json(*change, *text)["applied"]


def test_argument_turns_a_loose_name_into_a_name() -> None:
    assert NAME.convert("[Pat001]", None, None) == "pat-001"
    assert NAME.convert("5f2a91c0", None, None) == "5f2a91c0"


def test_an_exact_name_beats_a_loose_one() -> None:
    with Ledger.open("sqlite://") as ledger:
        ledger.append([added("pat-1", "One."), added("pat-001", "Another.")])
        row = bullet_named(ledger, "pat-1")
        assert row is not None
        assert row.name == "pat-1"
        assert bullet_named(ledger, "pat-01") is None


def test_refused_bullet_does_not_show_its_secret(agent: Agent) -> None:
    for text, wanted in (
        ("red \x1b[31m", "U+001B"),
        (f"Push with ghp_{'a1B2' * 9}.", "(github-token); instead of the secret, write"),
    ):
        refused = agent.call("add", "pat", text, code=1).err
        assert wanted in refused
        assert "a1B2" not in refused
    assert len(agent.counters()) == 3


def test_verify_is_silent_until_history_was_changed(
    agent: Agent,
) -> None:
    agent.counted()
    anchor = agent.call("ledger", "head").out.strip()
    for quiet in (
        ["verify"],
        ["verify", "--anchor", anchor],
        ["rebuild", "--check"],
        ["rebuild"],
        ["drain"],
    ):
        ran = agent.call(*quiet)
        assert (ran.out, ran.err) == ("", "")
    tamper(agent)
    told = agent.call("verify", code=1).out
    assert "position " in told
    assert "trigger" in told
    assert all(";" in line for line in told.splitlines())


@pytest.mark.parametrize("question", [*QUESTIONS, *FURTHER, *REPAIRS])
def test_a_question_where_nothing_is_leaves_nothing_behind(tmp_path: Path, question: str) -> None:
    agent = Agent.bare(tmp_path)
    for as_json in ([], ["--json"]):
        ran = agent.call(*shlex.split(question), *as_json, code=None)
        assert ran.code in (0, 2) or (ran.code == 1 and question in REPAIRS)
        assert "Traceback" not in ran.err
    assert list(agent.project.iterdir()) == list(agent.home.iterdir()) == []


def test_unsound_backup_leaves_nothing_behind(tmp_path: Path) -> None:
    agent = Agent.bare(tmp_path)
    (tmp_path / "README").touch()
    refused = agent.call("ledger", "restore", tmp_path / "README", code=1)
    assert "is damaged and was not restored" in refused.err
    assert list(agent.project.iterdir()) == list(agent.home.iterdir()) == []


def test_question_reports_waiting_sessions_without_waiting_for_them(agent: Agent) -> None:
    agent.call("drain")
    with (agent.state / "drain.lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = agent.call("list")
        assert told.out.count("\n") == 4
        assert told.err == (
            "reflector: another command is using this playbook; try again in a moment\n"
        )
        assert (
            "Another process is recording the waiting sessions"
            in agent.call("drain", "--background").err
        )
        agent.ended()
        questions = ("list", "show pat-001", "log", "status", "stats")
        for question in questions:
            told = agent.call(*question.split())
            assert re.search("reflector: a session is (still )?being processed", told.err), question
    assert agent.json("list")[0]["helpful"] == 1
    assert agent.deliveries() == []
    assert not [
        question for question in questions if "processed" in agent.call(*question.split()).err
    ]
    agent.ended(id="s-2")
    agent.environ = {"REFLECTOR_BACKEND": "anthropic"}
    reason = "1 session is not judged yet, so the counts may change"
    unjudged = f"reflector: {reason}; see `reflector status`\n"
    for _ in range(2):
        assert agent.call("list").err == unjudged
    for quiet in ("export", "stats", "undo --dry-run"):
        assert unjudged not in agent.call(*quiet.split(), code=None).err


def test_section_has_a_slug_title_or_prefix(agent: Agent) -> None:
    for number, section in enumerate(("mis", "MISTAKES TO AVOID", "mistakes", "Mis"), 2):
        agent.call("add", section, f"Guessing {number}.")
        assert agent.call("show", f"[mis-{number:03}]").out.startswith(f"mis-{number:03}  ")


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_fits_the_shell(agent: Agent, shell: str) -> None:
    script = agent.call("completion", shell).out
    assert "_REFLECTOR_COMPLETE" in script
    if shell == "bash":
        assert (
            subprocess.run(["bash", "-n"], input=script.encode(), capture_output=True).returncode
            == 0
        )
    word = "m" if shell == "fish" else "2"
    asked = {
        "_REFLECTOR_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "reflector add m",
        "COMP_CWORD": word,
    }
    done = subprocess.run(REFLECTOR, env=agent.env(**asked), capture_output=True, text=True)
    assert ("mis" in done.stdout, done.stderr) == (True, "")


@pytest.mark.slow
def test_closed_stdout_or_gone_reader_is_no_error(agent: Agent) -> None:
    agent.call("drain")
    for command in ("export --format json", "log"):
        read, write = os.pipe()
        os.close(read)
        process = agent.start(*command.split(), stdout=write)
        os.close(write)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *REFLECTOR, "list"]
    done = subprocess.run(closed, env=agent.env(), cwd=agent.project, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_named_command_is_for_the_same_playbook(agent: Agent) -> None:
    for text in ("Read the log first.", "Always read the log first."):
        agent.call("--user", "add", "pat", text)
    for asked, code, named in (
        ("show pat-9001", 0, "reflector --user blame pat-9001"),
        ("blame zzzz-77", 2, "reflector --user list --removed"),
        ("show nobody", 2, "reflector --user log"),
        ("review find", 0, "reflector --user review"),
        ("undo 4000..4001", 1, "reflector --user log"),
        ("remove pat-9002", 0, "reflector --user undo"),
        ("edit pat-9002 Other.", 1, "to restore this rule, run `reflector --user undo pat-9002`"),
    ):
        told = agent.call("--user", *asked.split(), code=code)
        assert named in told.out + told.err, asked


def test_project_with_a_blank_in_it_is_quoted(agent: Agent, tmp_path: Path) -> None:
    shop = tmp_path / "my shop"
    (shop / ".claude").mkdir(parents=True)
    undo = agent.json("--project", shop, "add", "pat", "Read the log first.")["undo"]
    agent.call(*shlex.split(undo)[1:])
    assert agent.json("--project", shop, "list") == []


def test_help_finds_words_in_help_and_pages(
    agent: Agent,
) -> None:
    ran = agent.call("help", "anchor")
    assert "help:\n  verify --anchor" in ran.out
    pages = ran.out.partition("pages:\n")[2].splitlines()
    assert [
        line for line in pages if line.startswith("  trust.md: Verify with an anchor")
    ] == pages[:1]
    assert "The pages are in" in ran.err
    both = agent.call("help", "ERASE", "customer").out  # not what has only one of them
    assert ("redact" in both, len(both) < len(agent.call("help", "erase").out)) == (True, True)
    # where nothing has all, what has any
    assert "\n  undo " in agent.call("help", "zzzz", "undo").out
    assert "'zzzz'" in agent.call("help", "zzzz", code=1).err
    assert agent.call("help").out == agent.call("--help").out


@pytest.mark.slow
def test_daily_commands_open_no_connection(
    agent: Agent,
) -> None:
    """An audit hook of the interpreter sees every connection, of whatever library."""
    agent.call("install")
    others = ("add pat x|status|doctor --report|history --dry-run|drain|help anchor").split("|")
    typed = [shlex.split(one) for one in (*others, *QUESTIONS, *FURTHER)]
    program = (
        "import sys; from reflector.cli.app import run; seen = set(); sys.addaudithook(lambda "
        "one, _: seen.add(one))\n"
        f"for words in {typed!r}: run(['--project', {str(agent.project)!r}, *words])\n"
        "print(*seen, file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], env=agent.env(), capture_output=True, text=True
    )
    seen = {*ran.stderr.splitlines()[-1].split()}
    assert ({"open", "import"} - seen, seen & {"socket.connect", "socket.getaddrinfo"}) == (
        set(),
        set(),
    )


def test_windows_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(SystemExit, match="On Windows, install WSL"):
        main()
