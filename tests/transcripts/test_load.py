from __future__ import annotations

import os
from pathlib import Path

import pytest

from reflector.transcripts.load import load_transcript
from tests.transcripts.records import SNAPSHOT, assistant, call, line, progress, result, user, write


def test_the_classic_list_holds_what_was_said_and_nothing_else(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t.jsonl",
        [
            SNAPSHOT,
            user(1, "Fix the login"),
            user(2, "Base directory", isMeta=True),
            user(3, "only shown", top={"isVisibleInTranscriptOnly": True}),
            user(4, "<command-name>/clear</command-name>"),
            user(5, "<local-command-stdout>done</local-command-stdout>"),
            assistant(6, {"type": "thinking", "thinking": "hm"}, "First", call(command="ls"), "Second"),
            assistant(7, call(command="ls")),
            user(8, [result("a.py")]),
            b"{broken\n",
            progress(9, {"message": assistant(10, "inner")}),
            line({"type": "user", "message": {"role": "", "content": "no role"}}),
            line({"type": "user", "message": {"role": "user", "content": ""}}),
            line({"type": "user", "message": "odd"}),
            line({"type": "assistant", "message": {"role": "assistant", "content": "old style"}}),
            b'[1]\n"text"\n7\n',
        ],
    )
    assert load_transcript(path) == [
        {"role": "user", "content": "Fix the login"},
        {"role": "assistant", "content": "First\nSecond"},
        {"role": "assistant", "content": "old style"},
    ]


def test_no_path_is_an_empty_list_and_a_pipe_is_an_error_that_holds_nobody_up(tmp_path: Path) -> None:
    assert load_transcript(None) == []
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(OSError, match="is not a regular file"):
        load_transcript(tmp_path / "pipe.jsonl")


def test_a_missing_transcript_is_empty_and_a_folder_is_an_error(tmp_path: Path) -> None:
    assert load_transcript(tmp_path / "none.jsonl") == []
    assert load_transcript(str(write(tmp_path / "empty.jsonl", []))) == []
    with pytest.raises(IsADirectoryError):
        load_transcript(tmp_path)
