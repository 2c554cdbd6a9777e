"""The table of backends: each name in it is a backend that says the same of itself and is documented."""

from __future__ import annotations

from pathlib import Path

import pytest

from reflector.config import BACKENDS, Config, ConfigError
from reflector.reflection.backends import REREADING, backend_of

PAGE = Path(__file__).parents[2] / "docs" / "judging.md"


@pytest.mark.parametrize("name", BACKENDS)
def test_each_name_in_the_settings_is_a_backend_that_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    backend = backend_of(Config(backend=name, fixtures="answers.jsonl"))
    assert (backend.name, backend.is_model, backend.rereads) == (name, BACKENDS[name], name in REREADING)


@pytest.mark.parametrize("name", BACKENDS)
def test_each_backend_is_a_row_of_the_page(name: str) -> None:
    row = f"| `{name}` |"
    assert row in PAGE.read_text("utf-8"), f"docs/judging.md lacks the row {row} …"


def test_a_name_that_is_not_a_backend_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="'oracle' is not a backend; the backends are rules, anthropic, fixtures"):
        backend_of(Config(backend="oracle"))
