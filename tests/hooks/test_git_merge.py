"""The merge driver, as git calls it: three files, and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reflector.playbook.bullet import Bullet
from reflector.playbook.document import dump, dump_shared, load

OLD = [Bullet("pat-001", "pat", "One.")]


def merged(folder: Path, *versions: bytes, rebase: bool = False) -> tuple[int, bytes]:
    paths = [folder / name for name in ("base", "ours", "theirs")]
    for path, version in zip(paths, versions, strict=True):
        path.write_bytes(version)
    subprocess.run(["git", "init", "-q", folder], check=True)
    if rebase:
        (folder / ".git" / "rebase-merge").mkdir()
    command = [sys.executable, "-I", "-m", "reflector.hooks.git_merge", *map(str, paths)]
    done = subprocess.run(command, cwd=folder, capture_output=True)
    assert b"Traceback" not in done.stderr
    return done.returncode, paths[1].read_bytes()


def test_a_file_that_both_sides_added_and_counted_is_merged_without_its_counts(tmp_path: Path) -> None:
    ours = dump([Bullet("pat-001", "pat", "One.", 3, 0)], "2026-01-01T00:00:00Z")
    theirs = dump([Bullet("pat-001", "pat", "One.", 5, 1), Bullet("mis-001", "mis", "Two.")], "2026-01-02T00:00:00Z")
    both = dump_shared([*OLD, Bullet("mis-001", "mis", "Two.")])
    assert merged(tmp_path, b"", ours, theirs) == (0, both)


@pytest.mark.parametrize("rebase", [False, True])
def test_a_published_name_stays_whichever_side_git_calls_ours(tmp_path: Path, rebase: bool) -> None:
    published, own = ([*OLD, Bullet("pat-002", "pat", text)] for text in ("Published.", "Own."))
    sides = (published, own) if rebase else (own, published)
    code, content = merged(tmp_path, dump_shared(OLD), *map(dump_shared, sides), rebase=rebase)
    assert code == 0
    texts = {bullet.name: bullet.text for bullet in load(content).bullets}
    assert texts == {"pat-001": "One.", "pat-002": "Published.", "pat-003": "Own."}


def test_a_version_that_does_not_parse_is_merged_line_by_line(tmp_path: Path) -> None:
    base = dump_shared(OLD)
    broken = base.replace(b'"One."', b'"One.",')
    assert merged(tmp_path, base, base, broken) == (0, broken)
    code, content = merged(tmp_path, base, base.replace(b"One", b"Two"), broken)
    assert code == 1
    assert content.count(b"<<<<<<<") == 1
