"""Judges of other distributions: loaded by name, and asked like a model.

A judge is a function `(model: str, deadline: float) -> Client` in the entry point group
`reflector.judges`. `model` is the setting of that name, or "" for the judge's own choice.
`deadline` is the longest wait in seconds. The client gets the texts of one prompt and returns a
`Reply`.

Invariant: such a judge gets the same texts as an agent, and its verdicts count like an agent's. It
is loaded if its name is in the user's `judges` and `backend`, and if the user allowed it to judge.
Its requests count in every budget, its verdicts need quotes, and its answers have its distribution
and version in their `meta`. If a judge is missing, refused or broken, this is an outage, so
sessions are recorded and wait. A stored answer is read without the extension, so a ledger does not
need it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reflector import extensions
from reflector.extensions import Extension, ExtensionError, broken, error_of
from reflector.judges import consent
from reflector.judges.kind import JudgeKind, Readiness
from reflector.judges.model import Client, ModelBackend, Reply, model_backend
from reflector.judges.protocol import BackendError
from reflector.prices import Usage

if TYPE_CHECKING:
    from reflector.config import Config

#: The file in the folder of the consent, which a withdrawal removes with it.
_FILE = "extensions.json"


@dataclass(frozen=True, slots=True)
class ExtensionClient(Client):
    """The client of a judge of another distribution, which is loaded when it is asked.

    entry_point  the name of the judge
    deadline     longest wait for an answer in seconds
    """

    entry_point: str
    model: str
    deadline: float

    def admit(self) -> None:
        """Raise BackendError if the judge cannot be asked now."""
        self._load()

    async def send(self, texts: Sequence[str]) -> Reply:
        """Ask one question.

        Raises: BackendError and nothing else.
        """
        extension, client = self._load()
        try:
            reply = await asyncio.wait_for(client.send(texts), self.deadline)
            return _checked(reply, extension)
        except BackendError:
            raise
        except TimeoutError as error:
            fault = f"{extension.words} did not answer within {self.deadline:g} seconds"
            raise BackendError(fault, stage="transport") from error
        except Exception as error:
            fault = f"{extension.words} failed: {error_of(error)}"
            raise BackendError(fault, stage="answer") from error

    def _load(self) -> tuple[Extension, Client]:
        """Return the judge and its client.

        Raises: BackendError
        """
        try:
            extension = agreed_extension(self.entry_point)
            make_client = _loaded(extension)
            try:
                client: Client = make_client(self.model, self.deadline)
            except Exception as error:
                raise broken(extension, f"failed: {error_of(error)}") from error
            if not callable(getattr(client, "send", None)):
                raise broken(extension, "returned a client that does not have the method `send`")
        except ExtensionError as error:
            raise BackendError(str(error), stage="access", attempts=0) from error
        return extension, client


def extension_kind(name: str) -> JudgeKind:
    """Return the judge of a listed name; it is not loaded yet."""

    def build(config: Config, project: Path | None) -> ModelBackend:
        client = ExtensionClient(name, config.model, float(config.deadline_seconds))
        return model_backend(name, client, config, project)

    def readiness(_config: Config, _project: Path) -> Readiness:
        try:
            extension = agreed_extension(name)
            _loaded(extension)
        except ExtensionError as error:
            fault, _, way_out = str(error).rpartition("; ")
            return Readiness(fault, way_out)
        return Readiness(f"{extension.words}, an extension that you allowed to judge")

    return JudgeKind(name=name, title=name, build=build, readiness=readiness)


def _loaded(extension: Extension) -> Callable[[str, float], Client]:
    """Return the function that makes a judge's client.

    Raises: ExtensionError if the package is broken.
    """
    make_client = extensions.load_extension(extension)
    if not callable(make_client):
        raise broken(extension, "is not a function")
    return make_client


def agreed_extension(name: str) -> Extension:
    """Return the installed judge of a name, which the user allowed.

    Raises: ExtensionError if it is not installed, refused, or not the one that the user agreed to.
    """
    extension = extensions.find_extension("judges", name)
    if consent.kept_object(_FILE).get(name) != _identity(extension):
        raise ExtensionError(
            f"you have not allowed {extension.words} to judge; run: reflector judge allow {name}"
        )
    return extension


def agree(extension: Extension) -> None:
    """Record that the user allows an extension to judge.

    Raises: OSError
    """
    agreed = {**consent.kept_object(_FILE), extension.name: _identity(extension)}
    consent.keep_object(_FILE, agreed)


def disagree(name: str) -> bool:
    """Withdraw the consent to an extension; return whether there was one.

    Raises: OSError
    """
    agreed = consent.kept_object(_FILE)
    if agreed.pop(name, None) is None:
        return False
    consent.keep_object(_FILE, agreed)
    return True


def _identity(extension: Extension) -> dict[str, str]:
    """Return the facts that a consent covers; an update of the distribution keeps them."""
    return {
        "distribution": extension.distribution,
        "location": extension.location,
        "object": extension.entry_point.value,
    }


def _checked(reply: object, extension: Extension) -> Reply:
    """Return a reply whose tokens and texts can be counted and stored, with its origin.

    Raises: TypeError
    """
    if not isinstance(reply, Reply):
        raise TypeError(f"the reply is {type(reply).__name__}, not a reflector.judges.model.Reply")
    if not isinstance(reply.usage, Usage):
        raise TypeError(f"`reply.usage` is {type(reply.usage).__name__}; it must be a Usage")
    texts = (reply.text, reply.model, reply.stop_reason)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("text, model and stop_reason of a reply must be strings")
    counts = astuple(reply.usage)
    if not all(type(count) is int and count >= 0 for count in counts):
        raise TypeError("each token count in a reply must be a whole number of at least 0")
    origin = {
        "name": extension.name,
        "distribution": extension.distribution,
        "version": extension.version,
    }
    # Its price and its number of requests are dropped, because it must not decide on the budgets.
    return Reply(reply.text, reply.model, reply.stop_reason, Usage(*counts), origin=origin)
