"""The servers that the tests run on are those that a person names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_ONE = "tests/ledger/test_append.py::test_a_new_ledger_is_empty_and_its_chain_is_the_genesis"


def _told(**environ: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "postgres", _ONE]
    env = {**os.environ, **environ}
    return subprocess.run(command, cwd=_ROOT, env=env, capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_the_server_that_a_person_names_is_the_one_that_the_tests_ask() -> None:
    told = _told(REFLECTOR_TEST_POSTGRES_URL="postgresql://nobody@/nothing?host=/no/such/folder")
    assert "/no/such/folder/.s.PGSQL" in told
