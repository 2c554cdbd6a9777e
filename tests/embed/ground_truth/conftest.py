"""The ledger of a judge's tests: what reflecting does is the same on each engine."""

from tests.reflection.conftest import book, ledger

__all__ = ["book", "ledger"]
