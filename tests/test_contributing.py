"""CONTRIBUTING.md: `git apply` applies the patch of each walk to a copy of the code, and what it
adds is used.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from reflector.config import Config
from reflector.judges.model import ModelBackend

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

_PRAISED = """
    import gzip, pathlib
    from reflector.audit.log import summary
    from reflector.events.event import NewEvent
    from reflector.ledger.store import Ledger
    from reflector.proof.verify import verify

    pathlib.Path("old.db").write_bytes(gzip.decompress(pathlib.Path({made!r}).read_bytes()))
    for name in ("old.db", "new.db"):
        with Ledger.open_file(pathlib.Path(name)) as ledger:
            bullet = {{"name": "ctx-009", "section": "ctx", "text": "Stay."}}
            ledger.append([NewEvent("bullet.added", "a", bullet, "human")])
            ledger.append([NewEvent("bullet.praised", "p", {{"name": "ctx-009"}}, "human")])
            events = ledger.events(types=["bullet.praised"])
            assert [summary(event) for event in events] == ["ctx-009"]
            assert list(verify(ledger)) == []
            ledger.rebuild()
            assert list(verify(ledger)) == []
"""

_KEYWORDS = """
    import json, pathlib

    blocks = {{"assistant": [{{"type": "text", "text": "As [pat-001] says."}}], "user": "Thanks!"}}
    lines = [
        {{"type": type_, "uuid": type_, "sessionId": "s",
         "message": {{"role": type_, "content": content}}}}
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
    assert list(json.loads(ask("longest", "--json")).items()) == [("pat-002", 19), ("pat-001", 6)]
    assert "19" in ask("longest")
    assert "longest" in ask("--help")
    assert "reflector longest --as-of 10" in ask("longest", "--help")
    assert len(json.loads(ask("longest", "--as-of", "1", "--json"))) == 1
"""

_QUILL = """
    import json, pathlib
    from reflector.transcripts.reading import scan

    lines = [
        {{"quill": 1, "session": "s", "who": "ada", "at": "2026-01-01T00:00:00Z",
         "text": "Run the tests."}},
        {{"quill": 1, "session": "s", "who": "quill", "at": "2026-01-01T00:00:01Z",
         "text": "As [pat-001] says."}},
        {{}},  # a record that no format recognises is no message
    ]
    path = pathlib.Path("log.jsonl")
    path.write_text("".join(json.dumps(line) + "\\n" for line in lines))
    found = scan(path)
    assert (found.agent, found.session_id, len(found.keys)) == ("quill", "s", 2), found
"""

_USES = {
    "Add an event type": _PRAISED,
    "Add a backend": _SHOP + _KEYWORDS,
    "Add a question": _SHOP + _LONGEST,
    "Add a transcript reader": _QUILL,
}


def _patch(walk: str) -> str:
    """The patch of a walk, as the page has it."""
    section = re.split(r"^## ", PAGE.split(f"\n## {walk}\n")[1], flags=re.MULTILINE)[0]
    (patch,) = re.findall(r"^```diff\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    return str(patch)


def _git(folder: Path, *words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=folder, input=text, text=True, capture_output=True)


def test_the_page_is_short_and_its_walks_are_those_that_are_tried() -> None:
    assert len(PAGE.splitlines()) <= 200
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == [*_USES]


def test_a_client_of_a_model_is_given_to_the_backend_as_the_page_says() -> None:
    (said,) = re.findall(r"`(ModelBackend\(.*\))`", PAGE)
    names = {
        "ModelBackend": ModelBackend,
        "YourClient": object,
        "project": None,
        "config": Config(),
    }
    assert eval(said, names).name == "yours"


@pytest.mark.parametrize("walk", _USES)
def test_each_patch_applies_and_adds_what_its_walk_says(tmp_path: Path, walk: str) -> None:
    # what is compiled goes along: compiling takes seconds
    for name in ("reflector", "migrations", "prompts", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name)
    assert _git(tmp_path, "init", "-q").returncode == 0
    applied = _git(tmp_path, "apply", "-", text=_patch(walk))
    assert applied.returncode == 0, (
        f"CONTRIBUTING.md, {walk}: write the patch again\n{applied.stderr}"
    )
    made = ROOT / "tests" / "ledger" / "made_by_older_versions" / "retracted-and-recounted.db.gz"
    code = dedent(_USES[walk]).format(made=str(made))
    home = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "REFLECTOR_NO_SPAWN": "1"}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=home, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
