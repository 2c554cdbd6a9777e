"""How a generated client reaches us: in this process, which is quick, or by processes of its own, which is real."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

from reflector import files
from reflector.hooks import fast
from tests.processes import HOOK
from tests.road.agent import PATIENCE, Agent
from tests.road.worker import drain_until


class InProcess:
    """Hooks are calls; `asked` counts the drains that they would have started."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.asked = 0

    def hook(self, payload: dict[str, Any]) -> None:
        with self._stdin(json.dumps(payload).encode()):
            fast.hook()

    def drain(self, *options: str) -> None:
        self.agent.call("drain", *options, code=None)

    def kill_drain(self, step: int) -> None:
        """A drain that is killed right before the `step`th call that could leave a trace, if it has so many."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # no thread of ours runs, whatever the runner has
            child = os.fork()
        if not child:
            try:
                with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                    drain_until(self.agent.project, self.agent.env(), step)
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    @contextmanager
    def _stdin(self, raw: bytes) -> Iterator[None]:
        read, write, environ = files.read_all, files.write_all, self.agent.env()

        def count(_project: str) -> None:
            self.asked += 1

        with (
            patch.object(fast, "read_all", lambda fd, limit: raw if fd == 0 else read(fd, limit)),
            patch.object(fast, "write_all", lambda fd, data: None if fd == 1 else write(fd, data)),
            patch.object(fast, "environment", lambda name: environ.get(name, "")),
            patch.object(fast, "start_drain", count),
            patch.dict(os.environ, environ, clear=True),
        ):
            yield


class ByProcesses:
    """Each hook, each drain and each kill is real; a folder that was deleted is the hook's working folder."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def hook(self, payload: dict[str, Any]) -> None:
        into = 'mkdir -p "$0" && cd "$0" && case "$0" in */gone) rmdir "$0";; esac; exec "$@"'
        done = subprocess.run(
            ["sh", "-c", into, payload["cwd"], *HOOK],
            input=json.dumps(payload).encode(),
            env=self.agent.env(REFLECTOR_NO_SPAWN="1"),
            capture_output=True,
            timeout=PATIENCE,
        )
        assert (done.returncode, done.stderr) == (0, b"")

    def drain(self, *options: str) -> None:
        self.agent.run("drain", *options, code=None)

    def kill_drain(self, step: int) -> None:
        drain = self.agent.start("drain")
        time.sleep(0.2 + step / 400)
        drain.send_signal(signal.SIGKILL)
        drain.communicate()
