"""Reflection on tasks that have a right answer, for programs: with any model and any store.

Invariant: `ReflectorAgent.run` returns a result whatever the model does, and logs each fault on the
logger `reflector`. It raises only for faults of the caller (a dataset's name, a trajectory that is
too long) and of the ledger.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reflector.config import load_config
from reflector.judges.protocol import (
    Answer,
    Backend,
    BackendError,
    Replies,
    Request,
    reply_of,
)
from reflector.judges.registry import backend_of
from reflector.judges.truth.models import (
    Playbook,
    ReflectionResult,
    Trajectory,
)
from reflector.judges.truth.questions import (
    Case,
    Question,
    Talk,
    Unanswered,
    known_language,
    talk,
)
from reflector.ledger.store import Ledger
from reflector.project import Project
from reflector.reflection.gate import Gate
from reflector.reflection.recorder import Recorder
from reflector.reflection.trajectories import playbook_of, run_recorded, unknown_bullets
from reflector.text.secrets import quote

_log = logging.getLogger("reflector")


@dataclass(frozen=True, slots=True)
class LedgerPlaybooks:
    """The playbooks of datasets in a project. Each one is a ledger below
    `.claude/reflector/datasets/` of the project. A run with this store is recorded.
    """

    project: Path

    def load(self, dataset: str) -> Playbook:
        """Return the live bullets of a dataset.

        Raises: LedgerError; ValueError if the name is not possible for a dataset.
        """
        with self.ledger(dataset) as ledger:
            return playbook_of(ledger)

    def ledger(self, dataset: str) -> Ledger:
        """Open the ledger of a dataset.

        Raises: as `load`.
        """
        return Project.of_dataset(self.project, dataset).open_ledger()


def llm_client(backend: str, *, project: Path | None = None, **settings: Any) -> Backend:
    """Return a built-in backend that judges trajectories: `anthropic`, `agent` or `fixtures`.

    settings  of the configuration, such as `model`

    Raises:
        ConfigError: a setting is wrong, or the backend does not judge trajectories.
    """
    root = project or Path.cwd()
    judge = backend_of(load_config(root, flags={"backend": backend, **settings}), root)
    reply_of(judge)
    return judge


class _Foreign:
    """A caller's own model: an object with `invoke_with_template(prompt)`, or a callable."""

    is_model = rereads = quotes = False

    def __init__(self, llm_client: Any) -> None:
        self.call = getattr(llm_client, "invoke_with_template", llm_client)
        if not callable(self.call):
            raise TypeError(
                "llm_client must have a method invoke_with_template(prompt), or be callable"
            )
        self.name = quote(str(getattr(llm_client, "name", "") or type(llm_client).__name__), 60)

    def answer(self, request: Request) -> Answer:
        raise BackendError(
            (f"{self.name} does not judge sessions"), stage="backend", attempts=0, final=True
        )

    def reply(self, question: Question) -> Answer:
        """Answer a question with the caller's model.

        Raises: BackendError for an answer that is not text, and the errors of the model's function.
        """
        sent = question.prompt
        text = self.call(sent)
        if not isinstance(text, str):
            raise BackendError(
                (f"the model answered with {type(text).__name__}, not with text"), stage="answer"
            )
        return Answer(
            text, self.name, prompt_sha256=sent.sha256, template_sha256=sent.template_sha256
        )


class ReflectorAgent:
    """Reflects on trajectories.

    llm_client      any object with `invoke_with_template(prompt: str) -> str`, a callable, or a
                    built-in backend
    prompt_builder  any object with `build` and `build_evaluation_prompt`, such as a
                    `ReflectorPromptBuilder`
    playbook_store  any object with `load(dataset) -> Playbook`; with `LedgerPlaybooks`, each run is
                    recorded
    """

    def __init__(self, llm_client: Any, prompt_builder: Any, playbook_store: Any) -> None:
        self.llm_client = llm_client
        self.prompt_builder = prompt_builder
        self.playbook_store = playbook_store

    def run(
        self,
        trajectory: Trajectory,
        ground_truth: str,
        test_report: str,
        dataset: str,
        max_iterations: int = 1,
    ) -> ReflectionResult:
        """Return the insights of a trajectory. The result is empty if the model could not be asked.
        The insights are those of the last readable iteration.

        Raises: LedgerError, and any error of the prompt builder. With `LedgerPlaybooks`, ValueError
        if the dataset's name cannot be a folder's or the trajectory is too long.
        """
        language = known_language(getattr(self.prompt_builder, "language", None))
        case = Case(
            trajectory, ground_truth, test_report, dataset, max_iterations, language=language
        )
        # A mock has every attribute, also those of our backends.
        ours = isinstance(self.llm_client, Replies) and not hasattr(
            self.llm_client, "invoke_with_template"
        )
        backend: Backend = self.llm_client if ours else _Foreign(self.llm_client)
        if case.iterations < 1:
            dialogue = Talk(
                problems=[f"max_iterations is {case.iterations}, so the model was not asked"]
            )
        elif isinstance(self.playbook_store, LedgerPlaybooks):
            project = self.playbook_store.project
            with self.playbook_store.ledger(dataset) as ledger:
                recorder = Recorder(ledger, backend, gate=Gate(load_config(project), project))
                dialogue, _ = run_recorded(recorder, self.prompt_builder, case)
        else:
            dialogue = self._unrecorded(backend, case)
        for problem in dialogue.problems:
            _log.warning("%s", quote(problem, 500))
        return ReflectionResult(
            insights=dialogue.insights,
            bullet_evaluations=dialogue.evaluations,
            trajectory_query=trajectory.query,
            trajectory_dataset=trajectory.dataset,
            iteration_count=dialogue.iterations,
        )

    def _unrecorded(self, backend: Backend, case: Case) -> Talk:
        """Judge with a playbook of the caller's store. Its bullets need not fit into a ledger."""
        if _leaves_its_folder(case.dataset):  # a store may make a path of it
            return Talk(
                problems=[
                    f"the name of the dataset {ascii(case.dataset)[:80]} points outside the folder "
                    "of the playbooks; choose another name"
                ]
            )
        try:
            playbook = self.playbook_store.load(case.dataset)
            bullets = {bullet.id: bullet for bullet in playbook.bullets}
        except Exception as error:  # noqa: BLE001  a store's failure is not the caller's
            return Talk(
                problems=[f"the playbook cannot be loaded: {type(error).__name__}: {error}"]
            )
        used = list(dict.fromkeys(case.trajectory.used_bullet_ids))

        def ask(question: Question) -> str:
            try:
                return reply_of(backend)(question).text
            except Exception as error:  # requirement B-16: a model's failure is never the caller's
                raise Unanswered(f"{type(error).__name__}: {error}") from error

        dialogue = talk(
            replace(case, bullets=[bullets[id_] for id_ in used if id_ in bullets]),
            self.prompt_builder,
            ask,
        )
        dialogue.problems[:0] = unknown_bullets(id_ for id_ in used if id_ not in bullets)
        return dialogue


def _leaves_its_folder(dataset: str) -> bool:
    """Return whether a name, used as a path below a folder, leads out of that folder."""
    is_path = any(part in ("", ".", "..") for part in re.split(r"[/\\]", dataset))
    return is_path or ":" in dataset or not dataset.isprintable()
