from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reflector.transcripts import citing, records
from reflector.transcripts.citations import citations_of
from reflector.transcripts.citing import citing_messages, messages_at
from reflector.transcripts.claude_code import read_messages
from reflector.transcripts.scan import scan
from tests.transcripts.records import SNAPSHOT, assistant, line, progress, result, user, uuid, write

WRITTEN = [
    SNAPSHOT,
    user(1, "what about [pat-001]?"),
    assistant(2, "As [pat-001] says"),
    progress(3, {"message": assistant(4, "[pat-001]")}),
    assistant(5, "```\n[pat-001]\n```"),
    user(6, [result("[mis-002]")]),
    assistant(7, "No response. [pat-001]", model="<synthetic>"),
    assistant(2, "As [pat-001] says"),
    line(user(8, "x")).rstrip() + line(assistant(9, "[mis-002] and [kpt_1]")),
    assistant(10, {"type": "thinking", "thinking": "[oth-5]"}),
]


def test_the_models_citing_messages_are_found_and_no_others(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", WRITTEN)
    found = list(citing_messages(path))
    assert [(m.uuid, citations_of(m)) for m in found] == [
        (uuid(2), ["pat-001"]),
        (uuid(9), ["mis-002", "kpt_1"]),
        (uuid(10), ["oth-5"]),
    ]
    assert found == [m for m in read_messages(path) if citations_of(m)]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1500), st.sampled_from([10, 600, 1 << 20]), st.sampled_from([300, 1 << 25]))
def test_it_finds_what_reading_finds_whatever_blocks_and_limits(
    tmp_path: Path, cut: int, block: int, longest: int
) -> None:
    path = write(tmp_path / "t.jsonl", [*WRITTEN, assistant(11, "x" * 700 + "[pat-001]"), assistant(12, "[pat-9]")])
    limit = path.stat().st_size - cut
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(citing, "_BLOCK", block)
        for module in (citing, records):
            patch.setattr(module, "LINE_LIMIT", longest)
        if longest < 400:
            path.write_bytes(line(SNAPSHOT) + path.read_bytes())
        found = list(citing_messages(path, limit))
        assert found == [m for m in read_messages(path, limit=limit) if citations_of(m)]


def test_the_suspects_of_a_scan_are_read_from_their_places(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", WRITTEN)
    places = scan(path).cited
    assert [m.uuid for m in messages_at(path, places)] == [uuid(2), uuid(5), uuid(7), uuid(9), uuid(10)]
    write(path, [user(1, "another file"), *WRITTEN[3:]])
    assert list(messages_at(path, places[:1])) == []
