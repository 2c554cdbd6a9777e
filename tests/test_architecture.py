"""The shape of the house: who may import whom, who may print, how long a module may be."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "reflector"
_MODULES = {
    ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(_PACKAGE.rglob("*.py"))
}

#: The packages that each package may import, besides itself.
_IMPORTS = {
    "text": "",
    "instructions": "text",
    "quality": "",
    "demo": "",  # bundled sessions, no code
    "playbook": "text instructions",
    "transcripts": "text",
    "events": "playbook",
    "ledger": "playbook events",
    "proof": "playbook events ledger",
    "exchange": "playbook events ledger proof",
    "entries": "playbook events ledger proof exchange",
    "judges": "text playbook transcripts",
    "counts": "text transcripts judges",
    "reflection": "text playbook transcripts events ledger judges",
    "trials": "text playbook transcripts events ledger proof judges reflection",
    "embed": "text quality playbook transcripts events ledger proof judges reflection",
    "changes": "text playbook events ledger",
    "playbook_files": "text instructions playbook transcripts events ledger changes",
    "attribution": "text transcripts events",
    "memory": (
        "text instructions playbook transcripts events ledger proof exchange entries changes"
        " playbook_files attribution"
    ),
    "curator": "text playbook transcripts events ledger judges counts reflection changes",
    "sessions": (
        "text playbook transcripts events ledger exchange entries judges reflection trials embed"
        " changes playbook_files curator audit counts memory attribution"
    ),
    "audit": "text quality playbook events ledger proof judges reflection playbook_files memory",
    "check": (
        "text instructions playbook transcripts events ledger judges reflection playbook_files"
        " sessions audit"
        "text playbook transcripts events ledger judges reflection playbook_files sessions audit"
        " counts"
    ),
    "report": (
        "text playbook events ledger judges reflection trials embed changes playbook_files audit"
        " memory attribution"
    ),
    "hooks": (
        "text playbook transcripts events ledger proof entries judges reflection trials changes"
        " playbook_files sessions"
    ),
}
_LAYERS = {package: set(names.split()) for package, names in _IMPORTS.items()}
_LAYERS["cli"] = set(_LAYERS)
#: Modules of the package itself that any layer may use: they know of no layer above the exchange of
#: ledgers.
_SHARED = {
    f"reflector.{name}"
    for name in (
        "authorship config extensions files git handover locate mistakes prices project refusal"
        " resources settings_file waiting"
    ).split()
}
_SHARED_BY = {
    "ledger": {
        f"reflector.{name}" for name in ("files", "prices", "refusal", "resources", "waiting")
    },
    "playbook": {"reflector.mistakes"},
    "transcripts": {f"reflector.{name}" for name in ("extensions", "files", "refusal")},
    "events": set(),
}

_MOST_LINES = 800


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_tree(path)))


def _imports(module: str) -> tuple[str, ...]:
    return _imports_at(module, _MODULES[module])


@cache
def _imports_at(module: str, path: Path) -> tuple[str, ...]:
    """Each module of ours that a module imports, also inside a function and for type checking
    alone.
    """
    names = (name for node in _nodes(path) for name in _names(module, node))
    return tuple(_module_of(name) for name in names if name.split(".")[0] == "reflector")


def _names(module: str, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Call) and str(
        getattr(node.func, "attr", getattr(node.func, "id", ""))
    ).endswith("import_module"):
        return [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        is_package = _MODULES[module].name == "__init__.py"
        parts = module.split(".")
        parents = parts[: len(parts) - node.level + is_package]
        base = ".".join([*parents, *([node.module] if node.module else [])])
    return [f"{base}.{alias.name}" for alias in node.names]


def _module_of(name: str) -> str:
    """Return the module that an imported name is or stands in."""
    while name not in _MODULES:
        name = name.rpartition(".")[0]
    return name


def _layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 2 or (len(parts) == 2 and parts[1] in _LAYERS) else ""


def _strangers(module: str) -> set[str]:
    """The modules that a module imports, against the layers."""
    layer = _layer(module)
    allowed = _LAYERS[layer] | {layer}
    shared = _SHARED_BY.get(layer, _SHARED) | {"reflector"}
    return {name for name in _imports(module) if _layer(name) not in allowed and name not in shared}


def test_module_imports_only_its_layer_and_below() -> None:
    found = {module: _strangers(module) for module in _MODULES if _layer(module)}
    assert {module: strangers for module, strangers in found.items() if strangers} == {}


def test_every_package_has_its_place_in_the_layers() -> None:
    packages = {path.parent.name for path in _PACKAGE.glob("*/__init__.py")}
    assert packages == set(_LAYERS)


def _circle(graph: Mapping[str, Iterable[str]]) -> set[str]:
    """The members of a circle of a graph, none where it has none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return set(error.args[1])
    return set()


def _graphs() -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """The imports between modules, and those between packages; the public names of the package
    are asked for late.
    """
    modules: dict[str, set[str]] = defaultdict(set)
    packages: dict[str, set[str]] = defaultdict(set)
    for module in _MODULES.keys() - {"reflector"}:
        for name in _imports(module):
            if name not in ("reflector", module):
                modules[module].add(name)
            if _layer(name) != _layer(module):
                packages[_layer(module) or module].add(_layer(name) or name)
    return modules, packages


def test_no_import_goes_round_in_a_circle() -> None:
    assert [_circle(graph) for graph in _graphs()] == [set(), set()]


_SPEAKS = {"print", "input", "exit", "quit"}
_ENDS = {
    ("sys", "exit"),
    ("os", "_exit"),
    ("posix", "_exit"),
    ("sys", "stdout"),
    ("sys", "stderr"),
    ("sys", "stdin"),
}


def _spoken(module: str) -> set[str]:
    """What a module prints with or ends the process with."""
    found: set[str] = set()
    for node in _nodes(_MODULES[module]):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in _SPEAKS
        ):
            found.add(node.func.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found |= (
                {f"{node.value.id}.{node.attr}"} if (node.value.id, node.attr) in _ENDS else set()
            )
        elif isinstance(node, ast.Name) and node.id == "SystemExit":
            found.add(node.id)
    return found


def test_only_command_line_and_hooks_print_or_exit() -> None:
    silent = [
        name
        for name in _MODULES
        if _layer(name) not in {"cli", "hooks"} and name != "reflector.__main__"
    ]
    assert {module: spoken for module in silent if (spoken := _spoken(module))} == {}


_LOCKS = "reflector.sessions.locks"
_WRITES = {"set_checkpoint", "unlink", "rmtree"}


def _writes(module: str) -> set[str]:
    """The locks that a module imports, and its calls that append, set checkpoints or delete."""
    found = {_LOCKS} & set(_imports(module))
    for node in _nodes(_MODULES[module]):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        method = node.func.attr
        receiver = ast.unparse(node.func.value)
        if method in _WRITES or (receiver, method) == ("os", "remove"):
            found.add(method)
        elif method == "append" and receiver.endswith("ledger"):
            found.add("ledger.append")
    return found


def test_commands_leave_writing_to_other_packages() -> None:
    found = {
        module.removeprefix("reflector.cli."): _writes(module)
        for module in _MODULES
        if _layer(module) == "cli"
    }
    assert {name: names for name, names in found.items() if names} == {}


def test_each_module_has_a_docstring() -> None:
    said = {
        name: ast.get_docstring(_tree(path)) or ""
        for name, path in _MODULES.items()
        if path.stat().st_size
    }
    assert [
        name for name, text in said.items() if len(text) <= 20 or not text.splitlines()[0].strip()
    ] == []


def test_no_module_is_too_long() -> None:
    lines = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in _MODULES.items()
    }
    assert {name for name, count in lines.items() if count > _MOST_LINES} == set()


def test_each_rule_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pure module that imports an event inside a function, and prints, is found by each rule
    that it breaks.
    """
    source = tmp_path / "reaching.py"
    source.write_text(
        '"""Reaches up."""\n\ndef f():\n    from ..events import event\n    print(event)\n'
        "    pipeline.ledger.append([])\n    names.append(1)\n    path.unlink()\n"
    )
    monkeypatch.setitem(_MODULES, "reflector.playbook.reaching", source)
    assert _strangers("reflector.playbook.reaching") == {"reflector.events.event"}
    assert _spoken("reflector.playbook.reaching") == {"print"}
    assert _writes("reflector.playbook.reaching") == {"ledger.append", "unlink"}
    assert _circle(_graphs()[1]) == {"events", "playbook"}
    event = tmp_path / "event.py"
    event.write_text(
        '"""Imports back."""\n\ndef f():\n    from reflector.playbook import reaching\n'
    )
    monkeypatch.setitem(_MODULES, "reflector.events.event", event)
    assert _circle(_graphs()[0]) == {"reflector.events.event", "reflector.playbook.reaching"}
