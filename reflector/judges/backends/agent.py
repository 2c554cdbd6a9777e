"""The judge `agent`: the user's own agent, if they allowed it to judge.

`agent_process.py` starts it, `agent_clients.py` lists the agents that can judge, and `consent.py`
has the ones that the user allowed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import CONSENT, Config
from reflector.judges.backends.anthropic import PRICES
from reflector.judges.kind import JudgeKind, Readiness

if TYPE_CHECKING:
    from reflector.judges.protocol import Backend

#: Names of models in the clients, and in the price list.
_PRICED = {"haiku": "claude-haiku-5-5"}


def _build(config: Config, project: Path | None) -> Backend:
    from reflector.judges.agent_process import AgentClient
    from reflector.judges.model import model_backend

    client = AgentClient(config.judge_client, config.model, float(config.deadline_seconds))
    return model_backend("agent", client, config, project, PRICES)


def _readiness(config: Config, _: Path) -> Readiness:
    from reflector.judges import consent
    from reflector.judges.agent_clients import JUDGES

    agreed = consent.askable_clients()
    if not agreed or config.judge_client not in ("", *agreed):
        who = JUDGES[config.judge_client].title if config.judge_client else "an agent"
        return Readiness(f"agent: you have not allowed {who} to judge", CONSENT)
    names = [config.judge_client] if config.judge_client else list(agreed)
    each = [f"{name} {consent.rest_words(name)}".rstrip() for name in names]
    return Readiness(f"agent: {', '.join(each)}")


def _client_for(config: Config, writer: str) -> str:
    from reflector.judges.consent import client_name

    return client_name(config.judge_client, writer)


def _model(config: Config, client: str) -> str:
    from reflector.judges.agent_clients import JUDGES

    chosen = config.model if config.judge_client else ""
    model = chosen or JUDGES[client].model
    return _PRICED.get(model, model)


JUDGE = JudgeKind(
    name="agent",
    title="your agent",
    build=_build,
    settings=("judge_client", "model"),
    readiness=_readiness,
    client_for=_client_for,
    model=_model,
    prices=PRICES,
)
