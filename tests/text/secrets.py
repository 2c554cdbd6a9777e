"""A labelled corpus: secrets of many kinds, made of random values when asked for, and ordinary strings that look alike.

No value is written down in secrets.tsv, so a scanner of this repository has nothing to stop at.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

_ALNUM = string.ascii_letters + string.digits
#: {a30}: 30 letters and digits; d: dashes too; x: hex; u: capitals and digits; l: small letters and digits;
#: b: base64; t: letters only; n: digits only.
_CLASSES = {
    "a": _ALNUM,
    "d": _ALNUM + "-_",
    "x": string.hexdigits[:16],
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "b": _ALNUM + "+/",
    "t": string.ascii_letters,
    "n": string.digits,
}
_VALUE = re.compile(rf"\{{([{''.join(_CLASSES)}])([0-9]+)\}}")
_WORDS = re.compile(r"(?i)pass|pwd|secret|token|key|cred|auth")


class Row(NamedTuple):
    """A text of the corpus, and what `redact` makes of it."""

    name: str
    text: str
    redacted: str


class Secret(NamedTuple):
    """A text, and the parts of it that nobody may read."""

    text: str
    parts: tuple[str, ...]


def _rows() -> list[Row]:
    lines = Path(__file__).with_suffix(".tsv").read_text("utf-8").splitlines()[1:]
    escapes = {"\\\\": "\\", "\\n": "\n", "\\t": "\t"}
    return [
        Row(*(re.sub(r"\\.", lambda found: escapes[found[0]], cell) for cell in line.split("\t"))) for line in lines
    ]


ROWS = _rows()
_FORMS = {row.name: row for row in ROWS if row.name not in ("place", "ordinary")}
#: Kinds that are known by nothing around them, so that they may stand anywhere.
BY_FORM = tuple(_FORMS)[: tuple(_FORMS).index("url with a token")]


def _some(letters: str, count: int, dice: Random) -> str:
    while True:
        made = "".join(dice.choices(letters, k=count))
        mixed = any(c.isdigit() for c in made) and any(c.isalpha() for c in made)
        # By chance a value spells what makes it a name of code: `getKey2`.
        fits = mixed or count < 5 or letters in (string.ascii_letters, string.digits)
        if fits and not _WORDS.search(made) and made[0].isalnum() and made[-1].isalnum():
            return made


def filled(text: str, dice: Random) -> Secret:
    """A text of the corpus with its random values."""
    parts: list[str] = []

    def value(found: re.Match[str]) -> str:
        parts.append(_some(_CLASSES[found[1]], int(found[2]), dice))
        return parts[-1]

    return Secret(_VALUE.sub(value, text), tuple(parts))


def _jwt(dice: Random) -> Secret:
    head, body = (
        base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
        for text in ('{"alg":"HS256","typ":"JWT"}', f'{{"sub":"{_some(_ALNUM, 200, dice)}"}}')
    )
    parts = (body, _some(_CLASSES["d"], 86, dice))
    return Secret(".".join((head, *parts)), parts)


def _basic(dice: Random) -> Secret:
    value = base64.b64encode(f"bob:{_some(_ALNUM, 20, dice)}".encode()).decode()
    return Secret(f"Authorization: Basic {value}", (value,))


def _key(kind: str, width: int, lines: int, dice: Random) -> Secret:
    body = [_some(_CLASSES["b"], width, dice) for _ in range(lines)] + [_some(_CLASSES["b"], width // 2, dice) + "=="]
    edges = (f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----")
    return Secret("\n".join((edges[0], *body, edges[1])), tuple(body))


KEYS: dict[str, Callable[[Random], Secret]] = {
    "rsa key": partial(_key, "RSA ", 64, 25),
    "pkcs8 key": partial(_key, "", 64, 25),
    "ec key": partial(_key, "EC ", 64, 2),
    "openssh key": partial(_key, "OPENSSH ", 70, 7),
    "large rsa key": partial(_key, "RSA ", 64, 50),
}
_MADE: dict[str, Callable[[Random], Secret]] = {"jwt": _jwt, "basic": _basic, **KEYS}

KINDS = (*_FORMS, *_MADE)


def secret(kind: str, dice: Random) -> Secret:
    """A secret of a kind, its values new."""
    made = _MADE.get(kind)
    return made(dice) if made is not None else filled(_FORMS[kind].text, dice)


def shown(parts: tuple[str, ...], text: str, least: int = 12) -> str | None:
    """A piece of a secret that stands in a text: so many characters of one of its parts, or a whole shorter one."""
    for part in parts:
        if len(part) < 5:
            continue
        size = min(least, len(part))
        for start in range(len(part) - size + 1):
            if part[start : start + size] in text:
                return part[start : start + size]
    return None
