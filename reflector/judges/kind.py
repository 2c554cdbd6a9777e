"""A kind of judge as one value, as an event type is.

Each judge has a module of its own, `reflector/judges/NAME.py`, that holds this value as `JUDGE`.
`registry.py` finds it by its name. Invariant: importing such a module is cheap, because `status`
and `doctor` read it; SDKs and processes are imported by `build` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reflector.config import Config

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend


class Readiness(NamedTuple):
    """The judge in force in words, and how it gets what it lacks; "" if it lacks nothing."""

    words: str
    way_out: str = ""


class JudgeKind(NamedTuple):
    """One judge.

    name          its name in settings, options and events
    title         its name in sentences, such as "Anthropic's API"
    build         returns the backend by a configuration, for a project's folder or None; may raise
                  ConfigError
    is_model      True if an answer costs time and money
    rereads       True if it judges each window together with the earlier ones of its session
    settings      the settings that only it reads
    readiness     returns the judge in force by a configuration and the project's folder; None for a
                  judge that lacks nothing
    client_for    returns which of its clients is asked about a session that an agent wrote; None
                  for a judge that asks nobody or always the same one
    priced_model  returns the model that is asked by a configuration and the name of a client, as
                  the price list has it; None for a judge that costs nothing
    maker         who gets the text of an API without an address of its own
    address       returns the address of the API by a configuration, "" for its maker's own; None
                  for a judge without one
    """

    name: str
    title: str
    build: Callable[[Config, Path | None], Backend]
    is_model: bool = False
    rereads: bool = False
    settings: tuple[str, ...] = ()
    readiness: Callable[[Config, Path], Readiness] | None = None
    client_for: Callable[[Config, str], str] | None = None
    priced_model: Callable[[Config, str], str] | None = None
    maker: str = ""
    address: Callable[[Config], str] | None = None
