"""Stand-ins on loopback for the APIs that real clients ask.

None holds any state of a conversation: what it answers follows from the request alone. The newest prompt that holds a
known cue chooses a script, and the model's messages behind that prompt tell which step of it comes next. So a
subagent, a summary and a resumed session each get their own answers, in whatever order the client asks.
"""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple, TypeVar

Block = dict[str, Any]


def says(text: str) -> Block:
    """Words of the model."""
    return {"type": "text", "text": text}


def calls(tool: str, **arguments: Any) -> Block:
    """A tool that the model calls."""
    return {"type": "tool_use", "name": tool, "input": arguments}


@dataclass(frozen=True)
class Step:
    """One message of the model; `tokens` is how large the client is told that its request was."""

    blocks: tuple[Block, ...]
    tokens: int = 1000
    seconds: float = 0.0


def step(*blocks: Block, tokens: int = 1000, seconds: float = 0.0) -> Step:
    """One message of the model, sent after some seconds."""
    return Step(blocks, tokens, seconds)


class Reply(NamedTuple):
    """What an API answers, after some seconds."""

    kind: str
    body: bytes
    seconds: float = 0.0


_LAST = step(says("All right."))

FIX = "Please fix the total of the cart."
FIXED = (
    step(says("I look at the tests."), calls("Bash", command="make test", description="Run the tests")),
    step(
        says("As [pat-001] says, the failing test came first."),
        calls("Bash", command="sed -i 's/0/sum(items)/' cart.py", description="Add the items up"),
    ),
    step(says("Again."), calls("Bash", command="make test", description="Run the tests")),
    step(says("The total is right now.")),
)
ON = "And now add the tax."
TAXED = (step(says("I follow [mis-001] there, no mocks.")),)


class Scripted(ABC):
    """A stand-in. `asked` holds the body of every request that a script answered, in the order in which they came."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []
        self._scripts: dict[str, Sequence[Step]] = {}
        self.serial = count(1)

    @abstractmethod
    def reply(self, path: str, body: dict[str, Any]) -> Reply | None:
        """The answer to a POST; None for what is not there."""

    @abstractmethod
    def newest_first(self, body: dict[str, Any]) -> Iterator[str | None]:
        """The turns of a request's conversation: what a user said, None for a turn of the model."""

    @abstractmethod
    def text_of(self, body: dict[str, Any]) -> str:
        """Everything that a request tells the model besides the tools' descriptions."""

    def told(self, cue: str, at: int = 0) -> str:
        """What a request of that conversation tells the model."""
        return self.text_of(self.asked_about(cue)[at])

    def when(self, cue: str, *steps: Step) -> None:
        """Answer prompts that hold `cue` step by step; what follows the last is "All right."."""
        self._scripts[cue] = steps

    def asked_about(self, cue: str) -> list[dict[str, Any]]:
        """The requests of a conversation whose newest cue is that one."""
        return [body for body in self.asked if self._place(body)[0] == cue]

    def answer(self, body: dict[str, Any]) -> Step:
        """The step that a request asks for; the request is kept."""
        self.asked.append(body)
        cue, at = self._place(body)
        steps = self._scripts.get(cue, ())
        return steps[at] if at < len(steps) else _LAST

    def _place(self, body: dict[str, Any]) -> tuple[str, int]:
        """The newest cue of a conversation, and how many turns of the model stand behind it."""
        behind = 0
        for said in self.newest_first(body):
            if said is None:
                behind += 1
                continue
            found = [(said.rfind(cue), cue) for cue in self._scripts if cue in said]
            if found:
                return max(found)[1], behind
        return "", behind


Api = TypeVar("Api", bound=Scripted)


@contextmanager
def serving(kind: type[Api]) -> Iterator[Api]:
    """A stand-in that listens."""
    api: Api

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._send(404, Reply("application/json", b"{}"))

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            reply = api.reply(self.path, body)
            if reply is None:
                self.do_GET()
            else:
                time.sleep(reply.seconds)
                self._send(200, reply)

        def _send(self, status: int, reply: Reply) -> None:
            try:
                self.send_response(status)
                self.send_header("content-type", reply.kind)
                self.send_header("content-length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
            except ConnectionError:  # a client that was killed while it waited
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # as above, where it was killed while it asked

    with Server(("127.0.0.1", 0), Handler) as server:
        api = kind(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
