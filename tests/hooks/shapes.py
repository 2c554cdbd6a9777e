"""Settings files as people have them, and files that are refused."""

from __future__ import annotations

import json
from typing import Any

_RUFF = {"type": "command", "command": "ruff check --fix", "timeout": 30}
_PERMISSIONS: dict[str, Any] = {
    "permissions": {"allow": ["Bash(npm run lint)", "Read(~/.zshrc)"], "deny": ["Read(./.env)"]},
}
_FULL: dict[str, Any] = {
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "model": "opus",
    **_PERMISSIONS,
    "hooks": {
        "PostToolUse": [{"matcher": "Edit|Write", "hooks": [_RUFF]}],
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
        "SessionStart": [
            {"matcher": "startup", "hooks": [{"type": "command", "command": "git status --short"}]},
            {"matcher": "compact", "hooks": [{"type": "command", "command": "cat NOTES.md"}]},
        ],
    },
    "statusLine": {"type": "command", "command": "~/.claude/statusline.sh"},
}
_EVERY_TYPE: dict[str, Any] = {
    "hooks": {
        "Stop": [
            {
                "hooks": [
                    {"type": "prompt", "prompt": "Are the tests green? $ARGUMENTS", "timeout": 20},
                    {"type": "agent", "prompt": "Check the diff", "model": "haiku"},
                    {"type": "http", "url": "http://127.0.0.1:8080/stop", "headers": {"X-Key": "$KEY"}},
                    {"type": "mcp_tool", "server": "memory", "tool": "save", "input": {"all": True}},
                    {"type": "command", "command": "python3", "args": ["${CLAUDE_PROJECT_DIR}/x.py", "hook"]},
                    {"type": "command"},
                    {"type": "of-tomorrow", "command": ["a", "list"], "args": 7},
                    {},
                ]
            },
            {"matcher": "*"},
            {"matcher": "", "hooks": []},
        ],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "other reflector-notes.sh", "async": True}]}],
        "EventOfTomorrow": {"not": "a list"},
    },
    "disableAllHooks": False,
}


def _text(value: Any, indent: int | str | None = 2, **options: Any) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False, **options).encode()


#: Files that the standard library writes back as they are: nothing outside our hooks changes.
EXACT: dict[str, bytes] = {
    "two spaces, as the agent writes it": _text(_FULL) + b"\n",
    "tabs": _text(_FULL, "\t") + b"\n",
    "no indentation": _text(_FULL, 0) + b"\n",
    "minified": _text(_FULL, None, separators=(",", ":")),
    "one line with spaces": _text(_FULL, None) + b"\n",
    "CRLF": _text(_FULL, 4).replace(b"\n", b"\r\n") + b"\r\n",
    "many newlines at the end": b"\n\n" + _text(_FULL) + b"\n\n\n",
    "byte order mark": b"\xef\xbb\xbf" + _text(_FULL) + b"\n",
    "empty object": b"{}",
    "empty file": b"",
    "blank file": b"\r\n\r\n",
    "empty hooks": b'{"hooks": {}}\n',
    "hooks of every type": _text(_EVERY_TYPE) + b"\n",
    "unicode": _text({"language": "日本語", "k\u00e9y": "🦉 \u2028 \x7f", "esc": "\\"}) + b"\n",
    "key named hooks elsewhere": b'{"env": {"hooks": "{\\"Stop\\": []}"}, "x": [{"hooks": []}]}',
    "nested deep": b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}",
}

#: Files that the library reformats; `uninstall` restores them from the backup.
REFORMATTED: dict[str, bytes] = {
    "mixed line ends": _text(_FULL).replace(b"\n", b"\r\n", 7),
    "empty object with blanks": b" { \t } \r\n",
    "empty hooks between others": b'{\n  "a": 1,\n  "hooks": { },\n  "b": 2\n}\n',
    "empty event": b'{"hooks": {"Stop": [], "SessionEnd": [ ]}, "model": "opus"}',
    "empty group": b'{\n  "hooks": {\n    "Stop": [\n      {"matcher": "", "hooks": []}\n    ]\n  }\n}\n',
    "escapes": b'{"\\u0068ooks": {"St\\u006fp": []}, "x": "\\ud83e\\udd89 \\ud800 \\/ \\"hooks\\": {"}\n',
    "numbers": b'{"b": -0.0, "c": 123456789012345678901234567890, "d": 1E+2, "e": 1.10}',
    "aligned by hand": b'{ "model"   : "opus"\n, "hooks"   : { "Stop" : [ { "hooks" : [ ] } ]\n}}\n',
    "lists on one line each": b'{\n  "hooks": {\n    "Stop": [{"hooks": [{"command": "x"}]}]\n  }\n}\n',
}
SHAPES = EXACT | REFORMATTED

#: Content, and what is said of it.
REFUSED: dict[str, tuple[bytes, str]] = {
    "cut": (b'{\n  "model": "opus",\n  "hooks": {', "line 3, column 13: not JSON"),
    "comma missing": (b'{\n  "a": 1\n  "b": 2\n}', "line 3, column 3: not JSON"),
    "comment": (b'{\n  // mine\n  "model": "opus"\n}', "line 2, column 3: JSON has no comments"),
    "comment behind": (b'{"model": "opus"} # mine', "column 19: JSON has no comments"),
    "two documents": (b"{}\n{}", "line 2, column 1: not JSON"),
    "NaN": (b'{"NaN": "NaN",\n "x": [NaN]}', "NaN is not a JSON number"),
    "a number too long": (b'{"x": -' + b"1" * 5_000 + b"}", "a number has thousands of digits"),
    "a number too large": (b'{"a": 1e400}', "a number or a text in it cannot be written back"),
    "half a pair beside other text": ('{"é": "\\ud800"}'.encode(), "a number or a text in it cannot be written back"),
    "nested too deep": (b"[" * 200_000, "nested too deeply"),
    "not UTF-8": (b'{"x": 1,\n "\xe9\xff": 1}', "line 2: not UTF-8"),
    "UTF-16": ("{}".encode("utf-16"), "UTF-16, not UTF-8"),
    "a list": (b"\n []", "the document is not an object"),
    "hooks null": (b'{"hooks":\n null}', "hooks is not an object"),
    "event an object": (b'{"hooks": {"Stop": {"hooks": []}}}', "hooks.Stop is not an array"),
    "a key twice": (b'{"env": {"A": "1", "A": "2"}}', '"A" appears twice in one object'),
}
