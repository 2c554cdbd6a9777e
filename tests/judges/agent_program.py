#!PYTHON -IS
"""Plays an agent: its name says whose output it prints, the file `mode` beside it what happens."""

import sys

HERE, _, NAME = __file__.rpartition("/")
VERSIONS = {
    "claude": "2.1.331",
    "codex": "0.169.0",
    "gemini": "0.61.0",
    "copilot": "1.0.102",
    "opencode": "1.18.33",
}


def kept(name: str, otherwise: str = "") -> str:
    """What a file beside the program says."""
    try:
        with open(f"{HERE}/{name}") as file:
            return file.read()
    except FileNotFoundError:
        return otherwise


if "--version" in sys.argv:  # most questions
    print(NAME, kept("version", VERSIONS.get(NAME, "0.87.1")))
    sys.exit()

import json  # noqa: E402
import os  # noqa: E402
import re  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

MODE = kept("mode").split(",")
TOKENS = {"input": 1000, "output": 20}
COPILOT_TOKENS = {
    "inputTokens": 1300,
    "outputTokens": 20,
    "cacheReadTokens": 100,
    "cacheWriteTokens": 200,
}
TROUBLE = {
    "claude": {
        "out": ("Not logged in · Please run /login"),
        "limit": "API Error: Request rejected (429)",
    },
    "codex": {
        "out": "unexpected status 401 Unauthorized",
        "limit": "You've hit your usage limit. Try again in 2 hours.",
    },
    "gemini": {
        "out": "Please set an Auth method",
        "limit": ("You have exhausted your daily quota on this model."),
    },
    "copilot": {
        "out": ("Error: No authentication information found."),
        "limit": "rate limit exceeded",
    },
    "opencode": {"out": "Unexpected server error. Check server logs", "limit": "Too many requests"},
    "pi": {"out": "No API key found for anthropic.", "limit": "429 rate limited"},
}[NAME]


def printed(text: str, error: str) -> list[dict[str, object]]:
    """What the agent prints of an answer or an error on standard output."""
    usage = {} if error else {"input_tokens": 1000, "output_tokens": 20}
    if NAME == "claude":
        end = {
            "is_error": bool(error),
            "result": error or text,
            "stop_reason": "end_turn",
            "usage": usage,
        }
        return [
            {"subtype": "init", "tools": MODE[1:], "mcp_servers": []},
            {"type": "result", **end},
        ]
    if NAME == "codex":
        if error:
            return [{"type": "turn.failed", "error": {"message": error}}]
        said = {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
        return [said, {"type": "turn.completed", "usage": usage}]
    if NAME == "gemini":
        models = {"flash": {"tokens": {"prompt": 1000, "candidates": 20}}}
        return [] if error else [{"response": text, "stats": {"models": models}}]
    if NAME == "copilot":
        if error:
            return [{"type": "session.error", "data": {"message": error}}]
        Path(sys.argv[sys.argv.index("--usage-output-file") + 1]).write_text(
            json.dumps({"modelMetrics": {"m": {"usage": COPILOT_TOKENS}}})
        )
        return [{"type": "assistant.message", "data": {"content": text, "model": "m"}}]
    if NAME == "opencode":
        if error:
            return [
                {"type": "error", "error": {"name": "UnknownError", "data": {"message": error}}}
            ]
        end = {"type": "step_finish", "part": {"reason": "stop", "tokens": TOKENS, "cost": 0.001}}
        return [{"type": "text", "part": {"text": text}}, end]
    last = {
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "model": "m",
        "usage": {} if error else TOKENS,
    }
    last |= {"stopReason": "error", "errorMessage": error} if error else {"stopReason": "stop"}
    return [{"type": "message_end", "message": last}]


def main() -> int:
    """Answer as the mode says."""
    if sys.argv[1:] == ["debug", "models"]:
        print(json.dumps({"models": [{"slug": "gpt-6-luna"}]}))
        return 0
    asked = sys.stdin.read()
    if "empty JSON object" in asked:
        import socket  # which takes longer than the rest

        texts = [
            *os.environ.values(),
            *(path.read_text() for path in Path("../home").rglob("*") if path.is_file()),
        ]
        port = next(
            int(found[1])
            for text in texts
            if (found := re.search(r"http://127\.0\.0\.1:(\d+)", text))
        )
        body = json.dumps({"tools": MODE[1:], "said": asked}).encode()
        # which clients leave open for later
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(
                (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s") % (len(body), body)
            )
            time.sleep(60)  # until it is ended, since its request was seen
        return 1
    about = {
        "environ": dict(os.environ),
        "asked": asked,
        "words": sys.argv[1:],
        "cwd": [*map(str, Path().iterdir())],
    }
    Path(HERE, "asked.json").write_text(
        json.dumps({"guard": os.environ["REFLECTOR_JUDGING"], **about})
    )
    if MODE[0] == "hanging":
        Path(HERE, "child").write_text(str(os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "600")))
        time.sleep(600)
    error = TROUBLE.get(
        MODE[0], MODE[0].removeprefix("says ") if MODE[0].startswith("says ") else ""
    )
    answer = (
        '{"analysis": "' + "x" * (70_000 if MODE[0] == "talkative" else 1) + '", "bullet_tags": []}'
    )
    for line in printed(kept("answer", answer), error):
        print(json.dumps(line))
    if error:
        print(error, file=sys.stderr)
    return 1 if error and NAME != "pi" else 0


sys.exit(main())
