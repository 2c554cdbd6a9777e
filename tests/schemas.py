"""The generated files of docs/: schema.json from the types of the answers, commands.md with the
settings, and events.md with the SQL views.

`python -m tests.schemas` writes them.
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from pydantic.json_schema import GenerateJsonSchema
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from reflector import cli
from reflector.cli.table import COMMANDS
from reflector.config import SETTINGS, USERS_OWN
from reflector.events.kinds import Field
from reflector.events.registry import EVENT_TYPES
from reflector.judges.rules.findings import VERSION as RULES_VERSION
from reflector.ledger.migration import VIEWS, made_digest
from reflector.ledger.tables import metadata

DOCS = Path(__file__).parents[1] / "docs"
_DIALECTS = ("sqlite", "postgresql")
_CLI = Path(cli.__file__).parent


def _own_types() -> Iterator[tuple[str, str]]:
    """Yield the commands whose module has a type of their name, such as `StatsJson`, with it."""
    for name, entry in COMMANDS.items():
        type_ = f"{name.capitalize()}Json"
        source = (_CLI / f"{entry.module}.py").read_text("utf-8")
        if re.search(rf"^(?:class )?{type_}\b", source, re.MULTILINE):
            yield name, f"{entry.module}.{type_}"


#: The type of each document, in reflector/cli, by the command that prints it with --json.
ANSWERS = {
    **dict(_own_types()),
    "list": "list[playbook.ListedJson]",
    "list --by model": "list[worked.RuleOfModel]",
    "show NAME": "documents.ShownJson",
    "show SESSION": "session.SessionStory",
    "show LESSON": "lessons.ToldJson",
    "show EVENT": "event.Event",
    "log": "list[documents.LoggedJson]",
    "log --memory": "list[memory.MemoryJson]",
    "show CHANGE": "memory.ShownMemoryJson",
    "undo FILE": "list[memory.RestoredJson]",
    "blame": "list[blame.Step]",
    "blame FILE": "list[memory.MemoryLineJson]",
    "diff": "difference.Difference",
    "stats --doubles": "doubles.DoubleCounts",
    "check": "check.LinesJson",
    "sql": "list[dict[str, Any]]",
    **{
        name: "changes.ChangesJson"
        for name, entry in COMMANDS.items()
        if entry.module in ("changes", "undo")
    },
    "review": "review.WaitingJson",
    "review list": "review.WaitingJson",
    "review find": "review.FoundJson",
    "status": "overview.StatusJson",
    "status --projects": "list[overview.OwnJson]",
    "doctor": "list[reach.Check]",
    "config list": "dict[str, config.SettingJson]",
    "ingest": "sessions.IngestedJson",
    "drain": "drain.Drained",
    "reflect": "drain.Drained",
    "lab reparse": "list[standing.Reparsed]",
    "judge": "list[offers.Offer]",
    "adopt": "transfer.AdoptedJson",
    "import": "machines.Loaded | transfer.Merged",
    "verify": "ledger.VerifiedJson",
    "rebuild": "ledger.RebuiltJson",
    "ledger head": "ledger.HeadJson",
    "ledger policy": "ledger.PolicyJson",
    "lessons": "list[book.Lesson]",
    "lessons recall": "list[lessons.RecalledJson]",
    "trial plan": "plan.Plan",
    "trial status": "status.TrialStatus | None",
}
#: What has a form of its own in a document: see `output.json_of`.
_FORMS: dict[str, dict[str, Any]] = {
    "Head": {"type": "string"},
    "Change": {"additionalProperties": True, "type": "object"},
}
_TYPES = {
    "string": "text",
    "integer": "number",
    "number": "fraction",
    "boolean": "bool",
    "array": "list",
}


def check(command: str, document: Any) -> None:
    """Raise ValidationError unless a document is what its schema says, with no key more and in
    that order.
    """
    first, _, second = command.partition(" ")
    if f"{first} {second}" in ANSWERS:
        first = f"{first} {second}"
    named = [
        name
        for name in ANSWERS
        if name == first or (name.startswith(f"{first} ") and first not in ("lessons",))
    ]
    errors: list[Exception] = []
    for name in named:
        error = _wrong(name, document)
        if error is None:
            return
        errors.append(error)
    raise errors[0] if errors else KeyError(command)


def _wrong(name: str, document: Any) -> ValidationError | None:
    try:
        _validator(name).validate(document)
    except ValidationError as error:
        return error
    return None


@cache
def _validator(name: str) -> Any:
    whole = json.loads((DOCS / "schema.json").read_text("utf-8"))
    assert name in whole["properties"], f"docs/schema.json does not have {name}: run `make docs`"
    exact = extend(Draft202012Validator, {"properties": _in_order})
    return exact({**whole["properties"][name], "$defs": whole["$defs"]})


def _in_order(
    validator: Any, properties: Any, document: Any, schema: Any
) -> Iterator[ValidationError]:
    if isinstance(document, dict) and list(document) != list(properties):
        yield ValidationError(f"its keys are {list(document)}, documented are {list(properties)}")
    yield from Draft202012Validator.VALIDATORS["properties"](
        validator, properties, document, schema
    )


class Documents(GenerateJsonSchema):
    """Schemas of dataclasses as `json_of` prints them: without what their repr leaves out."""

    def dataclass_schema(self, schema: Any) -> dict[str, Any]:
        made = super().dataclass_schema(schema)
        shown = {one.name for one in fields(schema["cls"]) if one.repr}
        return made | {
            "properties": {name: of for name, of in made["properties"].items() if name in shown}
        }

    def callable_schema(self, schema: Any) -> dict[str, Any]:  # of what is left out
        return {}


@cache
def schema() -> dict[str, Any]:
    """Return one JSON Schema with the document of each command, made once."""
    from pydantic import TypeAdapter

    names = {**_modules(), "Any": Any}
    defs: dict[str, Any] = {}
    documents = {}
    for command, answer in ANSWERS.items():
        type_ = list[eval(answer, names)]
        made = TypeAdapter(type_).json_schema(
            ref_template="#/$defs/{model}", mode="serialization", schema_generator=Documents
        )
        defs |= made.pop("$defs", {})
        documents[command] = _plain(made["items"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The documents of reflector's commands with --json",
        "properties": documents,
        "$defs": {name: _plain(one) for name, one in sorted(defs.items()) if name not in _FORMS},
    }


def _modules() -> dict[str, Any]:
    """Return the modules that `ANSWERS` names; theirs, and all that they lead to, have the names
    of types too.
    """
    elsewhere = {
        **{
            name: f"reflector.audit.{name}"
            for name in ("blame", "difference", "doubles", "session", "worked")
        },
        "book": "reflector.embed.lessons.book",
        "check": "reflector.check.answer",
        "drain": "reflector.sessions.drain",
        "machines": "reflector.sessions.machines",
        "overview": "reflector.sessions.overview",
        "plan": "reflector.trials.plan",
        "status": "reflector.trials.trial",
        "event": "reflector.events.event",
        "reach": "reflector.hooks.reach",
        "offers": "reflector.judges.offers",
        "standing": "reflector.reflection.standing",
    }
    names = {name for answer in ANSWERS.values() for name in re.findall(r"(\w+)\.\w+", answer)}
    found = {name: import_module(elsewhere.get(name, f"reflector.cli.{name}")) for name in names}
    done: set[str] = set()
    while todo := {name for name in sys.modules if name.startswith("reflector.")} - done:
        for module in map(sys.modules.get, sorted(todo)):
            source = inspect.getsource(module) if module else ""
            for part in ast.parse(source).body if "TYPE_CHECKING" in source else ():
                if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING":
                    with suppress(ModuleNotFoundError):  # _typeshed is no module
                        exec(
                            compile(ast.Module(part.body, []), module.__name__, "exec"),
                            module.__dict__,
                        )
        done |= todo
    return found


def _plain(made: Any) -> Any:
    """Return a schema without titles, with each key that a document has, and no other."""
    if isinstance(made, list):
        return [_plain(one) for one in made]
    if not isinstance(made, dict):
        return made
    if (name := made.get("$ref", "").rpartition("/")[2]) in _FORMS:
        return _FORMS[name]
    plain = {
        key: _plain(value)
        for key, value in made.items()
        if key not in ("title", "default", "format", "pattern")
    }
    if isinstance(made.get("properties"), dict):
        said, about = described(made.get("description", ""))
        keys = {key.rstrip("_"): _plain(value) for key, value in made["properties"].items()}
        for key, text in about.items():
            keys[key.rstrip("_")]["description"] = text
        plain["properties"] = keys
        plain |= {"description": said, "required": list(keys), "additionalProperties": False}
    return plain


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says first, and what it says of each field."""
    first, _, rest = docstring.partition("\n\n")
    found = re.findall(r"^(\w+) {2,}(.*(?:\n {8,}.*)*)", rest, re.MULTILINE)
    return " ".join(first.split()), {name: " ".join(text.split()) for name, text in found}


def _name(definition: str) -> str:
    return definition.removesuffix("Json")


def _type(one: Any) -> str:
    if "$ref" in one:
        return f"[{_name(one['$ref'].rpartition('/')[2])}]"
    if "anyOf" in one:
        return " or ".join(dict.fromkeys(map(_type, one["anyOf"])))
    if "enum" in one:
        return ", ".join(f"`{value}`" for value in one["enum"])
    if one.get("type") == "array":
        return f"list of {_type(one['items'])}" if one.get("items") else "list"
    if one.get("type") == "object" and isinstance(one.get("additionalProperties"), dict):
        return f"object of {_type(one['additionalProperties'])}"
    return _TYPES.get(one.get("type", ""), one.get("type", "any"))


def commands() -> str:
    """Return docs/commands.md: the commands with their examples, then the settings."""
    import click

    from reflector.cli.app import reflector
    from reflector.cli.table import GROUPS, HIDDEN, MORE
    from reflector.playbook.bullet import SECTIONS

    sections = ", ".join(f"`{slug}` {title.lower()}" for slug, title in SECTIONS.items())
    parts = ["<!-- generated -->\n", "# Commands and settings\n", _ABOUT.format(sections=sections)]
    context = click.Context(reflector)
    groups = {**GROUPS, "More": MORE, "Called by agents, shells and cron": HIDDEN}
    for title, group in groups.items():
        parts += [f"\n## {title}\n", "| Command | Action | Examples |", "|---|---|---|"]
        for name, entry in group.items():
            command = reflector.get_command(context, name)
            typed = "<br>".join(
                f"`{f'reflector {name} {example}'.rstrip()}`" for example in entry.examples
            )
            parts.append(f"| `{name}` | {command.get_short_help_str(limit=200)} | {typed} |")
            for inner in command.commands.values() if isinstance(command, click.Group) else ():
                parts.append(f"| `{name} {inner.name}` | {inner.get_short_help_str(limit=200)} | |")
    return "\n".join([*parts, settings()]) + "\n"


_ABOUT = """\
Find the command for your task, then run `reflector COMMAND --help` for the options of the command.
`reflector help WORD` searches for a word in the help and in the pages. The [settings](#settings)
are below the commands.

The options in this table work with most commands. A
[moment](questions.md#see-the-playbook-at-a-moment) is a time, a position or a session.

| Option | Effect | Example |
|---|---|---|
| `--project FOLDER` | work on another project | `reflector --project ~/src/shop list` |
| `--user` | work on [your own playbook](reference.md#playbooks) | `reflector --user list` |
| `--json` | print [stable JSON](machines.md#json) for programs | `reflector list --json` |
| `--as-of MOMENT` | answer for an earlier moment | `reflector list --as-of yesterday` |
| `--dry-run` | only show what the command would change | `reflector install --dry-run` |

- **Names**: `pat-001` is a rule, and `CLAUDE.md:33` is the rule in line 33 of CLAUDE.md. `5f2a91c0`
  is the beginning of a session's id, and `41` is the position of an event.
- **Sections**: {sections}.
- **Exit codes**: 0 for success, 1 for a problem, 2 for a wrong option, argument or setting."""


def _event_types() -> list[str]:
    rows = [
        f"| `{name}` | {one.since} | {one.meaning} | {one.target.event if one.target else ''} |"
        for name, one in EVENT_TYPES.items()
    ]
    return ["| Type | Since | Meaning | Target |", "|---|---|---|---|", *rows]


def _prose() -> list[str]:
    rows = [
        f"| `{name}` | {'yes' if one.all_prose else ''} | {', '.join(_prose_of(one.fields))} |"
        for name, one in EVENT_TYPES.items()
        if one.holds_prose
    ]
    return ["| Type | Everything | Fields |", "|---|---|---|", *rows]


def _prose_of(fields: Mapping[str, Field], before: str = "") -> list[str]:
    found: list[str] = []
    for name, field in fields.items():
        found += [f"`{before}{name}`"] if field.prose is not None else []
        found += _prose_of(field.within, f"{before}{name}.")
    return found


def events() -> str:
    """Return docs/events.md: the event types, their prose, and the SQL views."""
    parts = ["<!-- generated -->\n", "# Event types and SQL views\n", _EVENTS, *_event_types()]
    return "\n".join([*parts, _PROSE, *_prose(), views()]) + "\n"


_EVENTS = """\
Look up the type of an event that `reflector log` shows, or the columns of a [view](#sql-views) that
`reflector sql` queries. For example, `reflector log --type bullet.revised` lists the events in
which you or an agent reworded a rule.

The column `Since` shows the schema revision of the first version that appended the type. A program
may ignore types and fields that it does not know. An event is unreadable if its `data` does not
have the form of its type. An unreadable event changes nothing, `log` marks such an event, and
`verify` reports it. Some events refer to another event: the column `Target` shows the type of that
other event. The [ledger format](ledger-format.md) describes the other fields of an event.
"""
_PROSE = """
## Prose

A [redaction](ledger-format.md#redaction) erases the fields in this table. If the column Everything
shows `yes`, a redaction erases all data of the event.
"""


def views() -> str:
    """Return the part on views, from the comments of their text in migrations/views."""
    parts = ["\n## SQL views\n", _VIEWS]
    for name in VIEWS[1:]:
        sql = (DOCS.parent / "migrations" / "views" / f"{name}.sql").read_text("utf-8")
        head, _, text = sql.partition("CREATE VIEW")
        about = " ".join(
            head.partition("\n--\n")[0].replace("\n--", "\n").removeprefix("--").split()
        )
        columns = re.findall(r" AS (\w+),?  -- (\w+)(?:: (.*))?$", text, re.MULTILINE)
        parts += [f"\n## `{name}`\n", f"{about}\n", "| Column | Type | Meaning |", "|---|---|---|"]
        parts += [
            f"| `{column}` | {type_} | {said} |".replace("|  |", "| |")
            for column, type_, said in columns
        ]
    return "\n".join(parts)


_VIEWS = """\
`reflector sql` queries the views below ([examples](machines.md#sql)). The columns of each view are
the same on SQLite and PostgreSQL. Flags are 0 or 1. Times are ISO 8601 in UTC, as text. A
`position` is the number of an event in its playbook, as in `log`."""


def settings() -> str:
    """Return the part on settings, from the comments of their fields in reflector/config.py."""
    source = (DOCS.parent / "reflector" / "config.py").read_text("utf-8")
    parts = ["\n## Settings\n", _SETTINGS, "\n| Setting | Default | Meaning |", "|---|---|---|"]
    for name, of in SETTINGS.items():
        said = re.search(rf"((?:    #: .*\n)+)    {name}: ", source)
        assert said is not None, f"reflector/config.py does not explain {name}"
        about = " ".join(said[1].replace("#: ", "").split())
        default = json.dumps(list(of.default) if isinstance(of.default, tuple) else of.default)
        parts.append(f"| `{name}` | `{default}` | {'¹ ' if name in USERS_OWN else ''}{about} |")
    return "\n".join(parts)


_SETTINGS = """\
reflector works without any settings. [Settings and playbooks](reference.md#settings) shows in which
files you can write a setting, and which file has priority. You can also give each setting in an
environment variable: `REFLECTOR_IDLE_MINUTES` sets `idle_minutes`. For example,
`reflector config set --global monthly_tokens 500000` limits the tokens that judges use.

¹ A project's settings file cannot change the settings marked ¹, because a repository that you clone
must not decide who gets your transcripts. [Trust](trust.md#settings) lists the settings that a
project's file can change."""


def written() -> dict[Path, str]:
    """Return each generated file with what it is to hold."""
    made = schema()
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    pages = {"commands": commands(), "events": events()}
    root = DOCS.parent
    return {
        **{root / f"migrations/schema.{name}.sql": schema_sql(name) for name in _DIALECTS},
        root / "reflector/ledger/columns.py": columns_module(),
        DOCS / "schema.json": text,
        **{DOCS / f"{name}.md": page for name, page in pages.items()},
        **with_version_of_rules(),
        **with_digest(),
    }


def schema_sql(dialect: str) -> str:
    """Return the statements that make the tables and indexes of a new ledger, in order of creation.

    dialect  "sqlite" or "postgresql"
    """
    of_dialect = {"sqlite": sqlite.dialect, "postgresql": postgresql.dialect}[dialect]()
    parts = ["-- generated from reflector/ledger/tables.py by `make docs`\n"]
    for table in metadata.tables.values():
        parts += [f"--   {column.name}: {column.doc}" for column in table.c if column.doc]
        parts += (f"{statement};\n" for statement in _statements(table, of_dialect))
    return "\n".join(parts)


def _statements(table: sa.Table, dialect: sa.Dialect) -> Iterator[str]:
    """Yield the statements that make a table and its indexes, in order of their names."""
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    made: list[CreateTable | CreateIndex] = [CreateTable(table), *map(CreateIndex, indexes)]
    for statement in made:
        text = str(statement.compile(dialect=dialect))
        lines = (line.rstrip().expandtabs(4) for line in text.splitlines())
        yield "\n".join(line for line in lines if line)


def columns_module() -> str:
    """Return the text of `ledger/columns.py`, which programs read without loading SQLAlchemy."""
    numbers = {
        column.name
        for table in metadata.tables.values()
        for column in table.c
        if isinstance(column.type, sa.Integer)
    }
    lines = [
        '"""The tables of a ledger, generated from ledger/tables.py by `make docs`."""',
        "",
        "#: All but the first two are filled again by a rebuild.",
        "LEDGER_TABLES = (",
        *(f'    "{name}",' for name in metadata.tables),
        ")",
        "#: The columns that hold numbers; every other one holds text.",
        "NUMBER_COLUMNS = frozenset(",
        "    {",
        *(f'        "{name}",' for name in sorted(numbers)),
        "    }",
        ")",
    ]
    return "\n".join(lines) + "\n"


def with_digest() -> dict[Path, str]:
    """Return the newest revision, if it is new, with the digest of the triggers and views."""
    script = max((DOCS.parent / "migrations" / "versions").glob("[0-9]*.py"))
    text = script.read_text("utf-8")
    return {script: text.replace('\nmade = ""\n', f'\nmade = "{made_digest()}"\n')}


def with_version_of_rules() -> dict[Path, str]:
    """Return each page that names the version of the built-in judge, with the version in force."""
    pages = {}
    for path in (DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))):
        text = path.read_text("utf-8")
        current = re.sub(r"\brules/\d+\b", RULES_VERSION, text)
        if RULES_VERSION in current:
            pages[path] = current
    return pages


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, "utf-8")
