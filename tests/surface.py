"""The public surface as the code says it, a name a line: tests/surface.txt. docs/stability.md says
what may change.

`python -m tests.surface` writes it, with all that `tests.schemas` writes.
"""

import ast
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import click

import reflector
from reflector.cli.app import reflector as program
from reflector.cli.table import GROUPS, HIDDEN, MORE
from reflector.config import APIS, SETTINGS, USERS_OWN
from reflector.events.kinds import Field
from reflector.events.registry import EVENT_TYPES
from reflector.hooks.agents import AGENTS, CLAUDE
from reflector.judges.api import Api
from reflector.judges.reading.wordings import all_wordings
from reflector.judges.rules.findings import FINDINGS
from reflector.ledger.store import Ledger
from reflector.transcripts.building import Kept, Load
from reflector.transcripts.readers import built_in_readers
from tests import schemas
from tests.ledger import sql
from tests.measures import MEASURES
from tests.schemas import DOCS

SURFACE = Path(__file__).parent / "surface.txt"
#: The modules under the names of what others call our systems.
_MODULES = ("gated", "experience", "engine", "ground_truth")


def surface() -> str:
    """Return every public name, with what a script that uses it relies on."""
    parts = (_commands(), _exits(), _documents(), _events(), _tables(), _names(), _agents())
    return "".join(f"{line}\n" for part in parts for line in part)


def _commands() -> Iterator[str]:
    yield from (f"option {_typed(one)}" for one in program.params if isinstance(one, click.Option))
    for name in [name for group in (*GROUPS.values(), MORE, HIDDEN) for name in group]:
        command = program.get_command(click.Context(program), name)
        inner = command.commands.values() if isinstance(command, click.Group) else ()
        for called, one in [(name, command), *((f"{name} {one.name}", one) for one in inner)]:
            yield " ".join(
                [
                    "command",
                    called,
                    *sorted(map(_typed, one.params), key=lambda typed: typed[:1] == "-"),
                ]
            )


def _typed(one: click.Parameter) -> str:
    """Return a parameter as it is typed: [--name VALUE], a choice by its choices, or an
    argument's name.
    """
    value = (
        f"{{{','.join(one.type.choices)}}}"
        if isinstance(one.type, click.Choice)
        else one.type.name.upper()
    )
    if isinstance(one, click.Option):
        return f"[{'|'.join([*one.opts, *one.secondary_opts])}{'' if one.is_flag else f' {value}'}]"
    named = value if isinstance(one.type, click.Choice) else (one.name or "").upper()
    return (named if one.required else f"[{named}]") + ("..." if one.nargs == -1 else "")


def _exits() -> Iterator[str]:
    page = (
        (DOCS / "machines.md")
        .read_text("utf-8")
        .partition("### Exit codes")[2]
        .partition("\n### ")[0]
    )
    yield from (
        f"exit {what}: {why}"
        for what, why in re.findall(r"^\| `?([a-z0-9 -]+)`? \| (.+) \|$", page, re.M)
    )


def _documents() -> Iterator[str]:
    made = schemas.schema()
    typed = dict(made["properties"])
    for name, one in made["$defs"].items():
        typed |= {
            f"{schemas._name(name)}.{key}": of for key, of in one.get("properties", {}).items()
        }
    yield from (f"json {what}: {schemas._type(of)}" for what, of in typed.items())


def _events() -> Iterator[str]:
    for name, one in EVENT_TYPES.items():
        target = f" -> {one.target.event}" if one.target else ""
        yield f"event {name} since {one.since}: {', '.join(_fields(one.fields))}{target}"


def _fields(of: Mapping[str, Field], before: str = "") -> Iterator[str]:
    for name, field in of.items():
        yield before + name
        yield from _fields(field.within, f"{before}{name}.")


def _tables() -> Iterator[str]:
    with Ledger.open("sqlite://") as ledger:
        found = sql.rows(
            ledger,
            "SELECT name, type FROM pragma_table_info('event') WHERE name <> 'playbook_id'",
        )
    yield f"table event: {', '.join(f'{name} {type_}' for name, type_ in found)}"
    for view, columns in re.findall(r"^## `(\w+)`\n(.*?)(?=^## |\Z)", schemas.views(), re.M | re.S):
        of = re.findall(r"^\| `(\w+)` \| (\w+) ", columns, re.M)
        yield f"view {view}: {', '.join(map(' '.join, of))}"


def _names() -> Iterator[str]:
    for name, of in SETTINGS.items():
        yield (
            f"setting {name} "
            f"{type(of.default).__name__}{' of the user alone' if name in USERS_OWN else ''}"
        )
    yield f"python reflector: {', '.join(sorted(reflector.__all__))}"
    yield from (
        (f"python reflector.{name}: {', '.join(sorted({*_public(name)}))}") for name in _MODULES
    )


def _public(module: str) -> Iterator[str]:
    """Yield what a module defines, and what it imports under the same name again; no `__all__`
    repeats them.
    """
    for node in ast.parse(inspect.getsource(import_module(f"reflector.{module}"))).body:
        if isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = re.findall(
                r"\w+",
                ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target),
            )
        else:
            names = [getattr(node, "name", "_")]
        yield from (name for name in names if not name.startswith("_"))


def _agents() -> Iterator[str]:
    yield f"hook {' '.join(CLAUDE.events)}"
    yield from (
        (f"agent {name}: {', '.join(sorted(one.files.values()))}") for name, one in AGENTS.items()
    )
    plugin = DOCS.parent / ".claude-plugin" / "reflector"
    yield from sorted(f"plugin {path.stem}" for path in plugin.glob("commands/*.md"))
    tools = re.findall(r"^\| `(\w+\(.*?\))` \|", (DOCS / "reference.md").read_text("utf-8"), re.M)
    yield from (f"tool {one}" for one in tools)


def written() -> dict[Path, str]:
    """Return each generated file with what it is to hold."""
    files = {**schemas.written(), SURFACE: surface()}
    for name, parts in _parts().items():
        page = DOCS / name
        text = files.get(page) or page.read_text("utf-8")
        for part, lines in parts.items():
            text = _between(part, text, lines)
        files[page] = text
    readme = DOCS.parent / "README.md"
    return {**files, readme: _with_agents(files.get(readme) or readme.read_text("utf-8"))}


def _parts() -> dict[str, dict[str, Iterable[str]]]:
    """Return the generated lines of pages of docs/, by page and the name of their marks."""
    return {
        "agents.md": {
            "readers": _readers(),
            "loads": _loads(),
            "meanings": _described_readers(
                words="Your words",
                refusal="Refusal or interruption",
                failure="Failed tool",
                ignored="Ignored records",
            ),
            "identities": _described_readers(identity="Identity of a record"),
        },
        "counting.md": {"words": _words()},
        "judging.md": {"apis": _apis(), "findings": _findings(), "wordings": _wordings()},
    }


def _between(name: str, page: str, lines: Iterable[str]) -> str:
    """Return the page with these lines between its marks of a name."""
    begin = f"<!-- {name}: written by `make docs` -->\n\n"
    end = f"\n<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    return "".join([before, begin, *(f"{line}\n" for line in lines), end, rest.partition(end)[2]])


def _table(*columns: str) -> list[str]:
    """Return the head of a table."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def _words() -> list[str]:
    rows = [f"| {one.word} | {one.kind} | {one.meaning} |" for one in MEASURES]
    return [*_table("Word", "Counts", "Meaning"), *rows]


def _with_agents(page: str) -> str:
    """Return the README with the names of the agents in its sentence about sessions."""
    *names, last = [reader.name for reader in built_in_readers()]
    known = f"reads the sessions of {', '.join(names)} and {last}."
    return re.sub(r"reads the sessions of [^.]+\.", known, page)


def _readers() -> list[str]:
    rows = _table("Agent", "Recorded as", "Sessions", "Read parts")
    for reader in built_in_readers():
        places = "; ".join(map(kept_words, reader.kept))
        title = reader.writers or reader.name
        rows.append(f"| {title} | `{reader.agent}` | {places} | {_facts(reader, 'reads')[0]} |")
    return rows


def _loads() -> list[str]:
    """Return the table of the files that agents load, as far as somebody has tried them."""
    rows = _table("Agent", "Tried", "In the project", "Your own", "Imports")
    for reader in built_in_readers():
        loads = reader.loads
        if loads.project:
            own = "/".join(filter(None, ("~", loads.own.default, loads.own.below)))
            imports = f"{loads.imports} deep" if loads.imports else "no"
            rows.append(
                f"| {reader.name} | {loads.version} | {_loads_words(loads.project)} | "
                f"`{own}`: {_loads_words(loads.user)} | {imports} |"
            )
    return rows


def _loads_words(loads: Iterable[Load]) -> str:
    return ", ".join(
        f"`{load.pattern}`"
        + (f" (unless {' or '.join(load.unless)} exists)" if load.unless else "")
        for load in loads
    )


def kept_words(kept: Kept) -> str:
    """Return the folder of an agent, then its sessions: `$PI_DIR` or `~/.pi`, `sessions/…/*.jsonl`.

    An agent without a variable has only one folder: `~/.pi`, `sessions/…/*.jsonl`.
    """
    variables = [f"`${kept.variable}`"] if kept.variable else []
    default = f"~/{kept.default}".rstrip("/")
    folder = " or ".join([*variables, f"`{default}`"])
    return f"{folder}, `{kept.below}/…/{kept.pattern}`"


def _described_readers(**columns: str) -> list[str]:
    """Return a table of the fields that the docstrings of readers describe, by their titles."""
    rows = _table("Agent", *columns.values())
    for reader in built_in_readers():
        rows.append(f"| {reader.name} | {' | '.join(_facts(reader, *columns))} |")
    return rows


def _facts(reader: type, *names: str) -> list[str]:
    """Return facts about the records of a reader, from the lines of its docstring."""
    about = schemas.described(inspect.cleandoc(reader.__doc__ or ""))[1]
    lacking = [name for name in names if name not in about]
    assert not lacking, f"the docstring of {reader.__name__} lacks {', '.join(lacking)}"
    return [about[name] for name in names]


def _apis() -> list[str]:
    """Return the table of APIs, and the notes in the docstrings of their modules."""
    rows = _table("API", "Key", "Model", "Address")
    notes = []
    for name in APIS:
        module = import_module(f"reflector.judges.backends.{name}")
        _, _, note = inspect.cleandoc(module.__doc__ or "").partition("\n\n")
        notes += ["", " ".join(note.split())] if note else []
        for api in (value for value in vars(module).values() if isinstance(value, Api)):
            keys = ", ".join(f"`{variable}`" for variable in api.keys)
            models = ", ".join(f"`{text}`" for text in (*api.models, api.model))
            urls = ", ".join(f"`{text}`" for text in (*api.urls, api.url))
            rows.append(f"| `{name}` | {keys} | {models} | {urls} |")
    return rows + notes


def _findings() -> list[str]:
    """Return the table of findings; the docstring of a finding's function has its condition."""
    rows = _table("Finding", "Side", "Condition")
    for name, finding in FINDINGS.items():
        _, mark, condition = inspect.cleandoc(finding.find.__doc__ or "").partition("Condition: ")
        assert mark, f"{finding.find.__name__} does not describe its `Condition: …`"
        rows.append(f"| `{name}` | {finding.side} | {' '.join(condition.split())} |")
    return rows


def _wordings() -> list[str]:
    """Return the words and tools that the built-in judge reads: a table and two paragraphs."""
    speakers = {"sign": "you, as an objection", "person": "you", "agent": "the agent"}
    rows = [
        f"| `{row.id}` | {speaker} | {' '.join(row.example.split())} |"
        for kind, speaker in speakers.items()
        for row in all_wordings()
        if row.kind == kind
    ]
    return [
        "The built-in judge recognises these words:",
        "",
        *_table("Name", "Words of", "Example"),
        *rows,
        "",
        "The built-in judge also recognises the results of these runners and tools: "
        f"{_listed('counted', 'check', 'line')}.",
        "",
        "The built-in judge does not treat these errors of the agent's tools as failures of the "
        f"work: {_listed('mechanics')}.",
    ]


def _listed(*kinds: str) -> str:
    """Return the names of the wordings of some kinds. The failure and the success of one runner
    have one name.
    """
    names = (row.id for row in all_wordings() if row.kind in kinds)
    runners = (name.removesuffix("-failed").removesuffix("-passed") for name in names)
    return ", ".join(f"`{name}`" for name in dict.fromkeys(runners))


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, "utf-8")
