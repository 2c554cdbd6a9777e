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
#: A text that is shorter holds no two whole lines of a private key.
_LEAST_KEY = 128
#: Each name that `assignments` looks for holds one of them.
_NAMES = ("pass", "pw", "key", "session", "sid", "auth", "secret", "credential", "sig", "token")


def redact(text: str) -> str:
    """Return `text` with every secret replaced by `[redacted:kind]`."""
    # The expressions of a module take longer to compile than a short text takes to be kept, so each
    # is loaded for a text that may hold what it looks for.
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
    """Return False for a text that assigns nothing to the name of a secret. Other letters than
    ASCII's may stand for one of them.
    """
    if not text.isascii():
        return True
    lower = text.lower()
    return any(name in lower for name in _NAMES)


def secret_kinds(text: str) -> list[str]:
    """Return the kinds of secrets that a text holds, in order; [] for none."""
    text = visible(text)
    redacted = redact(text)
    return list(dict.fromkeys(re.findall(_MARKER, redacted))) if redacted != text else []


def quote(text: str, limit: int) -> str:
    """Return what may be kept or shown of a foreign text: no secrets, one line, at most `limit`
    characters.

    Invisible characters go first: a zero-width space inside a key would hide it from `redact`, and
    `clean` would then restore it. Of a text much longer than the limit, only the beginning is
    looked at.
    """
    bounded = text[: whole_end(text, 16 * limit + 4096)]
    line = clean(redact(visible(bounded)), limit)
    is_whole = len(bounded) == len(text) or line.endswith("…")
    return line if is_whole else clean(f"{line} …", limit)
