"""The judges that a user can choose: the tokens of each, the recipient of the text, and who may
judge.

Invariant: listing them sends and writes nothing. A judge is allowed after it has shown that it can
judge, and after the user saw the terms and agreed.
"""

from __future__ import annotations

from asyncio import gather, run
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from heapq import nlargest
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from reflector import extensions
from reflector.config import APIS, OFFLINE, Config, users_config
from reflector.extensions import Extension, ExtensionError
from reflector.judges import consent
from reflector.judges.agent_clients import JUDGES
from reflector.judges.agent_process import check_client, installed_version
from reflector.judges.consent import Choice
from reflector.judges.extensions import agree, agreed_extension, disagree
from reflector.judges.protocol import BackendError
from reflector.judges.registry import judge_kind, priced
from reflector.locate import user_folder
from reflector.prices import ANSWER_TOKENS
from reflector.settings_file import store_setting
from reflector.transcripts.readers import is_subagents, stores

#: The number of newest sessions in an estimate.
_SESSIONS = 10
#: The fewest bytes of a transcript for one token of a question.
_BYTES_PER_TOKEN = 3
#: The recipient of a judge that sends no text.
NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Offer:
    """A judge and its terms.

    name      as `--judge` and `judge allow` accept it
    allowed   whether it may judge
    version   "" if it has none or it is unknown
    model     the model that is asked, "" for none or the judge's own choice
    goes_to   the recipient of the text of your sessions
    tokens    at most, for the newest sessions; 0 for a judge that asks no model
    price     of them in USD; null if no price is known
    fault     why it cannot judge now, and the way out; null if it can
    """

    name: str
    allowed: bool
    version: str
    model: str
    goes_to: str
    tokens: int
    price: Decimal | None
    fault: str | None = None

    @property
    def is_choice(self) -> bool:
        """Whether it is a model that can judge now but is not allowed yet."""
        return self.goes_to != NOBODY and not self.allowed and self.fault is None


class Estimate(NamedTuple):
    """The tokens of a user's newest sessions as questions, estimated from their sizes."""

    prompts: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """The tokens of all, with their answers, in whole thousands."""
        answers = ANSWER_TOKENS * len(self.prompts)
        return -(-(sum(self.prompts) + answers) // 1000) * 1000


def estimate(config: Config) -> Estimate:
    """Return the newest sessions of all agents and projects, as questions. Sessions of subagents
    are omitted, because they are parts of others.
    """
    transcripts = []
    for store in stores():
        with suppress(OSError):
            paths = store.kept.folder.rglob(store.kept.pattern)
            transcripts += [path.stat() for path in paths if not is_subagents(path)]
    newest = nlargest(_SESSIONS, transcripts, key=lambda transcript: transcript.st_mtime)
    sizes = (transcript.st_size // _BYTES_PER_TOKEN for transcript in newest)
    return Estimate(tuple(min(size, config.request_tokens) for size in sizes))


def offers(config: Config, project: Path) -> list[Offer]:
    """Return the judges that are available, with their terms."""
    newest = estimate(config)
    listed = [*_agents(config, project, newest)]
    listed += [_extension(name, newest) for name in config.judges]
    listed += [api_offer(name, config, project, newest) for name in APIS]
    for name in sorted(OFFLINE):
        if not judge_kind(name).readiness(config, project).way_out:
            listed.append(Offer(name, True, "", "", NOBODY, 0, Decimal(0)))
    return listed


def _agents(config: Config, project: Path, newest: Estimate) -> Iterator[Offer]:
    """Yield the offers of the installed and the allowed agents."""
    allowed = consent.agreed_clients()
    clients = {**consent.installed_clients(project), **allowed}
    for name, (version, fault) in _versions(clients).items():
        yield Offer(
            name=name,
            allowed=name in allowed,
            version=version,
            model=JUDGES[name].model,
            goes_to=f"{JUDGES[name].maker or 'the provider of this model'}, with your login",
            tokens=newest.tokens,
            price=priced(config, name, newest.prompts),
            fault=fault or consent.rest_words(name) or None,
        )


def _versions(clients: dict[str, consent.Agreed]) -> dict[str, tuple[str, str]]:
    """Return the version of each client, and why it cannot judge."""

    async def version_of(name: str) -> tuple[str, str]:
        try:
            version = await installed_version(name, clients[name])
        except (BackendError, OSError) as error:
            return "", str(error)
        return version, JUDGES[name].version_fault(version)

    async def all_of_them() -> list[tuple[str, str]]:
        return await gather(*map(version_of, clients))

    return dict(zip(clients, run(all_of_them()), strict=True))


def _extension(name: str, newest: Estimate) -> Offer:
    """Return the offer of a judge from another package."""
    version = ""
    receiver = "unknown"
    fault: str | None = None
    try:
        extension = extensions.find_extension("judges", name)
        version = extension.version
        receiver = f"the package {extension.distribution}"
        agreed_extension(name)
        is_allowed = True
    except ExtensionError as error:
        is_allowed = False
        fault = None if version else str(error)
    return Offer(name, is_allowed, version, "", receiver, newest.tokens, None, fault)


def api_offer(name: str, config: Config, project: Path, newest: Estimate) -> Offer:
    """Return an API with its terms."""
    kind = judge_kind(name)
    lacks = kind.readiness(config, project).way_out
    return Offer(
        name=name,
        allowed=config.backend == name,
        version="",
        model=kind.model(config, name),
        goes_to=consent.masked_address(kind.address(config) if kind.address else "", kind.maker),
        tokens=newest.tokens,
        price=priced(config, name, newest.prompts),
        fault=f"the API key is missing: {lacks}" if lacks else None,
    )


class Candidate(NamedTuple):
    """An agent that has shown that it can judge."""

    name: str
    version: str
    terms: consent.Agreed

    @property
    def title(self) -> str:
        return JUDGES[self.name].title


def candidates(name: str | None, project: Path) -> tuple[list[Candidate], list[str]]:
    """Return the installed agents that have shown that they can judge, and why others cannot.

    Raises: JudgeRefused if the agent of that name is not installed.
    """
    installed = consent.installed_clients(project)
    if name is not None:
        if name not in installed:
            raise consent.JudgeRefused(
                f"{JUDGES[name].title} is not on your PATH; install it, then run this command again"
            )
        installed = {name: installed[name]}
    ready = []
    faults = []
    for each, terms in installed.items():
        try:
            ready.append(Candidate(each, run(check_client(each, terms)), terms))
        except (BackendError, OSError) as error:
            faults.append(str(error))
    return ready, faults


def allow_agents(ready: Sequence[Candidate], project: Path) -> None:
    """Allow agents to judge from now on, in addition to the ones already allowed.

    Raises: OSError, ConfigError.
    """
    named = {candidate.name: candidate.terms for candidate in ready}
    consent.keep_consent({**consent.agreed_clients(), **named})
    _choose("agent", project)


def allow_extension(extension: Extension, project: Path) -> None:
    """Allow the judge of another package to judge from now on.

    Raises: OSError, ConfigError.
    """
    agree(extension)
    _choose(extension.name, project)


def allow_api(name: str, config: Config, project: Path) -> None:
    """Allow an API to judge at its present address, within the daily limit that was shown.

    Raises: OSError, ConfigError
    """
    yours = users_config()
    if yours.layer("daily_requests") == "default":
        store_setting(project, "daily_requests", yours.daily_requests, for_all=True)
    kind = judge_kind(name)
    _choose(name, project, kind.address(config) if kind.address else "")


def _choose(backend: str, project: Path, address: str | None = None) -> None:
    """Store the judge of all projects. If your settings already name it, it stays after
    `take_back`.

    Raises: OSError, ConfigError
    """
    former = consent.chosen()
    answer_id = former.id or token_hex(8)
    if users_config().backend == backend:
        consent.keep_choice(Choice(former.backend, address, answer_id, backend))
        return
    consent.keep_choice(Choice(backend, address, answer_id, backend))
    store_setting(project, "backend", backend, for_all=True)


def keep_limits(
    config: Config, project: Path, *, questions: int, dollars: int, never: Sequence[str]
) -> None:
    """Store the limits of judging in the user's own settings. The limit of questions is always
    stored, because an API has no limit without it. The other limits are stored if they change
    something.

    Raises: OSError, ConfigError
    """
    limits = {"daily_requests": questions, "monthly_dollars": dollars, "never": [*never]}
    for key, value in limits.items():
        former = getattr(config, key)
        is_new = value != (list(former) if isinstance(former, tuple) else former)
        if is_new or key == "daily_requests":
            store_setting(project, key, value, for_all=True)


def forbid(name: str | None) -> bool:
    """Forbid a judge to judge, or all judges without a name; return whether one was allowed. Only
    your own file decides: a project's file and the environment do not keep a judge in force.

    Raises: OSError, ConfigError
    """
    config = users_config()
    if name is None:
        was_allowed = consent.withdraw()
    elif name in JUDGES:
        was_allowed = _forbid_agent(name)
    else:
        was_allowed = name in config.judges and disagree(name)
    if was_allowed and name is not None:
        consent.keep_choice(consent.chosen()._replace(id=""))  # every order ends
    if not _ends_with(name, config.backend):
        return was_allowed
    _remove_backend()
    if consent.chosen() != Choice():
        consent.keep_choice(Choice())
    return True


def take_back() -> bool:
    """Undo the permissions that answers gave; return whether there was one. A `backend` that you
    set by hand stays.

    Raises: OSError, ConfigError
    """
    chosen = consent.chosen().backend
    was_allowed = consent.withdraw()
    if users_config().backend != chosen:
        return was_allowed
    _remove_backend()
    return True


def _remove_backend() -> None:
    """Remove `backend` from the user's own settings.

    Raises: OSError, ConfigError.
    """
    store_setting(Path(user_folder()), "backend", None, for_all=True)


def _ends_with(name: str | None, backend: str) -> bool:
    """Return whether the user's setting `backend` has no judge left after one was forbidden."""
    if backend == "rules":
        return False
    if backend == "agent":
        return (name is None or name in JUDGES) and not consent.agreed_clients()
    return name in (None, backend)


def _forbid_agent(name: str) -> bool:
    allowed = consent.agreed_clients()
    if allowed.pop(name, None) is None:
        return False
    consent.keep_consent(allowed)
    return True
