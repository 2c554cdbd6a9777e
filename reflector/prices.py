"""The tokens of an answer, from its event's meta, and their cost in USD by list prices.

Invariant: a cost is an estimate beside the token counts, which are the fact. It is computed once,
by the prices of the judge that answered, and recorded with the answer. It is None for a model
without a price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import add
from typing import TYPE_CHECKING, Any, NamedTuple

# `status` names judges without a price, so decimal is imported only when a price is computed.
if TYPE_CHECKING:
    from decimal import Decimal

#: The highest price of one answer in USD. The digits of a higher, forged one could fill the memory.
_MOST_USD = 1_000_000
_KINDS = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one answer, as the API counted them. `input` does not include those read from
    and written to the cache.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    @property
    def total(self) -> int:
        """All tokens, whatever their price. Budgets count these."""
        return self.input + self.output + self.cache_read + self.cache_write

    def meta(self) -> dict[str, object]:
        """Return the tokens in the form of an event's meta."""
        return {f"{kind}_tokens": count for kind, count in zip(_KINDS, astuple(self), strict=True)}

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))


class Price(NamedTuple):
    """The USD per million tokens of the models with a prefix, for prompts longer than `threshold`.
    Reading the cache costs `read` times the input's price, and writing it 1.25 times.
    """

    prefix: str
    input: str
    output: str
    read: str = "0.1"
    threshold: int = 0


def cost(prices: Iterable[Price], model: str, usage: Usage) -> Decimal | None:
    """Return the price of an answer in USD to six decimals, from the first price that fits; None
    for an unknown model.
    """
    from decimal import Decimal

    prompt = usage.total - usage.output
    fitting = (row for row in prices if model.startswith(row.prefix) and prompt > row.threshold)
    price = next(fitting, None)
    if price is None:
        return None
    fresh = (
        usage.input + Decimal(price.read) * usage.cache_read + Decimal("1.25") * usage.cache_write
    )
    total = Decimal(price.input) * fresh + Decimal(price.output) * usage.output
    return (total / 1_000_000).quantize(Decimal("0.000001"))


#: The tokens of an answer in an estimate.
ANSWER_TOKENS = 1_000


def estimated_cost(prices: Sequence[Price], model: str, prompts: Iterable[int]) -> Decimal | None:
    """Return the price of questions, each given by its tokens; None for an unknown model."""
    from decimal import Decimal

    total = Decimal(0)
    for tokens in prompts:
        price = cost(prices, model, Usage(tokens, ANSWER_TOKENS))
        if price is None:
            return None
        total += price
    return total


def price_words(price: Decimal) -> str:
    """Return a price in dollars for a sentence or a table cell."""
    return "less than $0.01" if 0 < price * 100 < 1 else f"${price:.2f}"


class Spent(NamedTuple):
    """The cost of an answer: its tokens, the USD if the price of its model was known, and 1 in
    `unpriced` if it was not.
    """

    tokens: int
    cost: Decimal
    unpriced: int


def tokens_in(meta: Mapping[str, Any]) -> int:
    """Return the number of all tokens of an answer, from the meta of its event."""
    counts = [meta.get(f"{kind}_tokens") for kind in _KINDS]
    return sum(count for count in counts if type(count) is int and count > 0)


def spent_on(meta: Mapping[str, Any]) -> Spent:
    """Return the tokens and the cost of an answer, from the meta of its event."""
    from decimal import Decimal

    tokens = tokens_in(meta)
    price = _stated_price(meta.get("cost_usd"))
    return Spent(tokens, price or Decimal(0), int(price is None and tokens > 0))


def _stated_price(value: object) -> Decimal | None:
    from decimal import Decimal, InvalidOperation

    if not isinstance(value, str):
        return None
    try:
        price = Decimal(value)
    except InvalidOperation:
        return None
    is_price = price.is_finite() and 0 <= price <= _MOST_USD
    return price if is_price else None
