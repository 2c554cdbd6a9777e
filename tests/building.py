"""Builders for tests of several rooms: repositories, forged files, judges that answer from a list,
messages of a session, and hypothesis strategies.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from reflector import (
    files,
)
from reflector.events.event import NewEvent
from reflector.exchange.transfer import (
    exported,
)
from reflector.files import Folder
from reflector.judges.protocol import Answer, Request
from reflector.ledger.canonical import (
    MAX_INT,
    next_chain,
    plain,
    sealed,
)
from reflector.ledger.store import Ledger
from reflector.playbook.admissible import MAX_COUNT, text_fault
from reflector.playbook.bullet import Bullet
from reflector.playbook.names import SECTIONS
from reflector.transcripts.message import Message, ToolCall, ToolResult
from tests.conftest import sqlite_file
from tests.ledger.events import (
    added,
)


def git(folder: Path, *arguments: str | Path) -> None:
    """Run git with a fixed author."""
    who = (
        "user.name=N",
        "user.email=n@example.org",
        "init.defaultBranch=main",
        "maintenance.auto=false",
    )
    options = [word for one in who for word in ("-c", one)]
    subprocess.run(["git", *options, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, *forced: str) -> None:
    """Commit everything in a folder, or these files and folders even if git ignores them. The
    folder need not be a repository.
    """
    git(folder, "init")
    git(folder, "add", *(["-f", *forced] if forced else ["."]))
    git(folder, "commit", "-m", "something useful")


#: A secret that reflector recognises.
TOKEN = "ghp_" + "a1B2" * 9
#: Ledgers that older versions made.
OLDER = Path(__file__).with_name("ledger") / "made_by_older_versions"


def add_bullets(ledger: Ledger, *names: str) -> None:
    """Append a bullet for each name."""
    ledger.append([added(name, f"Advice {name}.") for name in names])


def forged(*events: NewEvent, at: str = "2026-01-02T03:04:05.000000Z") -> list[str]:
    """Return the lines of a forged file. Its hashes are right, but no ledger would have recorded
    these events, all at one time.
    """
    with sqlite_file() as url, Ledger.open(url) as ledger:
        head = ledger.head()
        lines: list[str] = []
        chain = head.chain
        for position, e in enumerate(events, start=1):
            (_, of), (meta, of_meta) = sealed(plain(e.data)), sealed(plain(e.meta))
            header = (
                position,
                e.event_id,
                e.type,
                1,
                at,
                at,
                e.actor,
                e.session_id,
                e.reflection_id,
                e.target_id,
            )
            chain = next_chain(chain, header, of, of_meta)
            names = ("position", "id", "type", "schemaversion", "occurredat", "time", "actor")
            line = {"specversion": "1.0", "source": f"urn:reflector:ledger:{head.origin}"}
            line |= dict(zip(names, header, strict=False)) | {
                "datahash": of,
                "meta": meta,
                "chain": chain,
            }
            more = {
                "sessionid": e.session_id,
                "reflectionid": e.reflection_id,
                "targetid": e.target_id,
            }
            line |= {name: value for name, value in more.items() if value} | {"data": e.data}
            lines.append(json.dumps(line))
        first = json.loads(next(exported(ledger)))
        first["data"] |= {"position": len(events), "chain": chain}
        return [json.dumps(first), *lines]


def meanwhile(monkeypatch: pytest.MonkeyPatch, path: Path, happens: Callable[[], Any]) -> None:
    """Call a function when a file is about to be written the next time."""
    really, left = files.put, [happens]

    def writing(folder: Folder, temporary: str, name: str, *rest: Any) -> None:
        if name == path.name and left:
            left.pop()()
        really(folder, temporary, name, *rest)

    monkeypatch.setattr(files, "put", writing)


def entry(name: str, helpful: int = 0, harmful: int = 0, text: str = "t") -> dict[str, Any]:
    """Return an entry of a `playbook`."""
    return {"name": name, "text": text, "helpful": helpful, "harmful": harmful}


def playbook(**sections: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document of a playbook.json, with entries by the slug of their section."""
    return {
        "version": "1.0",
        "sections": {title: sections.get(slug, []) for slug, title in SECTIONS.items()},
    }


@dataclass
class Says:
    """A backend that gives these answers, or raises them."""

    answers: list[str | Exception]
    name: str = "scripted"
    is_model: bool = False
    rereads: bool = False
    quotes: bool = False
    asked: list[Request] = field(default_factory=list)

    def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Answer(answer, "model-1", "p" * 64, "t" * 64, {"input_tokens": 7})


def tags(*entries: Any, analysis: str = "It went well.") -> str:
    """Return a judge's answer with these entries."""
    return json.dumps({"analysis": analysis, "bullet_tags": list(entries)})


def tag(name: str, verdict: str, rationale: str = "because") -> dict[str, str]:
    """Return an answer's entry about a bullet."""
    return {"name": name, "tag": verdict, "rationale": rationale}


def says(text: str, chain: str = "") -> Message:
    """Return words of the model."""
    return Message(0, "", "assistant", "model", chain, "", text)


def calls(tool: str, chain: str = "", **given: Any) -> Message:
    """Return a tool call."""
    return Message(
        0, "", "assistant", "model", chain, "", "", calls=(ToolCall(str(given), tool, given),)
    )


def done(call: Message, text: str, *, error: bool = False, chain: str = "") -> list[Message]:
    """Return a call with its result."""
    result = ToolResult(call.calls[0].id, text, error)
    return [call, Message(0, "", "user", "tool", chain, "", "", results=(result,))]


def runs(command: str, text: str, *, error: bool = False, chain: str = "") -> list[Message]:
    """Return a shell command with its output."""
    return done(calls("Bash", chain, command=command), text, error=error, chain=chain)


def edits(file: str = "/app/store.py", old: str = "a = 1", new: str = "a = 2") -> list[Message]:
    call = calls("Edit", file_path=file, old_string=old, new_string=new)
    return done(call, f"The file {file} has been updated.")


def reads(file: str = "/app/store.py") -> list[Message]:
    return done(calls("Read", file_path=file), "1 a = 1")


def person(text: str) -> Message:
    """Return words of the user."""
    return Message(0, "", "user", "human", "", "", text)


def refuses(reason: str) -> Message:
    """Return the user's refusal of a call, with these words."""
    return Message(0, "", "user", "refusal", "", "", reason)


#: The text of answers, complete and in parts.
TAG_1 = '{"name": "pat-001", "tag": "helpful", "rationale": "tests passed"}'
TAG_2 = '{"name": "mis-002", "tag": "harmful", "rationale": "it broke"}'
OBJECT = f'{{"analysis": "all well", "bullet_tags": [{TAG_1}, {TAG_2}]}}'
FRAGMENTS = st.one_of(
    st.sampled_from(
        [
            "\n",
            " ",
            "```json\n",
            *("{ } [ ] \" ' : , \\ ` ``` NaN null 1 /* // </think> “ ” \\ud800 true x").split(),
        ]
    ),
    st.sampled_from(
        [
            '"analysis": ',
            '"bullet_tags": ',
            '"name": ',
            '"tag": ',
            '"pat-001"',
            '"helpful"',
            '"rationale": "',
        ]
    ),
    st.sampled_from([TAG_1, TAG_2, OBJECT, '\\"bullet_tags\\"']),
    st.text(max_size=8),
)
#: Any answer that a model could give.
ANSWERS = st.lists(FRAGMENTS, max_size=20).map("".join) | st.text()

#: Possible values in an event.
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_LEAVES = st.none() | st.booleans() | st.integers(-MAX_INT, MAX_INT) | _TEXT
_VALUES = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4)
)
OBJECTS = st.dictionaries(_TEXT, _VALUES, max_size=5)

#: Bullets of a playbook.json.
NAMES = st.builds(
    "{}{}".format,
    st.sampled_from(["pat-", "mis-0", "pref-00", "ctx-", "kpt_"]),
    st.integers(0, 999_999),
)
TEXTS = st.text(min_size=1, max_size=60).filter(lambda text: text_fault(text) is None)
COUNTS = st.integers(min_value=0, max_value=MAX_COUNT)
BULLETS = st.builds(Bullet, NAMES, st.sampled_from(list(SECTIONS)), TEXTS, COUNTS, COUNTS)
PLAYBOOKS = st.lists(BULLETS, max_size=6, unique_by=lambda b: b.name).map(
    lambda bullets: tuple(sorted(bullets, key=lambda b: list(SECTIONS).index(b.section)))
)
