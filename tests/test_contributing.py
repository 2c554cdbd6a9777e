"""CONTRIBUTING.md: each walk is followed on a copy of the package, and what it adds is used."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from reflector.ledger.migration import HEAD_REVISION

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")

#: A project with one bullet, and its command line.
_SHOP = """
    import contextlib, io, os
    from reflector.cli.app import run

    def ask(*words):
        with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8", newline="")) as out:
            assert run(["--project", "shop", *words]) == 0, words
        return out.buffer.getvalue().decode()

    os.makedirs("shop/.claude")
    ask("add", "pat", "Short.")
"""

_PINNED = """
    import gzip, pathlib
    from reflector.events.event import NewEvent
    from reflector.events.fold import fold
    from reflector.ledger.as_of import Past
    from reflector.ledger.store import Ledger
    from reflector.proof.verify import verify

    older = pathlib.Path({made!r})
    pathlib.Path("old.db").write_bytes(gzip.decompress(older.read_bytes()))
    for name in ("old.db", "new.db"):
        with Ledger.open_file(pathlib.Path(name)) as ledger:
            bullet = {{"name": "ctx-009", "section": "ctx", "text": "Stay."}}
            ledger.append([NewEvent("bullet.added", "a", bullet, "human")])
            ledger.append([NewEvent("bullet.pinned", "p", {{"name": "ctx-009"}}, "human")])
            with ledger.engine.alchemy().connect() as connection:
                rows = connection.exec_driver_sql("SELECT name FROM bullet WHERE pinned = 1").fetchall()
            assert [row[0] for row in rows] == ["ctx-009"]
            assert fold(ledger.events()).entries["ctx-009"].pinned == 1
            assert Past(ledger, ledger.head().position).entries["ctx-009"].pinned == 1
            assert list(verify(ledger)) == []
            ledger.rebuild()
            assert list(verify(ledger)) == []
            with ledger.engine.alchemy().begin() as connection:
                connection.exec_driver_sql("UPDATE bullet SET pinned = 0")
            assert "pinned" in str(list(verify(ledger)))
"""

_KEYWORDS = """
    import json, pathlib

    blocks = {{"assistant": [{{"type": "text", "text": "As [pat-001] says."}}], "user": "Thanks!"}}
    lines = [
        {{"type": type_, "uuid": type_, "sessionId": "s", "message": {{"role": type_, "content": content}}}}
        for type_, content in blocks.items()
    ]
    pathlib.Path("s.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
    ask("ingest", "--backend", "keywords", "s.jsonl")
    (bullet,) = json.loads(ask("list", "--json"))
    assert bullet["helpful"] == 1, ask("log")
    assert "thanks" in ask("blame", "pat-001")
"""

_LONGEST = """
    import json

    ask("add", "pat", "This one is longer.")
    assert json.loads(ask("longest", "--json"))[0] == {{"name": "pat-002", "characters": 19}}
    assert "19" in ask("longest")
    assert "longest" in ask("--help")
    assert "reflector longest --as-of 10" in ask("longest", "--help")
    assert len(json.loads(ask("longest", "--as-of", "1", "--json"))) == 1
"""

_QUILL = """
    import json, pathlib
    from reflector.transcripts.reading import scan

    lines = [
        {{"quill": 1, "session": "s", "who": "ada", "at": "2026-01-01T00:00:00Z", "text": "Run the tests."}},
        {{"quill": 1, "session": "s", "who": "quill", "at": "2026-01-01T00:00:01Z", "text": "As [pat-001] says."}},
        {{}},  # a record that no format recognises is no message
    ]
    path = pathlib.Path("log.jsonl")
    path.write_text("".join(json.dumps(line) + "\\n" for line in lines))
    found = scan(path)
    assert (found.agent, found.session_id, len(found.keys)) == ("quill", "s", 2), found
"""

_USES = {
    "Add an event type": _PINNED,
    "Add a backend": _SHOP + _KEYWORDS,
    "Add a question": _SHOP + _LONGEST,
    "Add a transcript reader": _QUILL,
}


def _patches(walk: str) -> list[str]:
    """The patches of a walk, in order."""
    section = re.split(r"^## ", PAGE.split(f"\n## {walk}\n")[1], flags=re.MULTILINE)[0]
    return [dedent(block) for block in re.findall(r"^ *```diff\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)]


def test_the_revision_of_the_walk_follows_the_newest() -> None:
    newest, next_ = HEAD_REVISION, f"{int(HEAD_REVISION) + 1:04}"
    section = PAGE.split("\n## Add an event type\n")[1].split("\n## ")[0]
    wanted = (f"since={int(next_)},", f"versions/{next_}_pinned.py", f"Revision ID: {next_}", f"Revises: {newest}",
              f'+revision = "{next_}"', f'+down_revision = "{newest}"')  # fmt: skip
    lacking = [text for text in wanted if text not in section]
    assert not lacking, f"CONTRIBUTING.md, Add an event type: migration {newest} exists, so write {', '.join(lacking)}"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package as a checkout has it."""
    return _copied(tmp_path)


def _copied(folder: Path) -> Path:
    for name in ("reflector", "migrations", "prompts"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def _follow(copy: Path, patches: list[str], walk: str) -> subprocess.CompletedProcess[str]:
    for patch in patches:
        # A blank line of a patch has lost the space that says that it is context.
        text = "\n".join(line or " " for line in patch.rstrip("\n").split("\n")) + "\n"
        command = ["git", "apply", "--recount", "--unidiff-zero", "-C1", "-"]
        applied = subprocess.run(command, cwd=copy, input=text, text=True, capture_output=True)
        assert applied.returncode == 0, (
            f"CONTRIBUTING.md, {walk}: the code around this patch is another now; write its lines anew\n"
            f"{applied.stderr}\n{text}"
        )
    made = ROOT / "tests" / "ledger" / "made_by_older_versions" / "retracted-and-recounted.db.gz"
    code = dedent(_USES[walk]).format(made=str(made))
    home = {"HOME": str(copy), "PATH": "/usr/bin:/bin", "REFLECTOR_NO_SPAWN": "1"}
    return subprocess.run([sys.executable, "-c", code], cwd=copy, env=home, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("walk", _USES)
def test_each_walk_adds_what_it_says(copy: Path, walk: str) -> None:
    ran = _follow(copy, _patches(walk), walk)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.slow
def test_an_event_type_touches_at_most_four_files_and_none_may_be_left_out(tmp_path: Path) -> None:
    patches = _patches("Add an event type")
    assert len(patches) <= 4
    for number in range(len(patches)):
        ran = _follow(
            _copied(tmp_path / str(number)),
            [patch for at, patch in enumerate(patches) if at != number],
            "Add an event type",
        )
        assert ran.returncode != 0, patches[number]
