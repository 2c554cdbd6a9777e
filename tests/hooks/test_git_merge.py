"""The merge driver where a version is no playbook; what it makes of two that are is asked with git itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from resource import RLIMIT_FSIZE, setrlimit

from reflector.playbook.bullet import Bullet
from reflector.playbook.document import MAX_BYTES, dump_shared


def merged(folder: Path, *versions: bytes) -> tuple[int, bytes]:
    paths = [folder / name for name in ("base", "ours", "theirs")]
    for path, version in zip(paths, versions, strict=True):
        path.write_bytes(version)
    command = [sys.executable, "-I", "-m", "reflector.hooks.git_merge", *paths]
    limit = (1 << 20, 1 << 20)  # of a file that is written
    done = subprocess.run(command, capture_output=True, preexec_fn=lambda: setrlimit(RLIMIT_FSIZE, limit))
    assert b"Traceback" not in done.stderr
    return done.returncode, paths[1].read_bytes()


def test_a_version_that_does_not_parse_is_merged_line_by_line(tmp_path: Path) -> None:
    base = dump_shared([Bullet("pat-001", "pat", "One.")])
    broken = base.replace(b'"One."', b'"One.",')
    assert merged(tmp_path, base, base, broken) == (0, broken)
    code, content = merged(tmp_path, base, base.replace(b"One", b"Two"), broken)
    assert (code, content.count(b"<<<<<<<")) == (1, 1)


def test_a_version_that_is_too_large_is_a_conflict_and_one_that_cannot_be_written_is_no_merge(tmp_path: Path) -> None:
    base = dump_shared([Bullet("pat-001", "pat", "One.")])
    assert merged(tmp_path, base, base, b" " * (MAX_BYTES + 1)) == (1, base)
    large = dump_shared([Bullet(f"pat-{n:04}", "pat", "x" * 3_000) for n in range(1, 500)])
    assert merged(tmp_path, base, base, large) == (129, base)
