"""`dataclass` as the standard library has it, made in a fifth of the time.

An everyday command makes about thirty classes of values. The standard library compiles up to six methods for each of
them, which took a sixth of the command's time. Here only `__init__` is compiled; the other methods are written once and
ask for the fields. The classes are dataclasses all the same: `fields`, `replace` and `asdict` of the standard library
take them, and to a type checker the two decorators are one.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False) -> Any:
        """Return a decorator that makes a dataclass; each option means what it means to `dataclasses.dataclass`."""

        def made(plain: type) -> type:
            # Without a text, the standard library derives one from the signature, which takes longer than the rest.
            plain.__doc__ = plain.__doc__ or plain.__name__
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(plain)
            methods = {"__init__": _init(cls, frozen), "__repr__": _repr}
            if eq:
                methods |= _comparing(cls, frozen)
            if frozen:
                methods |= _FROZEN
            for name, method in methods.items():
                if name not in cls.__dict__:
                    setattr(cls, name, method)
            return cls

        return made


def _init(cls: Any, frozen: bool) -> Callable[..., None]:
    """Compile `__init__`. Names that it needs besides the fields' begin with two underscores."""
    missing = dataclasses.MISSING
    known: dict[str, Any] = {"__set": object.__setattr__, "__missing": missing}
    taken: list[str] = ["self"]
    named: list[str] = []
    body: list[str] = []
    for one in dataclasses.fields(cls):
        name = one.name
        default, value = f"__{name}", name
        if one.default is not missing:
            known[default], made = one.default, default
        elif one.default_factory is not missing:
            known[default] = one.default_factory
            made, default = f"{default}()", "__missing"
            value = f"{made} if {name} is __missing else {name}"
        else:
            made = default = ""
        if one.init:
            (named if one.kw_only else taken).append(f"{name}={default}" if default else name)
        else:
            value = made
        if value:
            body.append(f"__set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join([*taken, "*", *named] if named else taken)
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {one.name: one.type for one in dataclasses.fields(cls) if one.init} | {"return": None}
    return init


def _comparing(cls: Any, frozen: bool) -> dict[str, Any]:
    """Return the methods that compare values of a class by those of their fields."""
    names = [one.name for one in dataclasses.fields(cls) if one.compare]
    # Of one name alone, attrgetter would return no tuple.
    values: Callable[[Any], Any] = attrgetter(*names, names[0]) if names else type

    def __eq__(self: Any, other: object) -> bool:
        return values(self) == values(other) if self.__class__ is other.__class__ else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


class _Frozen:
    """What a value that does not change has; copying and pickling go round `__setattr__`."""

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> list[Any]:
        return [getattr(self, one.name) for one in dataclasses.fields(self)]  # type: ignore[arg-type]

    def __setstate__(self, state: list[Any]) -> None:
        for one, value in zip(dataclasses.fields(self), state, strict=True):  # type: ignore[arg-type]
            object.__setattr__(self, one.name, value)


_FROZEN = {name: getattr(_Frozen, name) for name in ("__setattr__", "__delattr__", "__getstate__", "__setstate__")}
