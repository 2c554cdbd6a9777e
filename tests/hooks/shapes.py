"""Settings files as people have them, and files that are refused."""

from __future__ import annotations

import json
from typing import Any

_FULL: dict[str, Any] = {
    "$schema": "https://json.schemastore.org/claude-code-settings.json",
    "permissions": {"allow": ["Bash(npm run lint)", "Read(~/.zshrc)"], "deny": ["Read(./.env)"]},
    "hooks": {
        "PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "ruff check", "timeout": 30}]}],
    },
}
_EVERY_TYPE: dict[str, Any] = {
    "hooks": {
        "Stop": [
            {
                "hooks": [
                    {"type": "prompt", "prompt": "Are the tests green? $ARGUMENTS", "timeout": 20},
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
}


def _text(value: Any, indent: int | str | None = 2, **options: Any) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False, **options).encode()


#: Files that the standard library writes back as they are: nothing outside our hooks changes.
EXACT: dict[str, bytes] = {
    "tabs": _text(_FULL, "\t") + b"\n",
    "CRLF": _text(_FULL, 4).replace(b"\n", b"\r\n") + b"\r\n",
    "byte order mark": b"\xef\xbb\xbf" + _text(_FULL) + b"\n",
    "empty file": b"",
    "hooks of every type": _text(_EVERY_TYPE) + b"\n",
    "nested deep": b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}",
}

#: Files that the library reformats; `uninstall` restores them from the backup.
REFORMATTED: dict[str, bytes] = {
    "mixed line ends": _text(_FULL).replace(b"\n", b"\r\n", 7),
    "empty hooks between others": b'{\n  "a": 1,\n  "hooks": { },\n  "b": 2\n}\n',
    "empty event": b'{"hooks": {"Stop": [], "SessionEnd": [ ]}, "model": "opus"}',
    "escapes": b'{"\\u0068ooks": {"St\\u006fp": []}, "x": "\\ud83e\\udd89 \\ud800 \\/ \\"hooks\\": {"}\n',
    "numbers": b'{"b": -0.0, "c": 123456789012345678901234567890, "d": 1E+2, "e": 1.10}',
    "aligned by hand": b'{ "model"   : "opus"\n, "hooks"   : { "Stop" : [ { "hooks" : [ ] } ]\n}}\n',
}
SHAPES = EXACT | REFORMATTED

#: Content, and what is said of it.
REFUSED: dict[str, tuple[bytes, str]] = {
    "comment": (b'{\n  // mine\n  "model": "opus"\n}', "line 2, column 3: not JSON"),
    "NaN": (b'{"NaN": "NaN",\n "x": [NaN]}', "a number or a text in it cannot be written back"),
    "a number too long": (b'{"x": -' + b"1" * 5_000 + b"}", "a number has thousands of digits"),
    "half a pair beside other text": ('{"é": "\\ud800"}'.encode(), "a number or a text in it cannot be written back"),
    "nested too deep": (b"[" * 200_000, "it is nested too deeply"),
    "UTF-16": ("{}".encode("utf-16"), "line 1: not UTF-8"),
    "a list": (b"\n []", "the document is not an object"),
    "hooks null": (b'{"hooks":\n null}', "hooks is not an object"),
    "event an object": (b'{"hooks": {"Stop": {"hooks": []}}}', "hooks.Stop is not an array"),
    "a key twice": (b'{"env": {"A": "1", "A": "2"}}', '"A" appears twice in one object'),
}
