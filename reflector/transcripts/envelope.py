"""What the bytes of a line tell before it is parsed, or instead.

Invariant: a line is passed over or shortened only where its bytes prove that no message is lost. In
valid JSON an unescaped quote behind a comma or an opening brace opens a key, and behind the last
bracket of a record only its own scalars follow.
"""

from __future__ import annotations

import re
from typing import Any

from reflector.transcripts.message import Tally
from reflector.transcripts.records import RECORD_START, parse_line

#: Types that carry no message. `attachment` and `queue-operation` may, and are looked into.
METADATA = frozenset(
    {
        "progress",
        "system",
        "summary",
        "file-history-snapshot",
        "file-history-delta",
        "last-prompt",
        "custom-title",
        "ai-title",
        "agent-name",
        "agent-setting",
        "agent-color",
        "mode",
        "permission-mode",
        "pr-link",
        "frame-link",
        "tag",
        "task-summary",
        "worktree-state",
        "bridge-session",
        "context-collapse",
        "content-replacement",
        "attribution-snapshot",
        "started",
        "result",
    }
)

#: How every record begins that can be a message, and how any other begins.
ENVELOPE = RECORD_START.encode()
GLUED = b'}{"type":"'

#: The type of a record in which only scalars stand before it, as the client writes them.
_LEADING_TYPE = re.compile(rb'\{(?:"[\w-]++":(?:"(?:[^"\\]++|\\.)*+"|null|true|false|-?\d++),){0,24}"type":"([\w-]++)"')
#: The same at the end, behind the record's last inner bracket.
_TRAILING_TYPE = re.compile(rb',"type":"([\w-]++)"[^{}\[\]]*+\}\Z')

#: `toolUseResult` repeats what the tool answered, and for a file the whole file besides: a third of
#: all bytes. What is needed of it is that a file or a list was shown, and how a command failed.
_ANSWER = b'"tool_use_id":'
_DETAILS = b',"toolUseResult":'
_SHOWN_KINDS = (
    b'{"type":"text","file":',
    b'{"type":"create","filePath":',
    b'{"type":"update","filePath":',
    b'{"filePath":"',
    b'{"filenames":[',
    b'{"mode":"',
    b'{"oldTodos":[',
)
_SHOWN = b',"toolUseResult":{"filePath":""}}'
_RUN = b'{"stdout":"'
_RUN_WELL = b'","stderr":"","interrupted":false'
#: Of a long output the answer holds the first 2 kB only; its end, where the verdict stands, is in the details.
CUT_OUTPUT = "<persisted-output>"
_CUT_OUTPUT = CUT_OUTPUT.encode()


def is_metadata(line: bytes) -> bool:
    """True when the bytes alone prove that a line is one record without a message."""
    # Most lines are messages: a look at their head is cheaper than a match that fails.
    if b'"message":' in line[:400]:
        return False
    match = _LEADING_TYPE.match(line) or _TRAILING_TYPE.match(line, max(0, line.rfind(b',"type":"')))
    if match is None:
        return False
    name = match[1].decode()
    if name == "attachment":
        if b'"queued_command"' in line:
            return False
    elif name not in METADATA:
        return False
    # A glued line starts with one record and hides another.
    return GLUED not in line and line.find(ENVELOPE, 1) < 0


def parse_leanly(line: bytes, tally: Tally) -> list[tuple[dict[str, Any], str]]:
    """`parse_line`, where it can without the details that repeat a tool's answer."""
    at = line.find(_DETAILS) if _ANSWER in line[:1024] else -1
    if at > 0 and line.find(ENVELOPE, at) < 0 and line.find(GLUED, at) < 0:
        rest = b""
        if line.startswith(_SHOWN_KINDS, at + len(_DETAILS)):
            rest = _SHOWN
        elif line.startswith(_RUN, at + len(_DETAILS)) and _CUT_OUTPUT not in line[:2048]:
            rest = b"}" if line.find(_RUN_WELL, at) > 0 else b""
        # When what is left is whole, the details were the record's own and not a part of its message.
        probe = Tally()
        found = parse_line(line[:at] + rest, probe) if rest else []
        if len(found) == 1 and not probe.malformed and "uuid" in found[0][0]:
            tally.records += 1
            return found
    return parse_line(line, tally)
