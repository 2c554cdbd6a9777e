"""Settings files as people have them, and files that are none."""

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
_LARGE = {"permissions": {"allow": [f"Bash(make target-{n}:*)" for n in range(20_000)]}, **_EVERY_TYPE}


def _text(value: Any, indent: int | str | None = 2, **options: Any) -> bytes:
    return json.dumps(value, indent=indent, ensure_ascii=False, **options).encode()


#: Whatever stands in a settings file before us must stand there, to the byte, after us.
SHAPES: dict[str, bytes] = {
    "two spaces, as the agent writes it": _text(_FULL) + b"\n",
    "four spaces": _text(_FULL, 4) + b"\n",
    "tabs": _text(_FULL, "\t") + b"\n",
    "one space": _text(_FULL, 1) + b"\n",
    "no indentation": _text(_FULL, 0) + b"\n",
    "minified": _text(_FULL, None, separators=(",", ":")),
    "one line with spaces": _text(_FULL, None) + b"\n",
    "CRLF": _text(_FULL).replace(b"\n", b"\r\n") + b"\r\n",
    "CRLF and tabs": _text(_FULL, "\t").replace(b"\n", b"\r\n"),
    "mixed line ends": _text(_FULL).replace(b"\n", b"\r\n", 7),
    "no newline at the end": _text(_FULL),
    "many newlines at the end": b"\n\n" + _text(_FULL) + b"\n\n\n",
    "byte order mark": b"\xef\xbb\xbf" + _text(_FULL) + b"\n",
    "byte order mark and CRLF": b"\xef\xbb\xbf" + _text(_PERMISSIONS).replace(b"\n", b"\r\n"),
    "empty object": b"{}",
    "empty object and newline": b"{}\n",
    "empty object with blanks": b" { \t } \r\n",
    "empty object on two lines": b"{\n}\n",
    "empty file": b"",
    "blank file": b"\r\n\r\n",
    "permissions only": _text(_PERMISSIONS) + b"\n",
    "empty hooks": b'{"hooks": {}}\n',
    "empty hooks between others": b'{\n  "a": 1,\n  "hooks": { },\n  "b": 2\n}\n',
    "empty hooks on two lines": b'{\n  "hooks": {\n  }\n}',
    "empty event": b'{"hooks": {"Stop": [], "SessionEnd": [ ]}, "model": "opus"}',
    "empty group": b'{\n  "hooks": {\n    "Stop": [\n      {"matcher": "", "hooks": []}\n    ]\n  }\n}\n',
    "hooks of every type": _text(_EVERY_TYPE) + b"\n",
    "hooks of every type, minified": _text(_EVERY_TYPE, None, separators=(",", ":")),
    "unicode": _text({"language": "日本語", "k\u00e9y": "🦉 \u2028 \x7f", "esc": "\\"}) + b"\n",
    "escapes": b'{"\\u0068ooks": {"St\\u006fp": []}, "x": "\\ud83e\\udd89 \\ud800 \\/ \\"hooks\\": {"}\n',
    "key named hooks elsewhere": b'{"env": {"hooks": "{\\"Stop\\": []}"}, "x": [{"hooks": []}]}',
    "numbers": b'{"a": 1e400, "b": -0.0, "c": 123456789012345678901234567890, "d": 1E+2, "e": 1.10}',
    "same foreign key twice": b'{"env": {"A": "1", "A": "2"}, "model": "a", "model": "b"}',
    "aligned by hand": b'{ "model"   : "opus"\n, "hooks"   : { "Stop" : [ { "hooks" : [ ] } ]\n}}\n',
    "lists on one line each": b'{\n  "hooks": {\n    "Stop": [{"hooks": [{"command": "x"}]}]\n  }\n}\n',
    "hooks last, deep indentation": b'{\n        "model": "opus",\n        "hooks": {"PreCompact": []}\n}\n',
    "very large": _text(_LARGE) + b"\n",
    "nested deep": b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}",
}

#: Content, line and column of what is wrong, a word that tells what.
REFUSED: dict[str, tuple[bytes, int, int, str]] = {
    "cut": (b'{\n  "model": "opus",\n  "hooks": {', 3, 13, "not JSON"),
    "trailing comma": (b'{\n  "model": "opus",\n}\n', 0, 0, "not JSON"),  # the interpreter's own idea of where
    "comma missing": (b'{\n  "a": 1\n  "b": 2\n}', 3, 3, "not JSON"),
    "comment": (b'{\n  // mine\n  "model": "opus"\n}', 2, 3, "comments"),
    "comment behind": (b'{"model": "opus"} # mine', 1, 19, "comments"),
    "block comment": (b'{\r\n"model": /* mine */ "opus"}', 2, 10, "comments"),
    "two documents": (b"{}\n{}", 2, 1, "not JSON"),
    "single quotes": (b"{'model': 'opus'}", 1, 2, "not JSON"),
    "NaN": (b'{"NaN": "NaN",\n "x": [NaN]}', 2, 8, "NaN"),
    "Infinity": (b'{"x": -Infinity}', 1, 7, "-Infinity"),
    "a number too long": (b'{"' + b"1" * 5_000 + b'": 1,\n "x": -' + b"1" * 5_000 + b"}", 2, 8, "thousands of digits"),
    "line break in a string": (b'{"x": "a\nb"}', 1, 9, "not JSON"),
    "nested too deep": (b"[" * 200_000, 1, 1, "nested"),
    "not UTF-8": (b'{"x": 1,\n "\xe9\xff": 1}', 2, 3, "not UTF-8"),
    "a list": (b"\n []", 2, 2, "the document is an array, not an object"),
    "a string": (b'"{}"', 1, 1, "the document is a string, not an object"),
    "null": (b"null", 1, 1, "the document is null"),
    "hooks a list": (b'{"hooks": []}', 1, 11, "hooks is an array, not an object"),
    "hooks null": (b'{"hooks":\n null}', 2, 2, "hooks is null"),
    "event an object": (b'{"hooks": {"Stop": {"hooks": []}}}', 1, 20, "hooks.Stop is an object, not an array"),
    "event a string": (b'{"hooks": {"SessionEnd": "reflector hook"}}', 1, 26, "hooks.SessionEnd is a string"),
    "group a string": (b'{"hooks": {"Stop": ["x"]}}', 1, 21, "a matcher group of Stop is a string"),
    "handlers an object": (b'{"hooks": {"Stop": [{"hooks": {}}]}}', 1, 31, "of Stop is an object, not an array"),
    "handler a string": (b'{"hooks": {"Stop": [{"hooks": ["x"]}]}}', 1, 32, "a hook of Stop is a string"),
    "hooks twice": (b'{"hooks": {},\n"hooks": {}}', 2, 1, "second time"),
    "event twice": (b'{"hooks": {"Stop": [], "Stop": []}}', 1, 24, "second time"),
}
