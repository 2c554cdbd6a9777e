"""A stand-in for the streaming Messages API on loopback, which the real client asks.

It holds no state of a conversation: what it answers follows from the request alone. The newest prompt that holds a
known cue chooses a script, and the model's messages behind that prompt tell which step of it comes next. So a
subagent, a summary and a resumed session each get their own answers, in whatever order the client asks.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

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


_LAST = step(says("All right."))


class MessagesApi:
    """The stand-in. `asked` holds every request's body, in the order in which they came."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[dict[str, Any]] = []
        self._scripts: dict[str, Sequence[Step]] = {}
        self._serial = count(1)

    def when(self, cue: str, *steps: Step) -> None:
        """Answer prompts that hold `cue` step by step; what follows the last is "All right."."""
        self._scripts[cue] = steps

    def asked_about(self, cue: str) -> list[dict[str, Any]]:
        """The requests of a conversation whose newest cue is that one; a title is asked for without tools."""
        return [body for body in self.asked if body.get("tools") and self._place(body)[0] == cue]

    def answer(self, body: dict[str, Any]) -> Step:
        """The step that a request asks for."""
        cue, at = self._place(body)
        steps = self._scripts.get(cue, ())
        return steps[at] if at < len(steps) else _LAST

    def events(self, body: dict[str, Any], step: Step) -> bytes:
        """A message as the API streams it."""
        number = next(self._serial)
        usage = {"input_tokens": step.tokens, "output_tokens": 1}
        message = {"id": f"msg_{number:024d}", "type": "message", "role": "assistant", "model": body["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        stream: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
        for index, block in enumerate(step.blocks):
            stream += _block(index, block, f"toolu_{number:020d}{index:04d}")
        reason = "tool_use" if any(block["type"] == "tool_use" for block in step.blocks) else "end_turn"
        end = {"stop_reason": reason, "stop_sequence": None}
        stream.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 20}})
        stream.append({"type": "message_stop"})
        return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in stream)

    def _place(self, body: dict[str, Any]) -> tuple[str, int]:
        """The newest cue of a conversation, and how many messages of the model stand behind it."""
        behind = 0
        for message in reversed(body.get("messages", [])):
            if message["role"] == "assistant":
                behind += 1
                continue
            said = " ".join(texts(message))
            found = [(said.rfind(cue), cue) for cue in self._scripts if cue in said]
            if found:
                return max(found)[1], behind
        return "", behind


def _block(index: int, block: Block, call_id: str) -> list[dict[str, Any]]:
    if block["type"] == "text":
        start: Block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    else:
        start = {"type": "tool_use", "id": call_id, "name": block["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        {"type": "content_block_delta", "index": index, "delta": delta},
        {"type": "content_block_stop", "index": index},
    ]


def texts(message: dict[str, Any]) -> list[str]:
    """The text blocks of a message; what tools gave back is none."""
    content = message["content"]
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") == "text"]


def told(body: dict[str, Any]) -> str:
    """Everything that a request tells the model besides the tools' descriptions: system and messages."""
    system = body.get("system") or []
    said = [system] if isinstance(system, str) else [block["text"] for block in system]
    return "\n".join([*said, *(text for message in body["messages"] for text in texts(message))])


@contextmanager
def serving() -> Iterator[MessagesApi]:
    """A stand-in that listens."""
    api: MessagesApi

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._send(404, "application/json", b"{}")

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
            if "/count_tokens" in self.path:
                self._send(200, "application/json", b'{"input_tokens": 1000}')
            elif self.path.startswith("/v1/messages"):
                api.asked.append(body)
                step = api.answer(body)
                time.sleep(step.seconds)
                self._send(200, "text/event-stream", api.events(body, step))
            else:
                self._send(404, "application/json", b"{}")

        def _send(self, status: int, kind: str, body: bytes) -> None:
            try:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except ConnectionError:  # a client that was killed while it waited
                self.close_connection = True

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # as above, where it was killed while it asked

    with Server(("127.0.0.1", 0), Handler) as server:
        api = MessagesApi(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
