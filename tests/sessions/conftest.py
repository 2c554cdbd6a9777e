"""The project of the hooks' tests: what hooks leave there, the pipeline takes in."""

from tests.hooks.conftest import project

__all__ = ["project"]
