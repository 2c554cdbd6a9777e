"""Sessions of agents without a built-in reader: one file each in `foreign/`."""

from pathlib import Path

import pytest

from reflector.transcripts.readers import built_in_readers
from reflector.transcripts.reading import UnknownTranscript, scan
from tests.road.agent import Agent

#: A reader that is built in takes the sessions of its agent.
READ = {
    name.lower().replace(" ", "-")
    for reader in built_in_readers()
    for name in (reader.agent, reader.name)
}
FOREIGN = [
    path for path in sorted((Path(__file__).parent / "foreign").iterdir()) if path.stem not in READ
]


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_a_foreign_transcript_is_refused_by_name(path: Path) -> None:
    with pytest.raises(UnknownTranscript, match=path.name) as refused:
        scan(path)
    assert "can read transcripts of Claude Code" in str(refused.value)


def test_a_foreign_transcript_records_no_session(agent: Agent) -> None:
    ran = agent.call("ingest", *FOREIGN, code=1)
    assert all(str(path) in ran.err for path in FOREIGN)
    assert agent.events("session.recorded") == []
