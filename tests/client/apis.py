"""Stand-ins on loopback for the APIs that real clients ask.

None holds any state of a conversation: what it answers follows from the request alone. The newest
prompt that holds a known cue chooses a script, and the model's messages behind that prompt tell
which step of it comes next. So a subagent, a summary and a resumed session each get their own
answers, in whatever order the client asks.
"""

from __future__ import annotations

import json
import threading
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


def step(*blocks: Block, tokens: int = 1000) -> Step:
    """One message of the model."""
    return Step(blocks, tokens)


class Reply(NamedTuple):
    """What an API answers."""

    kind: str
    body: bytes

    @classmethod
    def stream(cls, events: Sequence[dict[str, Any]]) -> Reply:
        """Typed events, as they are streamed."""
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        return cls("text/event-stream", "".join(lines).encode())


_LAST = step(says("All right."))

ADVICE = "[pat-001] helpful=0 harmful=0 :: Write the failing test first."
FIX = "Please fix the total of the cart."
FIXED = (
    step(
        says("I look at the tests."),
        calls("Bash", command="make test", description="Run the tests"),
    ),
    step(
        says("As [pat-001] says, the failing test came first."),
        calls("Bash", command="sed -i 's/0/sum(items)/' cart.py", description="Add the items up"),
    ),
    step(says("Again."), calls("Bash", command="make test", description="Run the tests")),
    step(says("The total is right now.")),
)
ON = "And now add the tax."
TAXED = (step(says("I leave it, [mis-001 wrong: there are no mocks].")),)


class Scripted(ABC):
    """A stand-in. `asked` holds the body of every request that a script answered, in the order in
    which they came.

    shell  what the client calls the tool that is `Bash` in a script
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.shell = "Bash"
        self.asked: list[dict[str, Any]] = []
        self._scripts: dict[str, Sequence[Step]] = {FIX: FIXED, ON: TAXED}
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
        found = steps[at] if at < len(steps) else _LAST
        renamed = [
            {**one, "name": self.shell} if one.get("name") == "Bash" else one
            for one in found.blocks
        ]
        return Step(tuple(renamed), found.tokens)

    def _place(self, body: dict[str, Any]) -> tuple[str, int]:
        """The newest cue of a conversation, and how many turns of the model stand behind it."""
        behind = 0
        for said in self.newest_first(body):
            if said is None:
                behind += 1
            elif found := [(said.rfind(cue), cue) for cue in self._scripts if cue in said]:
                return max(found)[1], behind
        return "", behind


class MessagesApi(Scripted):
    """The streaming Messages API, which Claude Code asks, and others that take a model of it."""

    def asked_about(self, cue: str) -> list[dict[str, Any]]:
        """As ever; a title is asked for without tools."""
        return [body for body in super().asked_about(cue) if body.get("tools")]

    def reply(self, path: str, body: dict[str, Any]) -> Reply | None:
        if "/count_tokens" in path:
            return Reply("application/json", b'{"input_tokens": 1000}')
        return Reply.stream(self._events(body)) if path.startswith("/v1/messages") else None

    def newest_first(self, body: dict[str, Any]) -> Iterator[str | None]:
        for message in reversed(body.get("messages", [])):
            yield None if message["role"] == "assistant" else _texts(message["content"])

    def text_of(self, body: dict[str, Any]) -> str:
        return "\n".join(
            map(_texts, [body.get("system") or "", *(one["content"] for one in body["messages"])])
        )

    def _events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        asked, number = self.answer(body), next(self.serial)
        usage = {"input_tokens": asked.tokens, "output_tokens": 1}
        message = {
            "id": f"msg_{number:024d}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
        }
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(asked.blocks):
            if block["type"] == "text":
                start, delta = says(""), {"type": "text_delta", "text": block["text"]}
            else:
                start = {**block, "id": f"toolu_{number:020d}{index:04d}", "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += [
                {"type": "content_block_start", "index": index, "content_block": start},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        reason = (
            "tool_use" if any(block["type"] == "tool_use" for block in asked.blocks) else "end_turn"
        )
        end = {"stop_reason": reason, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}})
        return [*events, {"type": "message_stop"}]


class ResponsesApi(Scripted):
    """The streaming Responses API, which Codex CLI asks. `Bash` becomes the shell that the
    client offers.
    """

    def reply(self, path: str, body: dict[str, Any]) -> Reply | None:
        return Reply.stream(self._events(body)) if path.endswith("/responses") else None

    def newest_first(self, body: dict[str, Any]) -> Iterator[str | None]:
        by_model = ("function_call", "custom_tool_call", "reasoning", "local_shell_call")
        in_turn = False
        for item in reversed(body["input"]):
            is_models = item.get("role") == "assistant" or item["type"] in by_model
            if is_models and not in_turn:
                yield None
            elif item.get("role") == "user":
                yield _texts(item.get("content", []))
            in_turn = is_models

    def text_of(self, body: dict[str, Any]) -> str:
        said = [
            _texts(item.get("content", [])) for item in body["input"] if item["type"] == "message"
        ]
        return "\n".join([body.get("instructions") or "", *said])

    def _events(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        asked, number = self.answer(body), next(self.serial)
        offered = {str(tool.get("name")) for tool in body.get("tools", [])}
        response = {"id": f"resp_{number:032d}"}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
        for index, block in enumerate(asked.blocks):
            own = f"{number:028d}{index:04d}"
            if block["type"] == "text":
                content = [{"type": "output_text", "text": block["text"], "annotations": []}]
                item: Block = {
                    "type": "message",
                    "id": f"msg_{own}",
                    "role": "assistant",
                    "content": content,
                }
            else:
                command = block["input"]["command"]
                name, given = "shell", {"command": ["bash", "-lc", command]}
                if "exec_command" in offered:
                    name, given = "exec_command", {"cmd": command}
                item = {
                    "type": "function_call",
                    "id": f"fc_{own}",
                    "call_id": f"call_{own}",
                    "name": name,
                }
                item["arguments"] = json.dumps(given)
            done = {**item, "status": "completed"}
            events.append(
                {"type": "response.output_item.done", "output_index": index, "item": done}
            )
        usage = {
            "input_tokens": asked.tokens,
            "output_tokens": 20,
            "total_tokens": asked.tokens + 20,
        }
        usage |= {"input_tokens_details": None, "output_tokens_details": None}
        return [*events, {"type": "response.completed", "response": {**response, "usage": usage}}]


class GenerateApi(Scripted):
    """The streaming generateContent, which Gemini CLI asks. `Bash` becomes `run_shell_command`."""

    def reply(self, path: str, body: dict[str, Any]) -> Reply | None:
        if ":streamGenerateContent" in path:
            return Reply(
                "text/event-stream", f"data: {json.dumps(self._response(body))}\r\n\r\n".encode()
            )
        return (
            Reply("application/json", b'{"totalTokens": 1000}') if ":countTokens" in path else None
        )

    def newest_first(self, body: dict[str, Any]) -> Iterator[str | None]:
        for content in reversed(body["contents"]):
            yield None if content["role"] == "model" else _texts(content["parts"])

    def text_of(self, body: dict[str, Any]) -> str:
        system = body.get("systemInstruction") or {"parts": []}
        return "\n".join(_texts(content["parts"]) for content in [system, *body["contents"]])

    def _tool(self, name: str) -> str:
        return "run_shell_command" if name == self.shell else name

    def _response(self, body: dict[str, Any]) -> dict[str, Any]:
        asked = self.answer(body)
        parts = [
            {"text": block["text"]}
            if block["type"] == "text"
            else {"functionCall": {"name": self._tool(block["name"]), "args": block["input"]}}
            for block in asked.blocks
        ]
        usage = {
            "promptTokenCount": asked.tokens,
            "candidatesTokenCount": 20,
            "totalTokenCount": asked.tokens + 20,
        }
        candidate = {
            "content": {"role": "model", "parts": parts},
            "finishReason": "STOP",
            "index": 0,
        }
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "responseId": f"r{next(self.serial)}",
        }


def _texts(content: str | list[Block]) -> str:
    """The texts of a message; what tools gave back is none."""
    parts = [content] if isinstance(content, str) else [part.get("text", "") for part in content]
    return "\n".join(parts)


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
            body = json.loads(
                self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}"
            )
            reply = api.reply(self.path, body)
            self._send(200 if reply else 404, reply or Reply("application/json", b"{}"))

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
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
