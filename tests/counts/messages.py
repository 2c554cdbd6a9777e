"""Messages of a session, as a reader makes them."""

from typing import Any

from reflector.transcripts.message import Message, ToolCall, ToolResult


def calls(tool: str, chain: str = "", **arguments: Any) -> Message:
    """A call of the agent with its whole arguments."""
    call = ToolCall("1", tool, {}, arguments)
    return Message(0, "", "assistant", "model", chain, "2026-11-21T09:00:00Z", "", calls=(call,))


def runs(command: str, chain: str = "") -> Message:
    """A command that the agent runs."""
    return calls("Bash", chain, command=command)


def edits(new: str, old: str = "", file: str = "/app/store.py") -> Message:
    """An edit of a file."""
    return calls("Edit", file_path=file, old_string=old, new_string=new)


def writes(file: str, text: str = "x") -> Message:
    """A file that the agent writes as a whole."""
    return calls("Write", file_path=file, content=text)


def patches(deed: str, file: str) -> Message:
    """A patch as Codex CLI writes it."""
    return calls("Edit", input=f"*** Begin Patch\n*** {deed} File: {file}\n+x\n-y\n")


def you(text: str, chain: str = "") -> Message:
    """Your words."""
    return Message(7, "", "user", "human", chain, "2026-11-21T09:01:00Z", text, offset=40)


def refuses(call_id: str = "1") -> Message:
    """Your refusal of a call."""
    result = ToolResult(call_id, "User rejected tool use", is_error=True)
    return Message(0, "", "user", "refusal", "", "", "", results=(result,))


def printed(text: str) -> Message:
    """The output of a tool."""
    result = ToolResult("1", text, is_error=False)
    return Message(0, "", "user", "tool", "", "", "", results=(result,))


def injected(text: str) -> Message:
    """Words of the client."""
    return Message(0, "", "user", "injected", "", "", text)


def says(text: str) -> Message:
    """Words of the agent."""
    return Message(0, "", "assistant", "model", "", "", text)
