"""Recorded answers: what a request's key depends on, and what a file of them may look like; the
table of backends.
"""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from reflector.config import BACKENDS, OFFLINE, Config, ConfigError
from reflector.judges.backends.fixtures import FixturesBackend, Recording, request_sha256
from reflector.judges.model import ModelBackend
from reflector.judges.protocol import BackendError, Request
from reflector.judges.registry import backend_of, is_rereading, judge_kind
from reflector.playbook.bullet import Bullet
from reflector.transcripts.message import Message, ToolCall, ToolResult
from tests.judges.api import Api, answer, error, sound

TURNS = (
    Message(1, "u1", "user", "human", "", "t", "Fix it\r\nplease", ""),
    Message(
        2,
        "u2",
        "assistant",
        "model",
        "",
        "t",
        "As [pat-001] says.",
        "hm",
        (ToolCall("c", "Bash", {"command": "ls"}),),
    ),
    Message(3, "u3", "user", "tool", "", "t", "", "", (), (ToolResult("c", "a.py", False),)),
)
REQUEST = Request(
    "s-1", (Bullet("pat-001", "pat", "Test first.", 3, 1),), ("pat-001",), lambda: TURNS
)


def said_of(*turns: Message) -> Request:
    return replace(REQUEST, messages=lambda: turns)


def test_key_depends_on_session_and_advice_alone() -> None:
    other = [
        replace(REQUEST, cited=()),
        replace(REQUEST, playbook=()),
        replace(REQUEST, playbook=(Bullet("pat-001", "pat", "Test last.", 3, 1),)),
        replace(REQUEST, playbook=(Bullet("pat-001", "mis", "Test first.", 3, 1),)),
        *(said_of(*TURNS[:2]), said_of(TURNS[1], TURNS[0], TURNS[2])),
        said_of(TURNS[0]._replace(text="Mend it"), *TURNS[1:]),
        said_of(*TURNS[:2], TURNS[2]._replace(results=(ToolResult("c", "a.py", True),))),
        said_of(
            TURNS[0], TURNS[1]._replace(calls=(ToolCall("c", "Bash", {"command": "rm"}),)), TURNS[2]
        ),
    ]
    keys = [request_sha256(request) for request in (REQUEST, *other)]
    assert len(set(keys)) == len(keys)
    same = [
        replace(REQUEST, session_id="s-2", allowance=5),
        replace(REQUEST, playbook=(Bullet("pat-001", "pat", "Test first.", 30, 10),)),
        said_of(
            TURNS[0]._replace(text="Fix it\nplease", key=9, uuid="x", timestamp="z"), *TURNS[1:]
        ),
        said_of(TURNS[0], TURNS[1]._replace(thinking=""), TURNS[2]),
    ]
    assert {request_sha256(request) for request in same} == {keys[0]}


def test_a_key_is_the_same_on_every_machine() -> None:
    # Changing it makes every recorded file worthless.
    assert (
        request_sha256(REQUEST)
        == "fa82cecb0583421f6e8c3cf4904be7d62e96f34c34b73b870cf6fbe1ac48532e"
    )


def written(path: Path, *lines: str, end: str = "\n") -> FixturesBackend:
    path.write_bytes("".join(line + end for line in lines).encode())
    return FixturesBackend(path)


def line(completion: str, request: Request = REQUEST) -> str:
    fixture = {"prompt_hash": request_sha256(request), "completion": completion}
    return json.dumps(fixture, ensure_ascii=False)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n  \n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_last_answer_to_a_question_counts(tmp_path: Path, end: str, mark: str) -> None:
    other = line("other", replace(REQUEST, cited=()))
    given = written(tmp_path / "f.jsonl", mark + line("x"), other, line("Grüße"), end=end).answer(
        REQUEST
    )
    key = request_sha256(REQUEST)
    assert (given.text, given.prompt_sha256, given.model) == ("Grüße", key, f"fixtures:{key[:12]}")


_NO_FIXTURE, _UNREADABLE = (
    r"f\.jsonl, line 3: not a recorded answer",
    r"the recorded answers in .*f\.jsonl cannot be read",
)
#: What stands on the third line of a file, and what is said of it; without a line, what is in the
#: file's place.
UNREADABLE: dict[str, tuple[str | None, str]] = {
    **{bad[:30]: (bad, _NO_FIXTURE) for bad in ("{", "[]", "{}", "[" * 99_999)},
    "no text": ('{"prompt_hash": "a", "completion": null}', _NO_FIXTURE),
    "no key": ('{"prompt_hash": 1, "completion": "x"}', _NO_FIXTURE),
    "another request": (
        line("x", replace(REQUEST, cited=())),
        r"does not contain an answer to this request \([0-9a-f]{12}…\); record",
    ),
    **dict.fromkeys(["missing", "a folder", "not UTF-8"], (None, _UNREADABLE)),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_is_no_fixture_is_named(tmp_path: Path, what: str) -> None:
    bad, said = UNREADABLE[what]
    fixtures = FixturesBackend(tmp_path / "f.jsonl")
    if bad is not None:
        written(fixtures.path, line("other", replace(REQUEST, cited=("x",))), "", bad)
    elif what == "a folder":
        fixtures.path.mkdir()
    elif what == "not UTF-8":
        fixtures.path.write_bytes(b"\xff\n")
    with pytest.raises(BackendError, match=said) as failed:
        fixtures.answer(REQUEST)
    assert failed.value.stage == "fixtures"


def test_recorded_answers_have_no_secrets_and_replay_exactly(api: Api, tmp_path: Path) -> None:
    secret = "ghp_" + "Ab3" * 12
    api.does = [sound(answer(("pat-001", "helpful"), analysis=f"token={secret} \u2028 ok"))]
    path = tmp_path / "f.jsonl"
    path.write_text(line("an older answer") + "\n")
    recording = Recording(ModelBackend("anthropic", api.client()), path)
    assert (recording.name, recording.is_model) == ("anthropic", True)
    given = recording.answer(REQUEST)
    assert secret not in path.read_text() + given.text
    assert FixturesBackend(path).answer(REQUEST).text == given.text
    assert json.loads(given.text)["bullet_tags"][0]["tag"] == "helpful"
    before = path.read_bytes()
    api.else_ = error(401)
    with pytest.raises(BackendError):
        recording.answer(REQUEST)
    assert path.read_bytes() == before


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", BACKENDS)
def test_each_backend_has_its_name_and_kind(name: str) -> None:
    backend = backend_of(Config(backend=name, fixtures="answers.jsonl"))
    assert (backend.name, backend.is_model, backend.rereads) == (
        name,
        name not in OFFLINE,
        is_rereading(name),
    )
    kind = judge_kind(name)
    assert (kind.name, kind.rereads) == (name, backend.rereads)


@pytest.mark.parametrize("name", BACKENDS)
def test_page_has_a_row_for_each_backend(name: str) -> None:
    page = (DOCS / "judging.md").read_text("utf-8")
    assert f"| `{name}` |" in page, f"docs/judging.md needs a row for {name}"


@pytest.mark.parametrize(
    "module", [*(f"reflector.judges.backends.{name}" for name in BACKENDS), "tests.judges.chat"]
)
def test_module_of_a_judge_is_cheap(module: str) -> None:
    """`status` and `doctor` import it, so an SDK is loaded only to ask."""
    code = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=DOCS.parent)
    assert {"httpx2", "anthropic", "pydantic"}.isdisjoint(done.stdout.split())


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            Config(backend="oracle"),
            f"'oracle' is not a backend; the backends are {', '.join(BACKENDS)}",
        ),
        *(
            (Config(backend="fixtures", fixtures=name), "fixtures")
            for name in ("  ", "~nobody-of-that-name/f.jsonl")
        ),
    ],
)
def test_what_is_no_backend_is_refused_by_name(config: Config, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        backend_of(config)


def test_relative_fixtures_path_is_one_of_the_project(tmp_path: Path) -> None:
    backend = backend_of(Config(backend="fixtures", fixtures=" f.jsonl "), tmp_path)
    assert backend == FixturesBackend(tmp_path / "f.jsonl")
