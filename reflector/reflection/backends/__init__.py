"""The backends by name. Each is imported when it is used: a model's SDK takes seconds to import."""

from __future__ import annotations

from reflector.reflection.protocol import Backend


def backend_named(name: str) -> Backend:
    """The backend of a name that the configuration accepted."""
    if name == "rules":
        from reflector.reflection.backends.rules import RulesBackend

        return RulesBackend()
    raise ValueError(f"{name!r} is not a backend")
