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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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

#: The beginning of a command in a message, if the command is about a playbook but does not name
#: one.
_COMMAND = re.compile(r"(?<=[`'])reflector(?= (?!install|uninstall|judge|demo|completion)[a-z])")

#: The commands that show how often a rule helped.
_SHOW_COUNTS = frozenset({"blame", "list", "show"})


class _Commands(click.Group):
    """The commands of the table. Each is imported at its first use."""

    def __init__(self, **attrs: Any) -> None:
        # The names are enough for suggestions. Commands that only agents call are never suggested.
        names = (name for name in COMMANDS if name not in HIDDEN)
        super().__init__(**attrs, commands=dict.fromkeys(names))  # type: ignore[arg-type]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = import_module(f"reflector.cli.{entry.module}")
        command: click.Command = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")
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
    """Add the examples to the help of a command and of its subcommands.

    An example of a subcommand begins with the subcommand's name.
    """
    lines = [f"reflector {path} {example}".rstrip() for example in examples]
    for parameter in command.params:
        if isinstance(parameter.type, click.IntRange | click.FloatRange):
            parameter.metavar = parameter.metavar or "N"  # click's own word is not for users
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
@click.option("--user", is_flag=True, help="Use your own playbook, for all your projects.")
@click.pass_context
def reflector(ctx: click.Context, project: Path | None, user: bool) -> None:
    """See which rules help your coding agent."""
    if user and project is not None:
        raise click.UsageError(
            "--user and --project cannot be used together; use only one of these options"
        )
    place = ctx.ensure_object(Place)
    place.root, place.user = project, user


class Place:
    """The place of a command. The project is found and configured at the first use.

    dataset  the name of the dataset whose playbook it works on, for `reflector lab --dataset`
    as_json  whether the command answers with one JSON document
    """

    def __init__(
        self, root: Path | None = None, *, user: bool = False, dataset: str | None = None
    ) -> None:
        self.root = root
        self.user = user
        self.dataset = dataset
        self.as_json = False
        self._noted: set[str] = set()
        self._found: dict[str, Project] = {}

    def again(self) -> Place:
        """Return the same place for a later question, because its settings may have changed."""
        return Place(self.root, user=self.user, dataset=self.dataset)

    def answers(self, document: object) -> bool:
        """Print the answer if JSON is asked for, and return whether it was printed."""
        if self.as_json:
            from reflector.cli.output import print_json

            print_json(document)
        return self.as_json

    def note(self, notes: Iterable[str]) -> None:
        """Print notes. Each is printed once, even if the playbook is opened several times."""
        from reflector.cli.output import warn

        for text in notes:
            if text not in self._noted:
                self._noted.add(text)
                warn(self.here(text))

    def project(self, **flags: Any) -> Project:
        """Return the project, your own playbook or a dataset's. Flags override the settings.

        Raises:
            ConfigError, DatasetRefused: the settings or the dataset's name cannot be used.
        """
        from reflector.project import Project

        key = f"{self.dataset} {flags}"
        if key not in self._found:  # a command calls this several times
            if self.dataset is not None:
                found = Project.of_dataset(self.folder(), self.dataset, flags=flags)
            else:
                found = Project.at(self.folder(), flags=flags)
            self._found[key] = found
        return self._found[key]

    def folder(self) -> Path:
        """Return the folder of the project or of the user's own playbook, without its settings."""
        from reflector.locate import user_folder
        from reflector.project import find_project

        if self.user:
            return Path(user_folder()).absolute()
        root = (self.root or find_project()).resolve()
        if not root.is_dir():
            raise click.UsageError(
                f"the folder {root} does not exist; name another folder with --project"
            )
        return root

    def command(self, *words: str) -> str:
        """Return a command for the same playbook in the form that users type."""
        import shlex

        where: list[str] = []
        if self.user:
            where = ["--user"]
        elif self.root is not None:
            where = ["--project", str(self.root)]
        if self.dataset is not None:
            where += ["lab", "--dataset", self.dataset]
        return " ".join(["reflector", *map(shlex.quote, where), *words])

    def undo_of(self, positions: Sequence[int]) -> str | None:
        """Return the command that undoes the events at these positions; None without events."""
        if not positions:
            return None
        first = min(positions)
        last = max(positions)
        return self.command("undo", str(first) if first == last else f"{first}..{last}")

    def here(self, text: str) -> str:
        """Return a text with commands, such as `reflector undo pat-001`, for the same playbook.

        Only a text about the user's or a dataset's playbook changes, because a playbook of the same
        folder has bullets of the same names. Otherwise the text stays, because the user gave the
        folder.
        """
        return (
            text
            if not self.user and self.dataset is None
            else _COMMAND.sub(lambda _: self.command(), text)
        )

    @contextmanager
    def pipeline(self, project: Project | None = None) -> Iterator[Pipeline]:
        """Open the project's ledger with its lock. Wait for a running drain."""
        from reflector.sessions.drain import open_pipeline

        with open_pipeline(project or self.project()) as pipeline:
            assert pipeline is not None  # None only without waiting
            yield pipeline
        self.note(pipeline.notes)

    @property
    def is_untouched(self) -> bool:
        """Whether the project does not have any of reflector's files yet."""
        from reflector.sessions import spool

        return spool.is_untouched(self.project())

    def needs_playbook(self) -> None:
        """Refuse a project without reflector's files, so that the command does not create any.

        Raises: UsageError if the project does not have a playbook.
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
        """Open the project's ledger for changes, and write playbook.json from it at the end.

        For a dry run, the ledger is only read. Only a command that `begins` a playbook creates one.
        Other commands get an empty ledger in memory if the project does not have a playbook.
        """
        if dry_run or (not begins and self.is_untouched):
            with self.reading() as ledger:
                yield ledger
                if ledger.engine.url.in_memory and ledger.head().position:
                    raise RuntimeError("a command that must not start a playbook recorded an event")
            return
        with self.pipeline(project) as pipeline:
            yield pipeline.ledger
            pipeline.write()

    def write(self, project: Project) -> None:
        """Write the project's playbook.json from its ledger. Wait as `pipeline` does."""
        with self.changing(project, begins=True):
            pass

    @contextmanager
    def reading(self) -> Iterator[Ledger]:
        """Open the project's ledger for a question.

        Queued deliveries and edits of playbook.json are recorded first. A question never waits for
        a running drain, and sees one state of the ledger. It does not create files in a project
        without a playbook, and does not record anything in a read-only project.
        """
        project = self.project()
        if self.is_untouched:
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
            from reflector.sessions import spool

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
            finally:  # after the answer, so that they stay visible
                self.note(notes)

    def _unjudged(self, ledger: Ledger) -> list[str]:
        """Return a note on sessions that are missing in the counts, for a command that shows
        counts.
        """
        context = click.get_current_context(silent=True)
        if context is None or context.find_root().invoked_subcommand not in _SHOW_COUNTS:
            return []
        if not self.project().config.asks_model:
            return []
        sessions = {window.session_id for window in ledger.open_windows()}
        if not sessions:
            return []
        words = "1 session is" if len(sessions) == 1 else f"{len(sessions)} sessions are"
        return [f"{words} not judged yet, so the counts may change; see `reflector status`"]


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    if sys.stdout is None:  # closed by the caller (`>&-`)
        # It stays open until the process ends.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        # A rule may contain characters that are not in the locale's encoding.
        sys.stdout.reconfigure(errors="backslashreplace")
    _hide_breaks(sys.argv[1:] if arguments is None else arguments)
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
    except (click.Abort, KeyboardInterrupt) as stop:
        # Click ends the line of a Ctrl-C, but not the line of a question without an answer.
        begin = "" if stop.__cause__ else "\n"
        _print_error(
            f"{begin}reflector: stopped. Everything recorded so far is kept. To continue, run the "
            "same command again"
        )
        return 130
    except (BrokenPipeError, _ReaderGone):
        # The reader (`| head`) has closed the pipe. Prevent an error message of the interpreter
        # at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if (explanation := explained(error)) is None:
            raise
        from reflector.text.phrases import named

        code, words = explanation
        _print_error(named(place.here(words)))
        return code


def _hide_breaks(arguments: Iterable[str]) -> None:
    """Let no screen show a line break in the name of a folder or file that the command is about."""
    paths = [os.environ.get(name, "") for name in ("HOME", "CLAUDE_PROJECT_DIR")]
    with suppress(OSError):
        paths.append(str(Path.cwd()))
    paths += (re.sub(r":\d+$", "", argument) for argument in arguments)
    if with_breaks := [path for path in paths if "\n" in path]:
        from reflector.cli.output import hide_breaks

        hide_breaks(with_breaks)


def _colour(environ: Mapping[str, str]) -> bool | None:
    """Return False if the terminal or the user (no-color.org) does not want colours.

    With None, click decides.
    """
    is_plain = environ.get("NO_COLOR") or environ.get("TERM") == "dumb"
    return False if is_plain else None


def _end_with_usage(place: Place, error: click.ClickException) -> int:
    """Print a usage error, with the present name of a renamed command or option."""
    error = _renamed(error) or _unquoted(error) or error
    # Print it with `_print_error`, because an argument may be a hostile file name.
    message = io.StringIO()
    error.show(message)
    _print_error(place.here(message.getvalue().rstrip("\n")))
    return error.exit_code


def _renamed(error: click.ClickException) -> click.UsageError | None:
    """Return the error that names the right word for an unknown command or option; else None."""
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
        words = f"`{path}` is now `reflector {present}`"
    elif meant := SYNONYMS.get(typed):
        words = f"`{path}` is not a command; use `reflector {meant}`"
    elif subcommands := _subcommands(typed):
        words = f"`{path}` is not a command; use {' or '.join(subcommands)}"
    elif word in ("--user", "--project"):
        rest = context.command_path.removeprefix("reflector ")
        value = " DIRECTORY" if word == "--project" else ""
        words = f"put {word} before the command: `reflector {word}{value} {rest}`"
    else:
        return None
    return click.UsageError(words, context)


def _unquoted(error: click.ClickException) -> click.UsageError | None:
    """Return the error for a text whose words are arguments of their own; None for other errors."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    takes_text = context is not None and any(
        parameter.name == "text" for parameter in context.command.params
    )
    if takes_text and "unexpected extra argument" in error.message:
        return click.UsageError(f"{error.message}; put the whole text in quotes", context)
    return None


def _subcommands(word: str) -> list[str]:
    """Return the commands whose examples begin with a word, such as `reflector ledger head`."""
    if not word.isalpha():
        return []
    names = [
        name
        for name, entry in COMMANDS.items()
        if any(example.partition(" ")[0] == word for example in entry.examples)
    ]
    return [f"`reflector {name} {word}`" for name in names]


class _ReaderGone(Exception):
    """A broken pipe, raised before click converts it to its own exit code."""


def explained(error: Exception) -> tuple[int, str] | None:
    """Return the exit code and the text of an error that you can repair; None for a bug."""
    from reflector.files import Changed

    if isinstance(error, Refusal | Changed):
        return error.exit_code, str(error)
    if isinstance(error, OSError):
        return 1, os_error_words(error)
    if isinstance(error, MemoryError):
        way_out = "close programs or raise the limit (`ulimit -v`), then run the same command again"
        return 1, f"reflector ran out of memory; {way_out}"
    return None


def _print_error(text: str) -> None:
    """Print an error, on a terminal in lines that fit.

    Secrets are removed, because the user may have typed a key instead of a file's name.
    """
    from reflector.cli.output import note, safe
    from reflector.text.secrets import redact

    note(redact(safe(text)))
