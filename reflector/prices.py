"""The tokens of an answer, from its event's meta, and their cost in USD by the list prices of
October 2026.

Invariant: a cost is an estimate beside the token counts, which are the fact. It is None for a model
that the table does not contain. Source: Anthropic's pricing page, 2026-10-24. The first matching
row counts: its prefix is the model's, and the prompt is longer than its `threshold`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from decimal import Decimal, InvalidOperation
from operator import add
from typing import Any, NamedTuple

_KINDS = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one answer, as the API counted them; those read from and written to the cache
    are not in `input`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """Every token, whatever its price: what budgets count."""
        return self.input + self.output + self.cache_read + self.cache_write

    def meta(self) -> dict[str, object]:
        """Return the tokens as an event's meta has them."""
        return {f"{kind}_tokens": count for kind, count in zip(_KINDS, astuple(self), strict=True)}

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


class _Price(NamedTuple):
    """USD per million tokens; the cache is read at `read` times the input's price and written at
    1.25 times.
    """

    prefix: str
    input: str
    output: str
    read: str = "0.1"
    threshold: int = 0


_PRICES = (
    _Price("claude-haiku-5-5", "0.50", "2.50", threshold=100_000),
    _Price("claude-haiku-5-5", "0.10", "0.50"),
    _Price("claude-sonnet-5-5", "2", "10", read="0.05"),
    _Price("claude-sonnet-5", "2", "10"),
    _Price("claude-sonnet-4", "3", "15"),
    _Price("claude-opus-5-5", "4", "20", read="0.05"),
    _Price("claude-opus-5", "5", "25"),
    _Price("claude-opus-4-1", "15", "75"),
    _Price("claude-opus-4", "5", "25"),
    _Price("claude-fable-5-1", "10", "50", read="0.025"),
    _Price("claude-fable-5", "10", "50"),
    _Price("claude-haiku-4", "1", "5"),
)


def _price_of(model: str, prompt_tokens: int) -> _Price | None:
    for price in _PRICES:
        if model.startswith(price.prefix) and prompt_tokens > price.threshold:
            return price
    return None


def cost(model: str, usage: Usage) -> Decimal | None:
    """Return the list price of an answer in USD to six decimals; None for an unknown model."""
    prompt = usage.input + usage.cache_read + usage.cache_write
    price = _price_of(model, prompt)
    if price is None:
        return None
    fresh = (
        usage.input + Decimal(price.read) * usage.cache_read + Decimal("1.25") * usage.cache_write
    )
    total = Decimal(price.input) * fresh + Decimal(price.output) * usage.output
    return (total / 1_000_000).quantize(Decimal("0.000001"))


#: Tokens of an answer, for an estimate.
ANSWER_TOKENS = 1_000


def estimated_cost(model: str, prompts: Iterable[int]) -> Decimal | None:
    """Return the list price of questions, each given by its tokens; None for an unknown model."""
    total = Decimal(0)
    for tokens in prompts:
        price = cost(model, Usage(tokens, ANSWER_TOKENS))
        if price is None:
            return None
        total += price
    return total


def price_words(price: Decimal) -> str:
    """Return a price in dollars for a sentence or a cell."""
    return f"${price:.2f}" if price >= Decimal("0.01") else "less than $0.01"


class Spent(NamedTuple):
    """What an answer took: tokens, USD where the price of its model is known, and 1 in
    `unpriced` where it is not.
    """

    tokens: int
    cost: Decimal
    unpriced: int


def spent_on(meta: Mapping[str, Any], model: str) -> Spent:
    """Return the tokens and the cost of an answer, by the meta of its event."""

    def count(name: str) -> int:
        value = meta.get(name)
        return value if type(value) is int and value >= 0 else 0

    usage = Usage(*(count(f"{kind}_tokens") for kind in _KINDS))
    price = _stated_price(meta.get("cost_usd")) or cost(model, usage)
    return Spent(usage.total, price or Decimal(0), int(price is None and usage.total > 0))


def _stated_price(value: object) -> Decimal | None:
    if not isinstance(value, str):
        return None
    try:
        price = Decimal(value)
    except InvalidOperation:
        return None
    is_price = price.is_finite() and price >= 0
    return price if is_price else None
