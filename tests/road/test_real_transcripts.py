"""Real sessions of Claude Code, in any order, any number of times and in any pieces.

The transcripts are not part of the project. No public transcript cites a playbook, so citations and
the user's thanks for them are planted in copies. Every record keeps its uuid. The folder may also
contain judged transcripts with citations.
"""

import json
import lzma
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from reflector.playbook.document import load
from tests.reading import FILES, SHARED
from tests.road.conftest import BULLETS, CITES, SAYS, Yard, at_random

JUDGED = SHARED.parent / "judged"

pytestmark = pytest.mark.skipif(
    not FILES, reason=("set REFLECTOR_TRANSCRIPTS to a folder of real transcripts")
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Yard, list[Path]]:
    """Bullets, and transcripts that cite them: judged ones, and others with planted citations."""
    folder = tmp_path_factory.mktemp("real")
    bullets = list(BULLETS)
    files = [planted(path, folder / path.name, Random(path.name)) for path in FILES]
    if JUDGED.is_dir():
        bullets += load((JUDGED / "playbook.json").read_bytes()).bullets
        files += sorted((JUDGED / "transcripts").glob("*.jsonl.xz"))
    return Yard(folder, bullets), files


@pytest.mark.parametrize(
    "is_all",
    [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
    ids=["some", "all"],
)
def test_randomly_cut_real_sessions_count_like_the_whole(
    real: tuple[Yard, list[Path]], is_all: bool
) -> None:
    """Play three cuts, or at least 200, with at least one of each file."""
    yard, files = real
    chance = Random(8)
    small = [path for path in files if path.stat().st_size < 500_000 and path.suffix == ".jsonl"]
    differing, verdicts = [], 0
    for file in files if is_all else chance.sample(small, min(3, len(small))):
        path = file
        if file.suffix == ".xz":
            path = yard.folder / "t.jsonl"
            path.write_bytes(lzma.decompress(file.read_bytes()))
        whole = yard.taken(path)
        verdicts += len(whole.verdicts)
        times = -(-200 // len(files)) if is_all else 1
        differing += [
            file.name for _ in range(times) if yard.taken(path, at_random(chance, path)) != whole
        ]
    assert (differing, verdicts > 0 or not is_all) == ([], True)


def planted(path: Path, copy: Path, chance: Random) -> Path:
    """Return a copy in which the model cites bullets in some places, and the user comments on the
    results.
    """

    def change(record: dict[str, Any]) -> bool:
        body = record.get("message")
        content = body.get("content") if isinstance(body, dict) else None
        if (
            isinstance(content, list)
            and record.get("type") == "assistant"
            and chance.random() < 0.2
        ):
            words = chance.choice(CITES).format(chance.choice(BULLETS).name)
            record["message"]["content"] = [{"type": "text", "text": words}, *content]
        elif isinstance(content, str) and record.get("type") == "user" and chance.random() < 0.4:
            record["message"]["content"] = chance.choice(SAYS)
        else:
            return False
        return True

    lines = []
    for raw in path.read_bytes().splitlines(keepends=True):
        line = raw
        with suppress(ValueError):
            record = json.loads(raw)
            if isinstance(record, dict) and change(record):
                line = (
                    json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
                )
        lines.append(line)
    copy.write_bytes(b"".join(lines))
    return copy
