"""How many tokens a text takes at most, without a tokenizer.

Invariant: the estimate of a text is never above the sum of the estimates of its pieces, and it is meant never
to be below what a model counts for prose, code, JSON, logs and Chinese, Japanese or Korean text. Claude's
tokenizers are not published, and newer ones need up to 35 % more tokens than older ones for the same text, so
each class of characters is charged what the newer ones need of it, and a bit more:

| what | tokens | because |
|---|---|---|
| a run of characters between white space | 0.65 | a short word is one token, with the space before it |
| lower case letter | 0.35 | rare words fall apart into pieces of about three letters |
| capital, digit, punctuation, control | 1 | hashes, base64 and operators have few tokens of two characters |
| space | 0.1 | indentation is one token for several |
| line break | 0.6 | a token of its own, or one with the indentation behind it |
| tab and other white space | 0.5 | |
| character of two bytes (accents, Cyrillic, Greek, Arabic, Hebrew) | 1.5 | at most 2: its bytes |
| character of three bytes (CJK, kana, hangul, Thai, box drawing) | 2 | at most 3 |
| character of four bytes (emoji) | 4 | its bytes: no byte-level tokenizer needs more |
"""

from __future__ import annotations

#: Units are twentieths of a token: whole numbers, so that sums are exact.
UNITS = 20

_LOWER = bytes(range(ord("a"), ord("z") + 1))
_CONTINUED = bytes(range(0x80, 0xC0))
_SPACES = b" \t\n\r\x0b\x0c"
_LEAD_2 = bytes(range(0xC0, 0xE0))
_LEAD_3 = bytes(range(0xE0, 0xF0))
_LEAD_4 = bytes(range(0xF0, 0x100))
#: White space becomes a space, everything else x: ` x` is where a run begins.
_RUNS = bytes(0x20 if byte in _SPACES else 0x78 for byte in range(256))


def estimate_tokens(text: str) -> int:
    """Most tokens that `text` takes; 0 for "". Linear in the text."""
    return -(-units(text) // UNITS)


def units(text: str) -> int:
    """Return the same before rounding, in twentieths of a token."""
    data = text.encode("utf-8", "surrogatepass")
    runs = data.translate(_RUNS)
    total = 13 * (runs.count(b" x") + runs.startswith(b"x"))
    rest = data.translate(None, _LOWER)
    total += 7 * (len(data) - len(rest))
    blanks = rest.count(b" ")
    breaks = rest.count(b"\n")
    total += 2 * blanks + 12 * breaks
    rest = rest.translate(None, b" \n")
    if not text.isascii():
        wide = rest
        rest = wide.translate(None, _CONTINUED)
        for leads, charge in ((_LEAD_2, 30), (_LEAD_3, 40), (_LEAD_4, 80)):
            left = rest.translate(None, leads)
            total += charge * (len(rest) - len(left))
            rest = left
    tabs = rest.translate(None, _SPACES)
    return total + 10 * (len(rest) - len(tabs)) + 20 * len(tabs)
