"""The `reflector` command and its exit codes.

Invariant: the exit code is 0 for success, 1 for drift, tampering or a failed action, and 2 for
usage and configuration. An error is one message on stderr that names the thing, the value and the
way out. A traceback is a bug of ours. A command's module is imported when the command runs, not
before.
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import reflector.ledger as ledgers
from reflector import __version__
from reflector.cli.table import COMMANDS, FORMER, HIDDEN, SYNONYMS
from reflector.mistakes import Mistake, os_error_words
from reflector.refusal import Refusal

if TYPE_CHECKING:
    from reflector.ledger.store import Ledger
    from reflector.project import Project
    from reflector.sessions.drain import Pipeline

#: The beginning of a command that a message names, where it says nothing of a playbook and is about
#: one.
_COMMAND = re.compile(r"(?<=[`'])reflector(?= (?!install|uninstall|judge|demo|completion)[a-z])")

#: The commands that show how often a rule helped.
_SHOW_COUNTS = frozenset({"blame", "list", "show"})


class _Commands(click.Group):
    """The commands of the table, imported when they are used."""

    def __init__(self, **attrs: Any) -> None:
        # The names are enough to suggest one; nobody means those that only agents call.
        names = (name for name in COMMANDS if name not in HIDDEN)
        super().__init__(**attrs, commands=dict.fromkeys(names))  # type: ignore[arg-type]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(
            import_module(f"reflector.cli.{entry.module}"), entry.function
        )
        command.hidden = cmd_name in HIDDEN
        _complete(command, cmd_name, entry.examples)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _ReaderGone from error
        except Mistake as mistake:
            name = ctx.invoked_subcommand or ""
            command = self.get_command(ctx, name)
            where = click.Context(command, ctx, name) if command is not None else ctx
            raise click.UsageError(str(mistake), where) from mistake

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        from reflector.cli.screen import first_screen

        formatter.write(f"{first_screen()}\n")


def _complete(command: click.Command, path: str, examples: Iterable[str]) -> None:
    """Give the help of a command its examples, and that of its subcommands theirs, which begin with
    the subcommand's name.
    """
    lines = [f"reflector {path} {example}".rstrip() for example in examples]
    for parameter in command.params:
        if isinstance(parameter.type, click.IntRange | click.FloatRange):
            parameter.metavar = parameter.metavar or "N"  # click's word for them is no person's
    if lines:
        title = "Example" if len(lines) == 1 else "Examples"
        command.epilog = "\n".join(["\b", f"{title}:", *(f"  {line}" for line in lines)])
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            own = [example for example in examples if example.partition(" ")[0] == name]
            rest = [example.partition(" ")[2] for example in own]
            _complete(inner, f"{path} {name}", rest)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="reflector")
@click.option(
    "--project",
    type=click.Path(file_okay=False, path_type=Path),
    help=("Project folder (default: the project you are in)."),
)
@click.option("--user", is_flag=True, help="Use your own playbook, which applies everywhere.")
@click.pass_context
def reflector(ctx: click.Context, project: Path | None, user: bool) -> None:
    """See which rules help your coding agent."""
    if user and project is not None:
        raise click.UsageError(
            "--user and --project name different playbooks; use only one of them"
        )
    place = ctx.ensure_object(Place)
    place.root, place.user = project, user


class Place:
    """Where a command works: the project is found and configured when a command first asks.

    dataset  whose playbook it works on, for `reflector lab --dataset`
    """

    def __init__(
        self, root: Path | None = None, *, user: bool = False, dataset: str | None = None
    ) -> None:
        self.root = root
        self.user = user
        self.dataset = dataset
        self._noted: set[str] = set()
        self._found: dict[str, Project] = {}

    def again(self) -> Place:
        """Return the same place for a later question: its settings may have changed since."""
        return Place(self.root, user=self.user, dataset=self.dataset)

    def note(self, notes: Iterable[str]) -> None:
        """Print notes, each once however often the command asks for the playbook."""
        from reflector.cli.output import note

        for text in notes:
            if text not in self._noted:
                self._noted.add(text)
                note(f"reflector: {self.here(text)}")

    def project(self, **flags: Any) -> Project:
        """Return the project, your own playbook or a dataset's, with a command's flags over its
        settings.

        Raises:
            ConfigError, DatasetRefused: the settings or the dataset's name cannot be used.
        """
        from reflector.project import Project

        key = f"{self.dataset} {flags}"
        if key not in self._found:  # a command asks again and again
            if self.dataset is not None:
                found = Project.of_dataset(self.folder(), self.dataset, flags=flags)
            elif self.user:  # the folder is made when something is kept in it
                found = Project.of_user(flags=flags)
            else:
                found = Project.at(self.folder(), flags=flags)
            self._found[key] = found
        return self._found[key]

    def folder(self) -> Path:
        """Return the folder of the project, or of the user's own playbook, whatever its settings
        are.
        """
        from reflector.locate import user_folder
        from reflector.project import find_project

        if self.user:
            return Path(user_folder()).absolute()
        root = (self.root or find_project()).resolve()
        if not root.is_dir():
            raise click.UsageError(
                f"the project {root} is not a folder; name a folder with --project"
            )
        return root

    def command(self, *words: str) -> str:
        """Return a command as a person types it for the same playbook."""
        import shlex

        where = (
            ["--user"]
            if self.user
            else ["--project", str(self.root)]
            if self.root is not None
            else []
        )
        dataset = ["lab", "--dataset", self.dataset] if self.dataset is not None else []
        return " ".join(["reflector", *map(shlex.quote, [*where, *dataset]), *words])

    def here(self, text: str) -> str:
        """Return a text whose commands, such as `reflector undo pat-001`, are for the same playbook
        of a folder.

        Another playbook of it has bullets of the same names. The folder is left to the person, who
        named it.
        """
        return (
            text
            if not self.user and self.dataset is None
            else _COMMAND.sub(lambda _: self.command(), text)
        )

    @contextmanager
    def pipeline(self, project: Project | None = None) -> Iterator[Pipeline]:
        """The way into the project's ledger, its lock held; waits for a drain that is at work."""
        from reflector.sessions.drain import open_pipeline

        with open_pipeline(project or self.project()) as pipeline:
            assert pipeline is not None  # it waited
            yield pipeline
        self.note(pipeline.notes)

    @property
    def is_untouched(self) -> bool:
        """Whether the project has nothing of ours yet."""
        from reflector.sessions import spool

        return spool.is_untouched(self.project())

    @property
    def is_in_repository(self) -> bool:
        """Whether the project is a git repository or lies in one."""
        from reflector.locate import home_folder, repository

        return bool(repository(str(self.folder()), home_folder()))

    def needs_playbook(self) -> None:
        """Raise where the project has nothing of ours yet, so that a command makes nothing
        there.
        """
        if self.is_untouched:
            raise click.UsageError(
                f"{self.project().root} does not have a playbook; start one with "
                f"`{self.command('add')}`"
            )

    @contextmanager
    def changing(
        self, project: Project | None = None, *, dry_run: bool = False, begins: bool = False
    ) -> Iterator[Ledger]:
        """The project's ledger, and playbook.json is written as it says at the end; for a dry run
        only to be asked.

        What has nothing to change in a project without a playbook gets an empty ledger in memory:
        only a command that `begins` a playbook makes one.
        """
        from reflector.sessions import spool

        if dry_run or (not begins and spool.is_untouched(project or self.project())):
            with self.reading() as ledger:
                yield ledger
                if ledger.engine.url.in_memory and ledger.head().position:
                    raise RuntimeError("a command that must not start a playbook recorded an event")
            return
        with self.pipeline(project) as pipeline:
            yield pipeline.ledger
            pipeline.write()

    def write(self, project: Project) -> None:
        """Write the project's playbook.json as its ledger says; waits as `pipeline` does."""
        with self.changing(project, begins=True):
            pass

    @contextmanager
    def reading(self) -> Iterator[Ledger]:
        """The project's ledger for a question, after recording queued deliveries and edits of
        playbook.json.

        A question never waits for a drain that is at work, and sees one state of the ledger.
        Without a playbook it leaves nothing behind, and where the project can only be read it
        records nothing.
        """
        from reflector.sessions import spool

        project = self.project()
        if spool.is_untouched(project):
            from reflector.ledger.store import Ledger
            from reflector.playbook_files.kept_copies import foreign_note

            self.note(filter(None, [foreign_note(project)]))
            with Ledger.open("sqlite://") as nothing:
                yield nothing
            return
        if project.is_only_read and not project.has_ledger():
            from reflector.playbook_files.playbook_json import adopted_in_memory

            with adopted_in_memory(project) as adopted:
                yield adopted
            return
        with project.open_ledger() as ledger:
            if ledger.only_reads:
                from reflector.sessions.drain import unread_notes

                self.note(unread_notes(project))
                with ledger.snapshot():
                    yield ledger
                return
            with ledger.snapshot():
                before = spool.current_state(project, ledger)
                if spool.was_seen(project, before):
                    yield ledger
                    self.note(self._unjudged(ledger))
                    return
            from reflector.sessions.drain import refresh_project

            notes = refresh_project(project, ledger)
            try:
                if (
                    not notes
                    and before is not None
                    and spool.current_state(project, ledger) == before
                ):
                    spool.keep_seen(project, before)
                with ledger.snapshot():
                    yield ledger
                notes += self._unjudged(ledger)
            finally:  # below the answer, where a long one leaves them in sight
                self.note(notes)

    def _unjudged(self, ledger: Ledger) -> list[str]:
        """Return a note on the sessions that the counts lack, for a command that shows counts."""
        context = click.get_current_context(silent=True)
        if context is None or context.find_root().invoked_subcommand not in _SHOW_COUNTS:
            return []
        if not self.project().config.asks_model:
            return []
        sessions = {window.session_id for window in ledger.open_windows()}
        if not sessions:
            return []
        words = "1 session is" if len(sessions) == 1 else f"{len(sessions)} sessions are"
        return [f"{words} not judged yet; see `reflector status`"]


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    if sys.stdout is None:  # closed by the caller (`>&-`)
        # It lives as long as the process.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A rule may have characters that the locale's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    place = Place()
    ledgers.tell = lambda text: place.note([text])
    try:
        code = reflector.main(
            arguments,
            prog_name="reflector",
            obj=place,
            standalone_mode=False,
            color=_colour(os.environ),
        )
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        return _end_with_usage(place, error)
    except (click.Abort, KeyboardInterrupt):
        print(
            "reflector: stopped. Recorded events are kept. To continue, run the same command again",
            file=sys.stderr,
        )
        return 130
    except (BrokenPipeError, _ReaderGone):
        # The reader (`| head`) has seen enough; keep the interpreter from complaining about it at
        # exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if (explanation := explained(error)) is None:
            raise
        code, words = explanation
        _print_error(f"reflector: {place.here(words)}")
        return code


def _colour(environ: Mapping[str, str]) -> bool | None:
    """Return False if the terminal or its owner (no-color.org) wants no colours; None lets click
    decide.
    """
    is_plain = environ.get("NO_COLOR") or environ.get("TERM") == "dumb"
    return False if is_plain else None


def _end_with_usage(place: Place, error: click.ClickException) -> int:
    """Print an error of usage, with the present name of a renamed command or option."""
    error = _renamed(error) or error
    # Shown by our own hand: an argument may be a hostile file name.
    message = io.StringIO()
    error.show(message)
    _print_error(place.here(message.getvalue().rstrip("\n")))
    return error.exit_code


def _renamed(error: click.ClickException) -> click.UsageError | None:
    """Return the error that names the right word for an unknown command or option; None for any
    other error.
    """
    if isinstance(error, click.NoSuchCommand):
        word = error.command_name
    elif isinstance(error, click.NoSuchOption):
        word = error.option_name
    else:
        return None
    context = error.ctx or click.Context(reflector, info_name="reflector")
    path = f"{context.command_path} {word}"
    typed = path.removeprefix("reflector ")
    if present := FORMER.get(typed):
        return click.UsageError(f"`{path}` is now `reflector {present}`", context)
    if meant := SYNONYMS.get(typed):
        words = f"`{path}` is not a command; use `reflector {meant}`"
        return click.UsageError(words, context)
    if word in ("--user", "--project"):
        rest = context.command_path.removeprefix("reflector ")
        value = " DIRECTORY" if word == "--project" else ""
        return click.UsageError(
            f"{word} goes before the command: `reflector {word}{value} {rest}`", context
        )
    return None


class _ReaderGone(Exception):
    """A broken pipe, before click makes an exit code of its own from it."""


def explained(error: Exception) -> tuple[int, str] | None:
    """Return the exit code of an error that you can repair, and its words; None for a bug."""
    from reflector.files import Changed

    if isinstance(error, Refusal | Changed):
        return error.exit_code, str(error)
    if isinstance(error, OSError):
        return 1, os_error_words(error)
    if isinstance(error, MemoryError):
        way_out = "close programs or raise the limit (`ulimit -v`), then run the same command again"
        return 1, f"memory ran out; {way_out}"
    return None


def _print_error(text: str) -> None:
    """Print an error, on a terminal in lines that fit. Its arguments may be a key that was given in
    the place of a file's name.
    """
    from reflector.cli.output import note, safe
    from reflector.text.secrets import redact

    note(redact(safe(text)))
