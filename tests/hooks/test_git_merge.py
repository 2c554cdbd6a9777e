"""The merge driver where a version is no playbook; what it makes of two that are is asked with git itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from reflector.playbook.bullet import Bullet
from reflector.playbook.document import dump_shared


def merged(folder: Path, *versions: bytes) -> tuple[int, bytes]:
    paths = [folder / name for name in ("base", "ours", "theirs")]
    for path, version in zip(paths, versions, strict=True):
        path.write_bytes(version)
    done = subprocess.run([sys.executable, "-I", "-m", "reflector.hooks.git_merge", *paths], capture_output=True)
    assert b"Traceback" not in done.stderr
    return done.returncode, paths[1].read_bytes()


def test_a_version_that_does_not_parse_is_merged_line_by_line(tmp_path: Path) -> None:
    base = dump_shared([Bullet("pat-001", "pat", "One.")])
    broken = base.replace(b'"One."', b'"One.",')
    assert merged(tmp_path, base, base, broken) == (0, broken)
    code, content = merged(tmp_path, base, base.replace(b"One", b"Two"), broken)
    assert (code, content.count(b"<<<<<<<")) == (1, 1)
