"""Values in the JSON of a client or an API, each of which may be missing or odd."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reflector.prices import Usage

#: The counts of tokens in an answer of the Messages API, as `usage_in` takes them.
MESSAGES_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)
#: The most tokens of a sensible count. A larger one is an error, and would use up the month's
#: budget.
_MOST_TOKENS = 10_000_000


def value_at(value: Any, *path: str | int) -> Any:
    """Return a value by its keys and places; None if it is not there."""
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def text_at(value: Any, *path: str | int) -> str:
    """Return a text by its keys and places; "" for any other value."""
    text = value_at(value, *path)
    return text if isinstance(text, str) else ""


def usage_in(tokens: Any, *names: str, cached_in_input: bool = False) -> Usage:
    """Return tokens by the names of their counts: input, output, read from the cache, written to
    it. The name of a missing count is "". A count that is not a whole number, or is too large, is
    read as 0.

    cached_in_input  whether the count of the input contains the tokens read from and written to the
                     cache
    """
    counts = [value_at(tokens, *name.split(".")) for name in names]
    whole = [count if type(count) is int and 0 <= count <= _MOST_TOKENS else 0 for count in counts]
    usage = Usage(*whole)
    if not cached_in_input:
        return usage
    return replace(usage, input=max(0, usage.input - usage.cache_read - usage.cache_write))
