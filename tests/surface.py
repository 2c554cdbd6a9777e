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
from reflector.config import SETTINGS, USERS_OWN
from reflector.events.kinds import Field
from reflector.events.registry import EVENT_TYPES
from reflector.hooks.agents import AGENTS
from reflector.hooks.install import EVENTS
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
    yield f"hook {' '.join(EVENTS)}"
    yield from (
        (f"agent {name}: {', '.join(sorted(one.files.values()))}") for name, one in AGENTS.items()
    )
    plugin = DOCS.parent / ".claude-plugin" / "reflector"
    yield from sorted(f"plugin {path.stem}" for path in plugin.glob("commands/*.md"))
    tools = re.findall(r"^\| `(\w+\(.*?\))` \|", (DOCS / "reference.md").read_text("utf-8"), re.M)
    yield from (f"tool {one}" for one in tools)


def written() -> dict[Path, str]:
    """Return each generated file with what it is to hold."""
    agents = DOCS / "agents.md"
    counting = DOCS / "counting.md"
    pages = {agents: _with_readers(agents.read_text()), counting: _with_words(counting.read_text())}
    return {**schemas.written(), SURFACE: surface(), **pages}


def _with_words(page: str) -> str:
    """Return the page of counting with a row for each word."""
    rows = ["| Word | Counts | Meaning |", "|---|---|---|"]
    rows += [f"| {one.word} | {one.kind} | {one.meaning} |" for one in MEASURES]
    return _between("words", page, rows)


def _between(name: str, page: str, rows: Iterable[str]) -> str:
    """Return the page with these rows between its marks of a name."""
    begin = f"<!-- {name}: written by `make docs` -->\n\n"
    end = f"\n<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    return "".join([before, begin, *(f"{row}\n" for row in rows), end, rest.partition(end)[2]])


def _with_readers(page: str) -> str:
    """Return the page of agents with a row for each reader in both tables."""
    kept = ["| Agent | Recorded as | Sessions | Read parts |", "|---|---|---|---|"]
    loaded = ["| Agent | Tried | In the project | Your own | Imports |", "|---|---|---|---|---|"]
    for reader in built_in_readers():
        places = "; ".join(map(_kept_words, reader.kept))
        title = reader.writers or reader.name
        kept.append(f"| {title} | `{reader.agent}` | {places} | {reader.reads} |")
        loads = reader.loads
        if not loads.project:  # nobody has tried which files the agent loads
            continue
        own = "/".join(filter(None, ("~", loads.own.default, loads.own.below)))
        imports = f"{loads.imports} deep" if loads.imports else "no"
        loaded.append(
            f"| {reader.name} | {loads.version} | {_loads_words(loads.project)} | "
            f"`{own}`: {_loads_words(loads.user)} | {imports} |"
        )
    return _between("loads", _between("readers", page, kept), loaded)


def _loads_words(loads: Iterable[Load]) -> str:
    return ", ".join(
        f"`{load.pattern}`" + (f" (unless {' or '.join(load.unless)})" if load.unless else "")
        for load in loads
    )


def _kept_words(kept: Kept) -> str:
    home = f"~/{kept.default}".rstrip("/")
    return f"`${kept.variable}` or `{home}`, `{kept.below}/…/{kept.pattern}`"


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, "utf-8")
