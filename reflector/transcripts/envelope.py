"""What the bytes of a line tell before it is parsed.

Invariant: a line is passed over only where its bytes prove that no message is lost. In
valid JSON an unescaped quote behind a comma or an opening brace opens a key, and behind the last
bracket of a record only its own scalars follow.
"""

from __future__ import annotations

import re

from reflector.transcripts.records import RECORD_START

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
        "session-owner",
        "isolation-latch",
        "history-suppression",
        "memory-mode",
        "dev-mods",
        "derived-from",
        "relocated",
        "tools-used",
        "atis-latch",
        "cost-state",
        # The request as it was sent: it repeats what the conversation says already.
        "api-request",
        "api-request-blob",
        "api-request-resumed",
        "api-request-shape",
    }
)

#: How every record begins that can be a message, and how any other begins.
ENVELOPE = RECORD_START.encode()
GLUED = b'}{"type":"'

#: The type of a record in which only scalars stand before it, as the client writes them.
_LEADING_TYPE = re.compile(rb'\{(?:"[\w-]++":(?:"(?:[^"\\]++|\\.)*+"|null|true|false|-?\d++),){0,24}"type":"([\w-]++)"')
#: The same at the end, behind the record's last inner bracket.
_TRAILING_TYPE = re.compile(rb',"type":"([\w-]++)"[^{}\[\]]*+\}\Z')


def is_metadata(line: bytes) -> bool:
    """Return whether the bytes alone prove that a line is one record without a message."""
    # Most lines are messages: a look at their head is cheaper than a match that fails.
    if line.find(b'"message":', 0, 400) >= 0:
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
