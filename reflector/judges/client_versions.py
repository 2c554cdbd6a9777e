"""The versions of agents that may judge.

Invariant: asking an agent for its version sends nothing. The agent is started with the variables
that it would judge with, in an empty folder.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from contextlib import suppress

from reflector.judges.agent_clients import JUDGES, JudgeClient
from reflector.judges.consent import Agreed

_SECONDS = 5.0


def version_in(printed: bytes) -> str:
    """Return the version in the output of an agent; "" if there is none."""
    match = re.search(rb"\d+(?:\.\d+)+", printed)
    return match[0].decode() if match is not None else ""


def version_fault(client: JudgeClient, version: str) -> str:
    """Return why a version of an agent may not judge, with the way out; "" if it may."""
    since, below = client.versions
    if _numbers(version) < _numbers(since):
        return (
            f"{client.title} {version} is too old to judge; update {client.title} to {since} or "
            "later"
        )
    if _numbers(version) >= _numbers(below):
        return (
            f"{client.title} {version} is too new to judge (tested: {since} and later, below "
            f"{below}); update reflector"
        )
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def client_fault(name: str, agreed: Agreed) -> str:
    """Return why the version of an installed agent may not judge; "" if it may or is not known."""
    with suppress(OSError, subprocess.SubprocessError), tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [agreed.path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=folder,
            env=dict(agreed.environ),
            timeout=_SECONDS,
        )
        version = version_in(ended.stdout)
        return version_fault(JUDGES[name], version) if version else ""
    return ""
