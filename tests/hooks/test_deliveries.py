"""What a hook keeps: one durable record per delivery, whatever comes in and whatever the disk
does.
"""

import json
import os
import random
import resource
import shutil
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from reflector.handover import SEAL_KEY, quoted
from tests.conftest import first_fast
from tests.hooks.conftest import Project, event, files, records
from tests.road.agent import HOOK


@pytest.mark.parametrize("name", ["SessionEnd", "PreCompact", "Unheard0f"])
def test_an_end_is_kept_verbatim_and_prints_nothing(project: Project, name: str) -> None:
    raw = (
        b'\n {"hook_event_name": "%s", "new_field":[1, 2.50,"\\u00e9 \xc3\xa9"] } \n'
        % name.encode()
    )
    before = time.time_ns()
    assert project.hook(raw) == (b"", b"")
    (path,) = files(project.spool)
    assert before < int(path.name[:20]) < time.time_ns()
    assert raw.strip() in path.read_bytes()
    (record,) = records(project.spool)
    assert before < record.pop("received_at_ns") < time.time_ns()
    assert len(record.pop("seal")) == 64
    assert record == {
        "v": 1,
        "project": str(project.path),
        "transcript_bytes": None,
        "payload": json.loads(raw),
    }


@pytest.mark.parametrize("there", [False, True])
def test_kept_files_are_private_and_ignored_by_git(project: Project, there: bool) -> None:
    if there:
        project.spool.mkdir(parents=True, mode=0o777)
        project.state.chmod(0o755)
    project.hook(event("SessionEnd"), preexec_fn=lambda: os.umask(0))
    for folder in (project.state, project.spool):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in (*files(project.state), *files(project.spool)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (project.state / ".gitignore").read_text() == "*\n"


def test_only_the_newest_stop_of_a_session_waits(
    project: Project,
) -> None:
    before = {path for path in project.path.parent.rglob("*") if path.is_file()}
    odd = ["../a", "..-a", "/a", "x" * 101, "x" * 10_000, "a\0b", "..", "\ud800", "CON:x", ["s"]]
    for number, session in enumerate(["a", "b", "a", "a", *odd]):
        assert project.hook(event("Stop", session_id=session, number=number)) == (b"", b"")
    waiting = project.spool / "waiting"
    new = {path for path in project.path.parent.rglob("*") if path.is_file()} - before
    kept = {waiting, project.state, project.state / "fired"}
    assert {path.parent for path in new} == {*kept, project.own.parent}
    assert {record["payload"]["number"] for record in records(waiting)} == {
        1,
        *range(3, 4 + len(odd)),
    }


BROKEN = [
    b"",
    b"{",
    b'{"hook_event_name": "SessionEnd"} {}',
    b"[]",
    b"{}",
    b'{"hook_event_name": ""}',
    b'{"hook_event_name": "SessionEnd", "n": ' + b"9" * 5000 + b"}",
    b'{"hook_event_name": "SessionEnd", "x": "\n"}',
    b'{"hook_event_name": "SessionEnd", "x": "\xff"}',
    b'{"hook_event_name": "SessionEnd", "x": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
]


@pytest.mark.parametrize("raw", BROKEN, ids=lambda raw: repr(raw[:40]))
def test_a_broken_payload_is_kept_aside_verbatim(project: Project, raw: bytes) -> None:
    out, err = project.hook(raw)
    assert (out, err.count(b"\n"), b"broken" in err) == (b"", 1, True)
    assert files(project.spool) == []
    assert [path.read_bytes() for path in files(project.spool / "broken")] == [raw]


def test_payload_above_the_limit_is_kept_aside(project: Project) -> None:
    long = event("SessionEnd", last="é" * (4 * 1024 * 1024 - 200))
    project.hook(json.dumps(long, ensure_ascii=False).encode())
    assert len(records(project.spool)) == 1
    raw = b'{"hook_event_name": "SessionEnd", "x": "' + b"x" * (9 * 1024 * 1024)
    process = project.start()
    with suppress(BrokenPipeError):  # it stopped reading
        process.communicate(raw, timeout=30)
    assert process.wait(timeout=30) == 0
    assert [path.read_bytes() for path in files(project.spool / "broken")] == [
        raw[: 8 * 1024 * 1024]
    ]


def test_project_comes_from_variable_payload_or_folder(
    project: Project,
) -> None:
    other, here = project.path.parent / "other", project.path.parent / "here"
    for folder in (other, here):
        folder.mkdir()
    project.hook(event("SessionEnd", cwd=str(other)), cwd=here)
    project.environ = {"CLAUDE_PROJECT_DIR": ""}
    project.hook(event("SessionEnd", cwd=str(other)), cwd=here)
    project.hook(event("SessionEnd", cwd=7), cwd=here)
    for folder in (project.path, other, here):
        (record,) = records(folder / ".claude/reflector/spool")
        assert record["project"] == str(folder)


def test_project_path_that_is_not_utf8_is_kept(project: Project) -> None:
    odd = Path(os.fsdecode(os.fsencode(project.path) + b'/caf\xe9 "quoted"'))
    odd.mkdir()
    project.environ = {"CLAUDE_PROJECT_DIR": str(odd)}
    project.start().communicate(json.dumps(event("SessionEnd")).encode(), timeout=30)
    assert [record["project"] for record in records(odd / ".claude/reflector/spool")] == [str(odd)]


@pytest.mark.parametrize(
    ("place", "kind"),
    first_fast(
        2, [("claude", "link"), ("state", "file"), ("spool", "dangling link"), ("path", "")]
    ),
)
def test_delivery_without_project_folder_is_kept_at_home(
    project: Project, place: str, kind: str
) -> None:
    outside = project.path.parent / "outside"
    (outside / "there").mkdir(parents=True)
    at: Path = getattr(project, place)
    at.parent.mkdir(parents=True, exist_ok=True)
    if place == "path":
        at.rmdir()  # the project is gone
    elif kind == "file":
        at.write_text("")
    else:
        at.symlink_to(outside / ("there" if kind == "link" else "gone"))
    for payload in (event("SessionEnd"), event("Stop"), b"broken"):
        assert project.hook(payload, cwd=project.home)[0] == b""
    assert [record["project"] for record in records(project.fallback)] == [str(project.path)]
    assert [path.name for path in files(project.fallback / "waiting")] == ["s-1.json"]
    assert len(files(project.fallback / "broken")) == 1
    assert [path.name for path in outside.rglob("*")] == ["there"]


@pytest.mark.parametrize(
    ("named", "place"), [("{}/xdg", "xdg/reflector"), ("relative", ".local/state/reflector")]
)
def test_delivery_in_a_deleted_folder_follows_xdg(project: Project, named: str, place: str) -> None:
    gone = project.path / "gone"
    gone.mkdir()
    project.environ = {"CLAUDE_PROJECT_DIR": "", "XDG_STATE_HOME": named.format(project.home)}
    process = project.start(
        ["sh", "-c", (f'cd "{gone}" && rmdir "{gone}" && exec "$@"'), "sh", *HOOK]
    )
    out, _ = process.communicate(json.dumps(event("SessionEnd")).encode(), timeout=30)
    assert (out, process.returncode) == (b"", 0)
    assert [record["project"] for record in records(project.home / place / "spool")] == [None]


@pytest.mark.parametrize("name", ["SessionEnd", "Stop", "SessionStart"])
def test_unwritable_disk_is_reported_in_one_line(project: Project, name: str) -> None:
    project.environ = dict.fromkeys(("HOME", "CLAUDE_PROJECT_DIR", "TMPDIR"), "/dev/null")
    out, err = project.hook(event(name))
    assert (out, err.count(b"\n")) == (b"", 0 if name == "SessionStart" else 1)


def test_full_disk_leaves_no_part_of_a_record(project: Project) -> None:
    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    # -B: a compiled module that is cut at the limit would break every later start.
    command = [sys.executable, "-B", *HOOK[1:]]
    out, err = project.hook(
        event("SessionEnd", x="x" * 4096), command=command, preexec_fn=small_files_only
    )
    assert (out, err.count(b"\n"), b"File too large" in err) == (b"", 1, True)
    assert files(project.spool) == files(project.fallback) == []


def test_missing_stdin_is_reported_in_one_line(project: Project) -> None:
    process = project.start(["sh", "-c", 'exec "$@" <&- >&-', "sh", *HOOK])
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.count(b"\n")) == (0, 1)
    assert list(project.path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["/plain", 'a "quoted" \\ one', "caf\u00e9\n\x7f", "\U0001f600\udce9", "\0"]
)
def test_a_quoted_text_is_json(text: str) -> None:
    assert json.loads(quoted(text)) == text


@pytest.mark.slow
def test_killed_hook_leaves_whole_records_only(
    project: Project,
) -> None:
    dice = random.Random(7)
    acknowledged = set()
    padding = "x" * 2_000_000
    for number in range(20):
        with project.start() as process:
            with suppress(BrokenPipeError):
                process.stdin.write(
                    json.dumps(event("SessionEnd", session_id=str(number), x=padding)).encode()
                )
                process.stdin.close()
            time.sleep(dice.uniform(0, 0.03))
            process.kill()
            if process.wait(timeout=30) == 0:
                acknowledged.add(str(number))
    kept = [record["payload"] for record in records(project.spool)]
    assert all(payload["x"] == padding for payload in kept)
    assert acknowledged <= {payload["session_id"] for payload in kept}


@pytest.mark.parametrize("name", ["SessionEnd", "Stop", "SessionStart", "SubagentStart"])
def test_hook_ends_well_without_a_reader(project: Project, name: str) -> None:
    project.write_playbook(("oth-001", "text", 1, 0))
    with project.start() as process:
        process.stdout.close()
        process.stdin.write(json.dumps(event(name)).encode())
        process.stdin.close()
        assert process.wait(timeout=30) == 0


def test_last_hook_of_each_event_is_stamped_safely(
    project: Project,
) -> None:
    project.hook(event("SessionEnd"))
    stamp = project.state / "fired" / "SessionEnd"
    assert stamp.read_bytes() == b""
    os.utime(stamp, (1, 1))
    for name in ("SessionEnd", "SessionStart", "../../x", "a/b", "x" * 41, "."):
        project.hook(event("SessionEnd") | {"hook_event_name": name})
    assert stamp.stat().st_mtime > 1
    assert {path.name for path in files(project.state / "fired")} == {"SessionEnd", "SessionStart"}


@pytest.mark.parametrize("is_heard", [True, False])
@pytest.mark.parametrize(
    "name", ["SessionStart", "Stop", "PreCompact", "SubagentStop", "SessionEnd"]
)
def test_folder_without_a_playbook_stays_unchanged(
    project: Project, name: str, is_heard: bool
) -> None:
    if not is_heard:
        (project.home / ".config/reflector/config.toml").unlink()
    assert project.hook(event(name)) == (b"", b"")
    assert (list(project.path.iterdir()) == []) == (not is_heard or name == "SessionStart")
    kept = [path.name for path in (project.home / ".local").rglob("*") if path.is_file()]
    assert kept == ([] if not is_heard or name == "SessionStart" else [SEAL_KEY])


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may look everywhere"
)
def test_delivery_of_an_unreadable_folder_stays_at_home(
    project: Project,
) -> None:
    (project.home / ".config/reflector/config.toml").unlink()
    project.write_playbook(("oth-001", "Read the map first.", 0, 0))
    dropped = "-dac_override,-dac_read_search"  # what lets root look everywhere
    drop = (
        ["setpriv", "--bounding-set", dropped, "--inh-caps", dropped] if os.geteuid() == 0 else []
    )
    project.claude.chmod(0)
    project.hook(event("SessionEnd"), command=[*drop, *HOOK])
    project.claude.chmod(0o700)
    assert [record["project"] for record in records(project.fallback)] == [str(project.path)]
