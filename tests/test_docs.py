"""The README and the pages of docs/ are executed: each command and program prints what its page
shows.
"""

import io
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import chdir, redirect_stdout
from pathlib import Path
from xml.etree.ElementTree import canonicalize

import click
import pytest

import reflector
from benchmarks import lessons
from reflector.cli.app import reflector as program, run
from reflector.cli.demo import write_earlier
from reflector.cli.table import COMMANDS, GROUPS
from reflector.config import SETTINGS, USERS_OWN
from reflector.embed.gated.settings import SECTIONS
from reflector.exchange.transfer import Stored, event_line
from reflector.sessions import locks
from reflector.transcripts.building import Kept
from reflector.transcripts.readers import built_in_readers
from tests import surface
from tests.building import git
from tests.conftest import first_fast
from tests.reading import DOCS, FILES, section
from tests.road.agent import BULLETS, Agent
from tests.road.sessions import Session

#: A line that stands for any number of lines, none included.
LEFT_OUT = "…"
#: A day as `list` shows it.
_DAY = r"\d{1,2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)( \d{4})?"
#: What this process cannot print for a shell, the status line too: it writes past `sys.stdout`.
_WITH_A_SHELL = re.compile(r"[|<>]|^(?!reflector )|statusline")


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, content) of every block of a page, in order."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[tuple[str, list[str]]]:
    """(what is typed, the lines that the page shows for it) of a console block, in order."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif (line == ">" or line.startswith("> ")) and not found[-1][1]:
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return found


def agrees(told: list[str], shown: list[str]) -> bool:
    """Whether the lines are those of the page, where a line of LEFT_OUT is any number of them."""
    if not shown:
        return not told
    if shown[0] == LEFT_OUT:
        return any(agrees(told[start:], shown[1:]) for start in range(len(told) + 1))
    return bool(told) and told[0] == shown[0] and agrees(told[1:], shown[1:])


class Reader:
    """A person who types what a page shows, in a folder below a home, and reads each answer to
    its end.
    """

    def __init__(self, agent: Agent, folder: Path, *, spawns: bool = False) -> None:
        self.agent, self.folder, self.spawns = agent, folder, spawns
        self.bin = agent.home / "bin"
        self.bin.mkdir(parents=True)
        (self.bin / "reflector").write_text(
            f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -I -m reflector "$@"\n'
        )
        (self.bin / "claude").write_text("#!/bin/sh\nexit 1\n")
        for file in self.bin.iterdir():
            file.chmod(0o755)
        agent.environ["PATH"] = f"{self.bin}:{agent.env()['PATH']}"

    def play(self, page: str) -> int:
        """Type each command and run each program of a page; how many."""
        played, printed = 0, ""
        for language, content in blocks(page):
            if language == "python":
                with chdir(self.folder), redirect_stdout(io.StringIO()) as out:
                    exec(compile(content, "page", "exec"), {"__name__": "page"})
                printed, played = out.getvalue(), played + 1
            elif language == "text" and printed:
                assert printed == content
                printed = ""
            for typed, shown in commands(content) if language == "console" else ():
                wanted = [self._as_shown(line) for line in shown]
                told = [[self._as_shown(line) for line in lines] for lines in self.type(typed)]
                assert any(agrees(lines, wanted) for lines in told), f"{typed}\n" + "\n".join(
                    told[-1]
                )
                played += 1
        return played

    def type(self, typed: str) -> list[list[str]]:
        """The lines that a command prints, without what goes to stderr and with it."""
        if place := re.fullmatch(r"cd (\S+)", typed):
            self.folder /= place[1]
            return [[]]
        command, _, file = typed.partition(" > ")
        if _WITH_A_SHELL.search(command) or " " in file:
            out, err = self._shell(typed)
        else:
            with chdir(self.folder):
                ran = self.agent.call(*shlex.split(command)[1:], code=None)
                out, err = ran.out, ran.err
                if file:
                    Path(file).write_text(out, "utf-8")
                    out = ""
        if self.spawns and self.agent.spool.exists():
            self.agent.wait_until(lambda: not self.agent.deliveries())
            with locks.held(self.agent.state, "drain.lock", wait=True):
                pass
        return [out.splitlines(), (out + err).splitlines()]

    def _shell(self, typed: str) -> tuple[str, str]:
        environ = self.agent.env(LC_ALL="C.UTF-8")
        environ |= {} if self.spawns else {"REFLECTOR_NO_SPAWN": "1"}
        bash = ["bash", "--noprofile", "--norc", "-c", typed]
        done = subprocess.run(bash, cwd=self.folder, env=environ, capture_output=True, text=True)
        return done.stdout, done.stderr

    def _as_shown(self, line: str) -> str:
        """A line with the page's home, interpreter and package, and without what differs from
        run to run.
        """
        environment = "/home/you/.venvs/reflector"
        package = str(Path(reflector.__file__).parent)
        line = line.replace(package, f"{environment}/lib/python3.11/site-packages/reflector")
        line = line.replace(sys.executable, f"{environment}/bin/python3").replace(
            str(self.agent.home), "/home/you"
        )
        line = re.sub(
            r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d+)?Z?)?( [A-Z]{3,4})?",
            "TIME",
            line,
        )
        line = re.sub(r"\b\d+ kB\b", "SIZE", line)
        line = re.sub(r"SHA256:\S+", "KEY", line)
        line = re.sub(r"LAST CITED +", "LAST CITED  ", line)
        line = re.sub(r"^\d+( \w{3}( \d{4})?)? to \d+ \w{3}( \d{4})?:", "DAYS:", line)
        line = re.sub(rf"\b({_DAY}|yesterday|today)\b *", "DAY  ", line)
        line = re.sub(r"\b\d+:pl1:[0-9a-f]{64}\b", "HEAD", line)
        return re.sub(r"\b\d+\.\d+\.\d+ \(", "VERSION (", line)


ROOT = DOCS.parent
PAGES = {page.name: page.read_text("utf-8") for page in (*DOCS.glob("*.md"), ROOT / "README.md")}


def empty(you: Agent) -> Path:
    you.claude.mkdir(parents=True)
    git(you.project, "init")
    return you.project


def demo(you: Agent) -> Path:
    you.call("demo", you.project)
    return you.project


def with_a_key(you: Agent) -> Path:
    key = you.home / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    return demo(you)


def earlier(you: Agent) -> Path:
    write_earlier(you.project, you.home / ".claude")
    return you.project


def beside_the_demo(you: Agent) -> Path:
    (you.home / "other" / ".claude").mkdir(parents=True)
    you.call("demo", you.home / "demo")
    return you.home


def with_bullets(you: Agent) -> Path:
    folder = empty(you)
    you.write_playbook(BULLETS)
    you.call("list")
    return folder


def with_sessions(you: Agent) -> Path:
    empty(you)
    you.call("--project", you.project, "add", "pat", "Run the tests before you commit")
    Session("7d1e04aa").user("Rename the function.").agent("Done.").write(
        you.project / "uncited.jsonl"
    )
    Session("c40a95f2").cites("pat-001", None).write(you.project / "cited.jsonl")
    Session("b83e4d11").cites("pat-001", "helpful").write(you.project / "helped.jsonl")
    return you.project


MOVING = PAGES["moving.md"]
GATED = section("embedding.md", "Gated reflection")
HOSTED = section("embedding.md", "In your own transaction").partition("In a notebook")[0]
PLAYED: dict[str, tuple[str, Callable[[Agent], Path], int]] = {
    "readme": (PAGES["README.md"].partition("\n## Use reflector\n")[0], earlier, 1),
    "editing": (PAGES["editing.md"].partition("\n## How the playbook grows\n")[0], empty, 11),
    "playbooks": (
        section("reference.md", "Playbooks").partition("### The agent's tools")[0],
        empty,
        1,
    ),
    "duplicates": (section("editing.md", "Proposals and duplicates"), empty, 1),
    "counting": (section("counting.md", "Cost in context"), demo, 8),
    "troubleshooting": (PAGES["troubleshooting.md"], with_sessions, 9),
    "questions": (PAGES["questions.md"], demo, 14),
    "sql": (section("machines.md", "SQL"), demo, 5),
    "moving": (MOVING, beside_the_demo, 11),
    "proving": (section("trust.md", "Proving a ledger"), with_a_key, 5),
    "lessons": (section("learning.md", "Lessons"), with_bullets, 5),
    "value": (section("value.md", "Compare tasks with and without advice"), demo, 4),
    "experience": (section("learning.md", "From experience"), empty, 2),
    "answers": (section("embedding.md", "Tasks that have a right answer"), with_bullets, 2),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> None:
    """Who follows a page has a home."""
    (tmp_path / "home").mkdir(exist_ok=True)


@pytest.fixture
def you(tmp_path: Path) -> Agent:
    """A person with an empty home, and a project that is not there yet."""
    (tmp_path / "you").mkdir()
    return Agent(tmp_path / "you" / "shop", tmp_path / "you")


#: What no test types: an installation by name, a model's address, a real agent and its tools.
NOT_PLAYED = (
    "uv tool install",
    "pip install",
    "ANTHROPIC_BASE_URL",
    "run_reflector(",
    "claude mcp add",
    "3f9c2a71",
    "import pandas",
)


def test_every_local_block_of_commands_is_played() -> None:
    played = [page for page, _, _ in PLAYED.values()]
    played += [
        PAGES["first-ten-minutes.md"],
        PAGES["git.md"],
        GATED,
        HOSTED,
        section("embedding.md", "Loops and graphs"),
        section("extending.md", "Write a judge"),  # by tests/judges/test_http_api.py
    ]
    left = [
        f"{name}: {content}"
        for name, page in PAGES.items()
        for language, content in blocks(page)
        if language in ("console", "python") and not any(content in one for one in played)
    ]
    assert [one for one in left if not any(word in one for word in NOT_PLAYED)] == []
    assert [word for word in NOT_PLAYED if not any(word in one for one in left)] == []


@pytest.mark.parametrize("name", first_fast(4, PLAYED))
def test_a_page_does_what_it_says(you: Agent, name: str) -> None:
    page, setup, least = PLAYED[name]
    assert Reader(you, setup(you)).play(page) >= least


def test_a_host_program_prints_what_is_shown(you: Agent) -> None:
    assert Reader(you, empty(you)).play(HOSTED) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("page", [GATED, section("embedding.md", "Loops and graphs")])
def test_gated_programs_print_what_is_shown(you: Agent, page: str) -> None:
    """langgraph is one of the development tools; nothing is skipped."""
    assert Reader(you, empty(you)).play(page) >= 3


#: You commit before your first session.
LONG_AGO = {
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "You"),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "you@example.org"),
    **dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-11-02T09:00:00Z"),
}


@pytest.mark.slow
def test_first_ten_minutes_match_the_page(you: Agent) -> None:
    you.environ = {"CLAUDE_PROJECT_DIR": "", **LONG_AGO}
    page = PAGES["first-ten-minutes.md"]
    assert Reader(you, you.home, spawns=True).play(page) > 20
    steps = (
        "demo|install --dry-run|install|doctor|adopt|hook|list|blame|log|history|verify|uninstall"
    )
    assert [step for step in steps.split("|") if f"$ reflector {step}" not in page] == []


@pytest.mark.skipif(len(FILES) != 11, reason="the page shows the import of eleven real transcripts")
@pytest.mark.slow
def test_import_of_real_sessions_matches_the_page(you: Agent) -> None:
    with_bullets(you)
    sessions = you.home / ".claude/projects/shop"
    sessions.mkdir(parents=True)
    for path in FILES:
        here = re.sub(r'"cwd": ?"[^"]*"', f'"cwd":"{you.project}"', path.read_text("utf-8"))
        (sessions / path.name).write_text(here, "utf-8")
    (typed,) = re.findall(r"^```text\n(\$ .*?)^```$", PAGES["first-ten-minutes.md"], re.M | re.S)
    assert Reader(you, you.project).play(f"```console\n{typed}```\n") == 1


@pytest.mark.slow
def test_git_page_works_in_two_clones(tmp_path: Path) -> None:
    home = tmp_path
    (home / ".gitconfig").write_text(
        "[user]\nname = A\nemail = a@example.com\n[init]\ndefaultBranch = main\n"
    )
    agent = Agent(home / "first", home, {"CLAUDE_PROJECT_DIR": ""})
    reader = Reader(agent, home)
    sharing, renaming, moving = (
        content for language, content in blocks(PAGES["git.md"]) if language == "console"
    )

    def typed(*lines: str) -> None:
        for line in lines:
            reader.type(line)

    typed("git init -q --bare origin.git && git clone -q origin.git first", "cd first")
    typed(
        "reflector add pat 'Run the tests before you commit'",
        *(command for command, _ in commands(sharing)),
    )
    typed(
        "git push -q origin main && git clone -q ../origin.git ../second && cd ../second && "
        "reflector team"
    )
    typed(
        "reflector add pat 'Ask before you add a dependency'",
        "git commit -qam More && git push -q origin main",
    )
    shown = [line for line in renaming.splitlines() if not line.startswith("$ ")]
    assert reader.type("\n".join(command for command, _ in commands(renaming)))[0] == shown
    typed(
        "cd ../first",
        "mkdir -p src/deep && reflector --project src/deep add pat 'Read the map first'",
    )
    typed(*(command for command, _ in commands(moving)))
    assert any("Read the map first" in line for line in reader.type("reflector list")[0])
    assert not (reader.folder / "src/deep/.claude/reflector").exists()


def test_every_question_is_on_its_page() -> None:
    page = PAGES["questions.md"]
    named = set(re.findall(r"`(?:reflector )?([a-z]+(?:-[a-z]+)*)(?: [^`]*)?`", page))
    shown = {typed.split()[1] for _, content in blocks(page) for typed, _ in commands(content)}
    lacking = {"list", "ledger", "export", "diff", "sql", *GROUPS["Look"]} - (
        (named | shown) & set(COMMANDS)
    )
    assert not lacking, f"docs/questions.md lacks {', '.join(sorted(lacking))}"


@pytest.mark.parametrize(
    ("page", "names"),
    [
        (PAGES["commands.md"], [*SETTINGS]),
        (GATED, [f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys]),
        (PAGES["agents.md"], [reader.agent for reader in built_in_readers()]),
    ],
    ids=["settings", "settings of gated reflection", "transcripts"],
)
def test_a_page_has_a_row_for_each(page: str, names: list[str]) -> None:
    lacking = [name for name in names if f"| `{name}` |" not in page]
    assert not lacking, f"{page.splitlines()[0]} lacks the row of {', '.join(lacking)}"


def test_moving_page_lists_every_exported_key() -> None:
    full = Stored(
        1,
        "a",
        "bullet.added",
        1,
        "t",
        "t",
        "me",
        "s",
        "r",
        "t",
        '{"name":"pat-001"}',
        "h",
        "{}",
        "c",
    )
    names = re.findall(r'"(\w+)":', event_line(full, "0" * 32))
    assert [name for name in names if name != "name" and f"`{name}`" not in MOVING] == []


def test_design_page_has_a_row_for_each_room() -> None:
    rooms = {path.parent.name for path in (ROOT / "reflector").glob("*/__init__.py")} - {"demo"}
    assert rooms == {*re.findall(r"^\| `(\w+)/` \|", PAGES["design.md"], re.MULTILINE)}


def test_generated_pages_and_surface_are_current() -> None:
    stale = [
        path.name for path, text in surface.written().items() if path.read_text("utf-8") != text
    ]
    assert not stale, f"{', '.join(stale)}: write them with `make docs`"


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (Kept("KIWI_HOME", ".kiwi", "chats"), "`$KIWI_HOME` or `~/.kiwi`, `chats/…/*.jsonl`"),
        (Kept("KIWI_HOME", "", ".kiwi/chats"), "`$KIWI_HOME` or `~`, `.kiwi/chats/…/*.jsonl`"),
        (Kept("", ".kiwi", "chats"), "`~/.kiwi`, `chats/…/*.jsonl`"),
    ],
)
def test_folder_of_an_agent_has_words(kept: Kept, words: str) -> None:
    assert surface.kept_words(kept) == words


def test_every_page_is_in_index_and_site() -> None:
    index = PAGES["README.md"].partition("\n## Documentation\n")[2].partition("\n## ")[0]
    assert [page.name for page in DOCS.glob("*.md") if f"(docs/{page.name})" not in index] == []
    groups = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    assert [page.name for page in DOCS.glob("*.md") if f": {page.name}\n" not in groups] == []


def test_the_readme_links_to_files_that_exist() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGES["README.md"])
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_the_demo_fits_a_screen_of_80_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo", str(tmp_path / "demo")]) == 0
    demo = capsys.readouterr().out
    assert "pat-002       1       0       1  2 Nov            1/2  Mock" in demo
    assert [
        line for line in demo.splitlines() if len(line) > 80 and "To see the rules" not in line
    ] == []
    assert demo.count("\n") <= 90


def test_install_names_the_commands_of_the_plugin() -> None:
    marketplace = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text("utf-8"))
    (plugin,) = marketplace["plugins"]
    assert f"claude plugin install {plugin['name']}@{marketplace['name']}" in PAGES["install.md"]
    # The client knows a plugin's commands by the plugin's name too.
    shown = set(re.findall(rf"`/{plugin['name']}:([a-z-]+)", PAGES["install.md"]))
    assert shown == {path.stem for path in (ROOT / plugin["source"] / "commands").glob("*.md")}


def test_trust_page_has_a_row_for_each_setting() -> None:
    section = PAGES["trust.md"].split("\n### Settings\n")[1].split("\n### ")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE))
    listed = {name: said for names, said in rows.items() for name in re.findall(r"`(\w+)`", names)}
    lacks = sorted(SETTINGS.keys() - listed.keys())
    assert not lacks, f"docs/trust.md, Settings, lacks {', '.join(lacks)}"
    assert {name for name, said in listed.items() if said == "nothing"} == set(USERS_OWN)


@pytest.mark.slow
def test_simulated_month_of_the_page_is_current(tmp_path: Path) -> None:
    played = lessons.month()
    assert "\n".join(lessons.report(played)) in PAGES["learning.md"]
    for path in lessons.plot(played, tmp_path):
        # lxml, where it is installed, writes the same picture in other bytes.
        assert canonicalize(path.read_text()) == canonicalize((DOCS / path.name).read_text())


_TYPED = re.compile(r"`reflector ([a-z][^`\n]*)`|^\$ reflector ([^\n]*)", re.MULTILINE)


def unknown_options(typed: str) -> list[str]:
    """The options of a typed command that neither it nor a group above it has."""
    command: click.Command = program
    context = click.Context(program)
    known = {"-h", "--help"} | {name for option in program.params for name in option.opts}
    options = []
    typed = re.sub(r"^--project \S+ ", "", typed)
    for word in shlex.split(typed.split(" #")[0].split(" | ")[0].replace("…", ""), posix=False):
        if word.startswith("--"):
            options.append(word.split("=")[0])
        elif isinstance(command, click.Group):
            inner = command.get_command(context, word) or command.get_command(context, "NAME")
            if inner is not None:
                command, context = inner, click.Context(inner, parent=context, info_name=word)
                known |= {name for option in inner.params for name in option.opts}
    return [option for option in options if option not in known]


@pytest.mark.parametrize("name", sorted(PAGES))
def test_page_names_only_options_that_exist(name: str) -> None:
    typed = [first or second for first, second in _TYPED.findall(PAGES[name])]
    whole = [line for line in typed if line.count("'") % 2 == 0 and line.count('"') % 2 == 0]
    assert {line: unknown for line in whole if (unknown := unknown_options(line))} == {}
