"""A stand-in for the Messages API on loopback: it does what it is told to, one behaviour a request.

The SDK that asks it is the real one, over real HTTP. What is not told is answered with `sound()`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_httpserver
from werkzeug import Request, Response

from reflector.config import Config
from reflector.judges.api import Api as ApiFacts, ApiSettings, Ask
from reflector.judges.backends.anthropic import ANTHROPIC

if TYPE_CHECKING:
    from reflector.judges.http_api import HttpClient
    from reflector.judges.kind import JudgeKind
    from reflector.judges.model import ModelBackend

KEY = "key-of-the-tests-0001"
MODEL = "claude-sonnet-5-5"
USAGE = {"input_tokens": 1200, "output_tokens": 80}


def answer(
    *tags: tuple[str, str],
    analysis: str = "It went well.",
    turn: int = 3,
    quote: str = "that works. T",
) -> str:
    """A model's answer: (name, tag) each, with a rationale and the evidence that `Session.cites`
    has.
    """
    entries = [
        {
            "name": name,
            "rationale": f"{name} was {tag}.",
            "turn": turn,
            "quote": quote,
            "sure": "sure",
            "tag": tag,
        }
        for name, tag in tags
    ]
    return json.dumps({"analysis": analysis, "bullet_tags": entries})


@dataclass(frozen=True)
class Behaviour:
    """What the API does with one request: answers, or never does (`silent`)."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False

    def cut(self, at: int) -> Behaviour:
        """The same, with the connection closed after so many bytes of the body."""
        return replace(
            self,
            body=self.body[:at],
            headers={**self.headers, "content-length": str(len(self.body))},
        )


def sound(
    text: str | None = None, headers: Mapping[str, str] | None = None, **fields: Any
) -> Behaviour:
    """A message with one block of text; `fields` replace those of the message."""
    content = [{"type": "text", "text": answer(("pat-001", "helpful")) if text is None else text}]
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
    }
    return raw(message | {"stop_reason": "end_turn", "usage": USAGE} | fields, **(headers or {}))


def raw(value: Any, status: int = 200, **headers: str) -> Behaviour:
    """Any JSON."""
    return Behaviour(
        status, json.dumps(value).encode(), {"content-type": "application/json", **headers}
    )


def error(
    status: int, type_: str = "api_error", message: str = "it went wrong", **headers: str
) -> Behaviour:
    """An error as the API tells it."""
    return raw({"type": "error", "error": {"type": type_, "message": message}}, status, **headers)


TOO_LONG = error(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum")


@dataclass(frozen=True)
class Asked:
    """A request that came in; the headers' names are in lower case."""

    headers: Mapping[str, str]
    body: dict[str, Any]
    path: str

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content of the one user message."""
        (message,) = self.body["messages"]
        assert message["role"] == "user"
        content: list[dict[str, Any]] = message["content"]
        return content

    @property
    def text(self) -> str:
        return "".join(block["text"] for block in self.blocks)


class Api:
    """The stand-in. `does` holds the next behaviours, `else_` what follows when they are used
    up.
    """

    def __init__(self, server: pytest_httpserver.HTTPServer) -> None:
        from reflector.judges.http_api import HttpClient

        self._client = HttpClient
        self.url = server.url_for("").rstrip("/")
        self._let_go = threading.Event()
        self.reset()
        server.expect_request(re.compile(".*")).respond_with_handler(self._handle)

    def reset(self) -> None:
        """Forget everything; who waits for an answer is let go."""
        self._let_go.set()
        self._let_go = threading.Event()
        self.asked: list[Asked] = []
        self.does: list[Behaviour] = []
        self.waits: list[float] = []
        self.jitter = 1.0
        self.else_: Behaviour | Callable[[Asked], Behaviour] = sound()

    def client(self, **fields: Any) -> HttpClient:
        """Who asks it, which may take a while on a busy machine; `fields` replace those of the
        settings.
        """
        variable = "ANTHROPIC_AUTH_TOKEN" if fields.pop("bearer", False) else "ANTHROPIC_API_KEY"
        given: dict[str, Any] = {"api": ANTHROPIC, "model": MODEL, "key": KEY, "base_url": self.url}
        given["variable"] = variable
        return self.hurried(
            ApiSettings(**(given | {"request_seconds": 30.0, "deadline": 60.0} | fields))
        )

    def hurried(self, settings: ApiSettings, ask: Ask | None = None) -> HttpClient:
        """A client whose pauses are noted down in `waits` instead of waited for."""

        from reflector.judges.messages_api import ask_once  # two seconds for the SDK

        async def sleep(seconds: float) -> None:
            self.waits.append(seconds)

        return self._client(settings, ask or ask_once, sleep, lambda: self.jitter)

    def judge(
        self, kind: JudgeKind, facts: ApiFacts, monkeypatch: pytest.MonkeyPatch
    ) -> ModelBackend:
        """The judge of an API with these facts, which asks this stand-in."""
        from reflector.judges.model import ModelBackend

        monkeypatch.setenv(facts.keys[-1], KEY)
        monkeypatch.setenv(facts.urls[-1], self.url)
        monkeypatch.setattr("reflector.judges.http_api.HttpClient", self.hurried)
        backend = kind.build(Config(backend=kind.name), None)
        assert isinstance(backend, ModelBackend)
        return backend

    def environ(self, **more: str) -> dict[str, str]:
        """The variables by which a process finds it."""
        return {"ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": KEY, **more}

    def wait_until_asked(self, times: int = 1) -> None:
        """Wait until that many requests came in."""
        end = time.monotonic() + 60
        while len(self.asked) < times:
            assert time.monotonic() < end
            time.sleep(0.02)

    def _handle(self, request: Request) -> Response:
        headers = {name.lower(): value for name, value in request.headers}
        self.asked.append(asked := Asked(headers, json.loads(request.get_data()), request.path))
        let_go = self._let_go
        does = self.does.pop(0) if self.does else self.else_
        behaviour = does if isinstance(does, Behaviour) else does(asked)
        if behaviour.silent:
            let_go.wait(120)
        return Response([behaviour.body], behaviour.status, list(behaviour.headers.items()))


@contextmanager
def serving() -> Iterator[Api]:
    """A stand-in that listens."""
    with pytest_httpserver.HTTPServer(host="127.0.0.1", threaded=True) as server:
        api = Api(server)
        yield api
        api.reset()
