"""The backend `fixtures`: recorded answers, looked up by the question.

Invariant: a key depends only on the session and on the playbook's advice, not on counters, paths,
ids, models or prompts. So the recorded answers of one model can be replayed on any machine, even if
the counters moved.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from reflector.config import Config, ConfigError
from reflector.files import append_named, read_bounded
from reflector.judges.kind import JudgeKind, Readiness
from reflector.judges.protocol import Answer, Backend, BackendError, Request, reply_of
from reflector.text.secrets import redact

if TYPE_CHECKING:
    from reflector.judges.truth.questions import Question

_MOST_BYTES = 256 << 20


def request_sha256(request: Request) -> str:
    """Return the hex SHA-256 of the canonical request. Line ends are hashed as LF, so that a
    checkout cannot change it.
    """
    digest = sha256()

    def add(*values: object) -> None:
        digest.update(_canonical(values) + b"\n")

    # The two numbers never change, so that old recordings keep their keys.
    add("reflect_session", 1, request.mode, 1)
    for bullet in request.playbook:
        add(bullet.name, bullet.section, bullet.text)
    add(list(request.cited))
    for message in request.messages():
        calls = [(call.name, dict(call.input)) for call in message.calls]
        results = [(result.text, result.is_error) for result in message.results]
        add(message.role, message.origin, message.text, calls, results)
    return digest.hexdigest()


def _canonical(values: Sequence[object]) -> bytes:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return text.replace("\\r\\n", "\\n").encode()


def question_sha256(question: Question) -> str:
    """Return the hex SHA-256 of a question about a trajectory. It depends on the subject, not on
    templates or counters.
    """
    case = question.case
    run = case.trajectory
    values = (
        *("reflect_trajectory", 1, question.iteration, question.part),
        *(run.query, run.generated_answer, run.reasoning_steps, run.status, run.error_message),
        *(case.ground_truth, case.test_report),
        [(bullet.id, bullet.section, bullet.content) for bullet in case.bullets],
    )
    return sha256(_canonical(values)).hexdigest()


@dataclass(frozen=True, slots=True)
class FixturesBackend:
    """Answers from a file."""

    path: Path
    name: str = "fixtures"
    is_model = False
    rereads = False
    quotes = True

    def answer(self, request: Request) -> Answer:
        """Return the recorded answer.

        Raises: BackendError if the file is unreadable or does not contain it.
        """
        return self._recorded(request_sha256(request))

    def reply(self, question: Question) -> Answer:
        """Return the recorded answer to a question.

        Raises: as `answer` does.
        """
        return self._recorded(question_sha256(question))

    def _recorded(self, key: str) -> Answer:
        completion = read_fixtures(self.path).get(key)
        if completion is None:
            raise BackendError(
                f"{self.path} does not contain an answer to this request ({key[:12]}…); record "
                "an answer with `reflector lab record`",
                stage="fixtures",
            )
        return Answer(completion, f"fixtures:{key[:12]}", prompt_sha256=key)


class Recording:
    """A backend whose answers are also recorded as fixtures."""

    def __init__(self, backend: Backend, path: Path) -> None:
        self.backend = backend
        self.path = path
        self.name = backend.name
        self.is_model = backend.is_model
        self.rereads = backend.rereads
        self.quotes = backend.quotes

    def answer(self, request: Request) -> Answer:
        """Return the backend's answer, recorded without secrets.

        Raises: BackendError, OSError.
        """
        return self._written(self.backend.answer(request), request_sha256(request))

    def reply(self, question: Question) -> Answer:
        """Return the backend's answer to a question, recorded.

        Raises: as `answer` does.
        """
        return self._written(reply_of(self.backend)(question), question_sha256(question))

    def _written(self, answer: Answer, key: str) -> Answer:
        completion = redact(answer.text)
        line = json.dumps({"prompt_hash": key, "completion": completion}, ensure_ascii=False)
        append_named(self.path, line.encode("utf-8", "replace") + b"\n")
        return replace(answer, text=completion)


def read_fixtures(path: Path) -> dict[str, str]:
    """Return the completions in a file of fixtures by their prompt_hash. The file has a JSON object
    on each line. Blank lines are skipped, and of two lines with one key the last one counts.

    Raises: BackendError.
    """
    try:
        text = read_bounded(path, _MOST_BYTES).decode("utf-8-sig").replace("\r", "\n")
    except (OSError, ValueError) as error:
        raise BackendError(
            f"the recorded answers in {path} cannot be read ({error})", stage="fixtures"
        ) from error
    completions: dict[str, str] = {}
    # Only line breaks end a line: `splitlines` would also end it at U+2028, which JSON may contain.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            key = entry["prompt_hash"]
            completion = entry["completion"]
        except (ValueError, RecursionError, KeyError, TypeError):
            key = completion = None
        if not isinstance(key, str) or not isinstance(completion, str):
            form = '{"prompt_hash": …, "completion": …}'
            raise BackendError(
                f"{path}, line {number}: not a recorded answer; the form of a line is {form}",
                stage="fixtures",
            )
        completions[key] = completion
    return completions


def _path(config: Config, project: Path) -> Path:
    """Return the file with the recorded answers; a relative path is relative to the project.

    Raises: ConfigError if the home folder is unknown.
    """
    try:
        return project / Path(config.fixtures.strip()).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"the setting `fixtures` is {config.fixtures!r}: {error}") from None


def _build(config: Config, project: Path | None) -> Backend:
    if not config.fixtures.strip():
        raise ConfigError(
            "the backend `fixtures` needs a file with answers; set `fixtures`, for example "
            'fixtures = "answers.jsonl"'
        )
    return FixturesBackend(_path(config, project or Path()))


def _readiness(config: Config, project: Path) -> Readiness:
    with suppress(ConfigError):
        if _path(config, project).is_file():
            return Readiness("fixtures")
    fault = (
        f"{config.fixtures} is not a file" if config.fixtures else "the setting `fixtures` is empty"
    )
    return Readiness(f"fixtures: {fault}", "set `fixtures` to a file with recorded answers")


JUDGE = JudgeKind(
    name="fixtures",
    title="recorded answers",
    build=_build,
    settings=("fixtures",),
    readiness=_readiness,
)
