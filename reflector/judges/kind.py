"""A kind of judge as one value, as an event type is.

Each judge that ships is a module `reflector/judges/backends/NAME.py` that holds this value as
`JUDGE`. The choices of `--judge`, the offers, the prices and the consent derive from it.
Invariant: importing such a module is cheap, because `status` and `doctor` read it; SDKs and
processes are imported by `build` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reflector.config import Config
from reflector.prices import Price

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend


class Readiness(NamedTuple):
    """The current judge in words, and the way to repair what is missing; "" if nothing is."""

    words: str
    way_out: str = ""


class JudgeKind(NamedTuple):
    """One judge. `OFFLINE` of `reflector/config.py` has the judges that ask no model.

    name        its name in settings, options and events: that of its module
    title       its name in sentences, such as "Anthropic's API"
    build       returns the backend by a configuration, for a project's folder or None; may raise
                ConfigError
    rereads     True if it judges each window together with the earlier ones of its session
    settings    the settings that only it reads
    readiness   returns the current judge by a configuration and the project's folder
    client_for  returns the name of the client to ask about a session of an agent; "" for the only
                one
    model       returns the model to ask by a configuration and the name of a client, as the price
                list has it; "" for none
    prices      of its models
    maker       the recipient of the text of an API without an address of its own
    address     returns the address of the API by a configuration, "" for its maker's own; None
                for a judge without one
    """

    name: str
    title: str
    build: Callable[[Config, Path | None], Backend]
    rereads: bool = False
    settings: Sequence[str] = ()
    readiness: Callable[[Config, Path], Readiness] = lambda config, _: Readiness(config.backend)
    client_for: Callable[[Config, str], str] = lambda *_: ""
    model: Callable[[Config, str], str] = lambda *_: ""
    prices: Sequence[Price] = ()
    maker: str = ""
    address: Callable[[Config], str] | None = None
