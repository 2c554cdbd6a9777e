"""Makes text from outside safe to keep and to show.

Invariant: `redact(redact(x)) == redact(x)`, in time linear in the text, and a text that is not a
secret stays unchanged. A secret is recognised by its own form (a provider's prefix, a JWT, a key
block) or by its place (a header, a URL's password, an assignment to a name such as `DB_PASSWORD`).
Randomness alone is never enough, because transcripts are full of commit ids, UUIDs, digests and
paths.

Each rule runs once over a text that contains its literal. Every repetition is bounded or
possessive, and a rule that fails at the end of a long run cannot start again inside that run, so no
input makes a rule quadratic.
"""

from __future__ import annotations

import re

from reflector.text.bounds import clean, visible, whole_end

_MARKER = r"\[redacted:([a-z-]+)\]"
#: A shorter text does not contain two whole lines of a private key.
_LEAST_KEY = 128
#: Each name that `assignments` looks for contains one of these.
_NAMES = ("pass", "pw", "key", "session", "sid", "auth", "secret", "credential", "sig", "token")


def redact(text: str) -> str:
    """Return `text` with every secret replaced by `[redacted:kind]`."""
    # Compiling the expressions of a module takes longer than keeping a short text. So each module
    # is loaded only for a text that may contain its secrets.
    from reflector.text.forms import redact_places, redact_tokens

    if len(text) >= _LEAST_KEY or "-----" in text:
        from reflector.text.key_blocks import redact_keys

        text = redact_keys(text)
    text = redact_places(redact_tokens(text))
    if _may_assign(text):
        from reflector.text.assignments import redact_assignments

        text = redact_assignments(text)
    return text


def _may_assign(text: str) -> bool:
    """Return whether a text may assign a value to the name of a secret. A text that is not ASCII
    may, because one of its letters may stand for a letter of the name.
    """
    if not text.isascii():
        return True
    lower = text.lower()
    return any(name in lower for name in _NAMES)


def secret_kinds(text: str) -> list[str]:
    """Return the kinds of secrets in a text, in order; [] for none."""
    text = visible(text)
    redacted = redact(text)
    return list(dict.fromkeys(re.findall(_MARKER, redacted))) if redacted != text else []


def quote(text: str, limit: int) -> str:
    """Return a foreign text in a form that may be kept or shown: without secrets, on one line, with
    at most `limit` characters.

    Invisible characters are removed first, because a zero-width space inside a key would hide it
    from `redact`, and `clean` would then restore the key. Of a text much longer than the limit,
    only the beginning is read.
    """
    bounded = text[: whole_end(text, 16 * limit + 4096)]
    line = clean(redact(visible(bounded)), limit)
    is_whole = len(bounded) == len(text) or line.endswith("…")
    return line if is_whole else clean(f"{line} …", limit)
