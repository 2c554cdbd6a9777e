"""`reflector demo`: an end-to-end run on bundled sessions, in a project of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from functools import partial
from pathlib import Path

import click

from reflector.cli import demo_systems
from reflector.hooks.install import SCRIPT

_DATA = Path(__file__).resolve().parent.parent / "demo"
#: What the agent reports: the first session is compacted before it ends, and its end is reported twice.
_REPORTS = (
    ("PreCompact", {"trigger": "auto"}, 1),
    ("SessionEnd", {"reason": "other"}, 1),
    ("SessionEnd", {"reason": "other"}, 1),
    ("SessionEnd", {"reason": "logout"}, 2),
    ("SessionEnd", {"reason": "other"}, 3),
)


@click.command()
@click.option("--keep", type=click.Path(path_type=Path), help="Work in this new folder and keep it.")
@click.option(
    "--backend",
    type=click.Choice(["rules", "anthropic"]),
    default="rules",
    show_default=True,
    help="anthropic: call a model, with the key and the address in your environment.",
)
def demo(keep: Path | None, backend: str) -> None:
    """Show the whole pipeline on bundled sessions; needs no configuration.

    Makes a project with a playbook and three sessions in a temporary folder. Uses no network, no key and none of your
    files, unless you choose another backend.
    """
    if keep is not None and keep.exists():
        raise click.UsageError(f"{keep} exists; name a folder that does not, it is made for the demo")
    if backend == "anthropic":
        _refuse_without_key()
    with _own_environment(backend), _folder(keep) as project:
        _show(project)
        if keep is not None:
            click.echo(f"\nLook around:  cd {keep} && reflector list")
        click.echo(_NEXT)


_NEXT = """
Three things to type next, in a project of yours:
  reflector import-history --dry-run      what earlier sessions would count
  reflector add pat 'Run the tests first' a first piece of advice
  reflector install                       the hooks, until reflector uninstall"""


def _refuse_without_key() -> None:
    from reflector.reflection.backends.clients.settings import KEY_VARIABLES, model_settings

    # Of the person's settings the demo takes these variables alone.
    if model_settings().key is None:
        raise click.UsageError(
            f"--backend anthropic needs a key in {', '.join(KEY_VARIABLES[:-1])} or {KEY_VARIABLES[-1]}; "
            "without --backend the demo needs none"
        )


def _show(project: Path) -> None:
    (project / ".claude").mkdir(parents=True)
    shutil.copy(_DATA / "playbook.json", project / ".claude" / "playbook.json")
    _say("A project has a playbook. This is what the agent reads when a session starts:")
    click.echo(_wrapped(_hook(project, "SessionStart", {"source": "startup"}, None).strip()))
    _say(
        "It works, and cites what it used: [pat-001], [pat-002], [pref-001]. Three sessions end, one of them compacted "
        "first and reported twice. Each hook saves one small file and exits:"
    )
    for event, fields, number in _REPORTS:
        transcript = _DATA / f"session-{number}.jsonl"
        _hook(project, event, fields, transcript)
        click.echo(f"  {event:<11} {json.dumps(fields)[1:-1]:<20} {transcript.name}")
    _run(project, "The drain reads the sessions, and each citation is judged by what followed it:", "drain")
    _run(project, "The playbook now, best advice first:", "list")
    why = "Why is pat-001 where it is? The session counts once, however often it was reported:"
    _run(project, why, "blame", "pat-001")
    _run(project, "And pat-002?", "blame", "pat-002")
    _run(project, "Everything that happened, append-only and hash-chained:", "log")
    _run(project, "Is the ledger what was appended? Silence means yes:", "verify")
    demo_systems.show(project, _DATA / "trajectory.json", _say, partial(_run, project))


def _say(text: str) -> None:
    click.echo()
    click.secho(_wrapped(text), bold=True)


def _wrapped(text: str) -> str:
    """Return a text whose paragraphs fill the terminal's width; a heading or a bullet begins a line."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines: list[str] = []
    for line in text.splitlines():
        goes_on = lines and lines[-1] and lines[-1][0] not in "#[" and line and line[0] not in "#["
        lines[-1:] = [f"{lines[-1]} {line}"] if goes_on else [*lines[-1:], line]
    return "\n".join(click.wrap_text(line, width, subsequent_indent="  " * line.startswith("[")) for line in lines)


def _run(project: Path, why: str, *arguments: str) -> None:
    from reflector.cli.app import run

    _say(why)
    click.secho(f"$ reflector {' '.join(arguments)}", fg="magenta")
    with chdir(project):  # what it says of other commands is as short as for a person
        code = run([*arguments])
    if code:
        raise click.exceptions.Exit(code)


def _hook(project: Path, event: str, fields: dict[str, str], transcript: Path | None) -> str:
    """Call the hook as the agent does: one process, one JSON on stdin."""
    payload = {"session_id": "", "hook_event_name": event, "cwd": str(project), **fields}
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
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True)
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="reflector-demo-") as folder:
        yield Path(folder) / "shop"


@contextmanager
def _own_environment(backend: str) -> Iterator[None]:
    """The demo is the same for everybody: none of the person's settings, nothing beside the demo's folder."""
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="reflector-demo-home-") as home:
        for name in [name for name in os.environ if name.startswith(("REFLECTOR_", "CLAUDE_"))]:
            del os.environ[name]
        os.environ.update(XDG_CONFIG_HOME=f"{home}/config", XDG_STATE_HOME=f"{home}/state")
        os.environ.update(XDG_DATA_HOME=f"{home}/data")
        os.environ.update(CLAUDE_CONFIG_DIR=f"{home}/claude", REFLECTOR_BACKEND=backend)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)
