"""`reflector demo`: an end-to-end run on bundled sessions, in a project of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path
from textwrap import wrap

import click

from reflector.hooks.install import SCRIPT
from reflector.sessions.injection import write_injection

_DATA = Path(__file__).resolve().parent.parent / "demo"
#: The reports of the agent. The first session is compacted before it ends, and its end is reported
#: twice.
_REPORTS = (
    ("PreCompact", 1),
    ("SessionEnd", 1),
    ("SessionEnd", 1),
    ("SessionEnd", 2),
    ("SessionEnd", 3),
)
_NEXT = (
    "\n"
    "Four commands to try next, in one of your projects:\n"
    "  reflector check                         see which rules your agent breaks\n"
    "  reflector history --dry-run             list earlier sessions to record\n"
    "  reflector add pat 'Run the tests first' add a first rule\n"
    "  reflector install                       record your sessions from now on"
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), required=False)
def demo(folder: Path | None) -> None:
    """Show `check` and the counts on sample sessions.

    The demo creates a project with a playbook and three sessions. With FOLDER, the demo's project
    stays in FOLDER. Without FOLDER, the demo deletes its project at the end. The demo does not read
    your files. By default, the demo does not use the network or an API key. With
    REFLECTOR_BACKEND=anthropic, a model of Anthropic judges the demo's sessions, and needs an API
    key in the environment.
    """
    if folder is not None and folder.exists():
        raise click.UsageError(f"{folder} already exists; name a new folder for the demo")
    backend = os.environ.get("REFLECTOR_BACKEND", "rules")
    if backend == "anthropic":
        from reflector.judges.api import api_settings
        from reflector.judges.backends.anthropic import ANTHROPIC

        # These variables are the only settings of the user in the demo.
        if not api_settings(ANTHROPIC).key:
            raise click.UsageError(
                f"REFLECTOR_BACKEND=anthropic needs an API key in {' or '.join(ANTHROPIC.keys)}; "
                "without REFLECTOR_BACKEND, the demo does not need an API key"
            )
    with _stage(backend, folder) as project:
        _earlier()
        _sessions(project)
        if folder is not None:
            click.echo(f"\nTo see the rules of the demo:  cd {folder} && reflector list")
        click.echo(_NEXT)


def write_earlier(project: Path, claude: Path) -> None:
    """Write a project with a CLAUDE.md, and six of its sessions in the folder of Claude Code."""
    sessions = claude / "projects" / "shop"
    for folder in (project, sessions):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_DATA / "rules.md", project / "CLAUDE.md")
    for path in _DATA.glob("earlier-*.jsonl"):
        text = path.read_text("utf-8").replace('"/home/ada/shop', json.dumps(str(project))[:-1])
        (sessions / path.name).write_text(text, "utf-8")


def _earlier() -> None:
    """Show the rules that earlier sessions broke."""
    with tempfile.TemporaryDirectory(prefix="reflector-demo-") as folder:
        project = Path(folder, "shop").resolve()
        write_earlier(project, Path(os.environ["CLAUDE_CONFIG_DIR"]))
        _say("A project with a CLAUDE.md, and six earlier sessions of Claude Code:")
        _run(project, "check")


def _sessions(project: Path) -> None:
    """Write the demo's playbook, report the start of a session and the ends of three sessions to
    the hook, record the sessions, and show the rules with their counts and evidence.
    """
    (project / ".claude").mkdir(parents=True)
    shutil.copy(_DATA / "playbook.json", project / ".claude" / "playbook.json")
    # The hook prints the text that the commands write, so that it loads little code.
    write_injection(project)
    text = _hook(project, "SessionStart", None).strip()
    bullets = [line for line in text.splitlines() if line.startswith("[")]
    _say("A session starts, and the agent reads the playbook:")
    click.echo("\n".join(_cut(line) for line in bullets))
    for event, number in _REPORTS:
        _hook(project, event, _DATA / f"session-{number}.jsonl")
    _say(
        "Three sessions end. The agent reports the end of one session twice.\n"
        "A judge gives a verdict on each rule that the sessions cite:"
    )
    _run(project, "drain")
    _say("The playbook now, with the best rule first:")
    _run(project, "list")
    _say("The evidence for two rules. A session counts once, even if it is reported twice:")
    _run(project, "blame", "pat-001")
    _run(project, "blame", "pat-002")
    _say("The ledger keeps all events. `verify` prints only faults of the ledger:")
    _run(project, "log", "-n", "4")
    _run(project, "verify")


def _say(text: str) -> None:
    click.echo()
    click.secho(text, bold=True)


def _cut(line: str, width: int = 80) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def _run(project: Path, *arguments: str) -> None:
    """Run a command, and print its output in 80 columns."""
    from reflector.cli.app import run

    words = (
        Path(word).name if "/" in word else f"'{word}'" if " " in word else word
        for word in arguments
    )
    click.secho(_cut(f"$ reflector {' '.join(words)}"), fg="magenta")
    out, err = TextIOWrapper(BytesIO(), "utf-8"), StringIO()
    # In the project's folder, the output names other commands in their short form.
    with chdir(project), redirect_stdout(out), redirect_stderr(err):
        code = run([*arguments])
    if code:
        click.echo(err.getvalue(), err=True, nl=False)
        raise click.exceptions.Exit(code)
    lines = out.buffer.getvalue().decode().splitlines()
    if arguments[0] == "blame":
        reason_column = max(line.find("  why") + 2 for line in lines)
        lines = [part for line in lines for part in _wrapped(line, reason_column)]
    for line in lines:
        click.echo(_cut(line))


def _wrapped(line: str, reason_column: int) -> list[str]:
    """Return a line of `blame` in lines of 80 columns, with its reason in one column."""
    is_step = line.startswith(" ")
    return wrap(line, 80, subsequent_indent=" " * reason_column if is_step else "") or [""]


def _hook(project: Path, event: str, transcript: Path | None) -> str:
    """Call the hook as the agent does: in one process, with one JSON document on stdin."""
    payload = {
        "session_id": "",
        "hook_event_name": event,
        "cwd": str(project),
        "source": "startup",
        "reason": "other",
    }
    if transcript is not None:
        with transcript.open(encoding="utf-8") as file:
            payload["session_id"] = json.loads(file.readline())["sessionId"]
        payload["transcript_path"] = str(transcript)
    done = subprocess.run(
        [sys.executable, "-I", "-S", SCRIPT],
        input=json.dumps(payload).encode(),
        stdout=subprocess.PIPE,
        env={**os.environ, "CLAUDE_PROJECT_DIR": str(project), "REFLECTOR_NO_SPAWN": "1"},
        check=True,
    )
    return done.stdout.decode()


@contextmanager
def _stage(backend: str, keep: Path | None) -> Iterator[Path]:
    """Yield the demo's folder, in an environment that is the same for every user.

    The user's settings do not apply, and nothing is written outside the demo's folder. If that
    folder is kept, reflector's list of ledgers in the user's home contains it.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="reflector-demo-") as home:
        for name in [name for name in os.environ if name.startswith(("REFLECTOR_", "CLAUDE_"))]:
            del os.environ[name]
        folders = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR")
        os.environ.update({name: f"{home}/{name}" for name in folders}, REFLECTOR_BACKEND=backend)
        if keep is None:
            os.environ["HOME"] = home
        try:
            yield Path(home, "shop") if keep is None else keep.absolute()
        finally:
            os.environ.clear()
            os.environ.update(before)
