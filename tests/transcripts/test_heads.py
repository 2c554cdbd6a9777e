"""The head and the end of a transcript are read without waiting for anything."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reflector.transcripts.heads import branch_in, is_whole, last_time, read_head


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["pipe.jsonl", "pipe.json"])
@pytest.mark.parametrize("read", [read_head, last_time])
def test_named_pipe_is_refused(tmp_path: Path, name: str, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(OSError, match="is not a regular file"):
        read(tmp_path / name)


@pytest.mark.timeout(20)
def test_named_pipe_names_no_branch(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert branch_in(tmp_path / "pipe.jsonl") == ""


@pytest.mark.timeout(20)
def test_named_pipe_has_no_beginning(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(OSError, match="is not a regular file"):
        is_whole(tmp_path / "pipe.jsonl")
