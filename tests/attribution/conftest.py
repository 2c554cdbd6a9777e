"""The play of the memory's tests."""

from tests.memory.conftest import begun, world

__all__ = ["begun", "world"]
