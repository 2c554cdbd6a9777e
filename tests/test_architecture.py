"""The shape of the house: who may import whom, who may print, how long a module may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[1]
_PACKAGE = _ROOT / "reflector"
_MODULES = {
    ".".join(path.relative_to(_ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(_PACKAGE.rglob("*.py"))
}

#: The packages that each package may import, besides itself.
_LAYERS = {
    "text": set(),
    "playbook": set(),
    "transcripts": {"text"},
    "ledger": {"playbook"},
    "proof": {"playbook", "ledger"},
    "exchange": {"playbook", "ledger", "proof"},
    "reflection": {"text", "playbook", "transcripts", "ledger"},
    "curation": {"text", "playbook", "ledger"},
    "audit": {"text", "playbook", "ledger", "proof", "reflection"},
    "demo": set(),  # bundled sessions, no code
    "hooks": {"text", "playbook", "transcripts", "ledger", "proof", "reflection", "curation"},
}
_LAYERS["cli"] = set(_LAYERS)
#: Modules of the package itself that any layer may use: they know of no layer above the ledger.
_SHARED = {
    "reflector.files",
    "reflector.folders",
    "reflector.git",
    "reflector.git_index",
    "reflector.resources",
    "reflector.config",
    "reflector.locate",
    "reflector.mistakes",
    "reflector.project",
    "reflector.user_folder",
}
_SHARED_BY = {"ledger": {"reflector.files", "reflector.resources"}, "playbook": set(), "transcripts": set()}

_MOST_LINES = 400
#: Longer modules, each with its reason.
_LONGER: dict[str, str] = {}


def _tree(module: str) -> ast.Module:
    return ast.parse(_MODULES[module].read_text(encoding="utf-8"))


def _imports(module: str) -> Iterator[tuple[str, bool]]:
    """(module of ours, whether it is imported when this one is), for every import wherever it stands."""
    tree = _tree(module)
    later = {
        id(node)
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_type_checking(outer)
        for node in ast.walk(outer)
    }
    for node in ast.walk(tree):
        for name in _names(module, node):
            if name.split(".")[0] == "reflector":
                yield _module_of(name), id(node) not in later


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _names(module: str, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
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
    """The module that an imported name is or stands in."""
    while name not in _MODULES:
        name = name.rpartition(".")[0]
    return name


def _layer(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 2 or (len(parts) == 2 and parts[1] in _LAYERS) else ""


@pytest.mark.parametrize("module", [name for name in _MODULES if _layer(name)])
def test_a_module_imports_only_from_its_own_layer_and_those_below(module: str) -> None:
    layer = _layer(module)
    allowed = _LAYERS[layer] | {layer}
    shared = _SHARED_BY.get(layer, _SHARED)
    strangers = {
        name
        for name, _ in _imports(module)
        if (_layer(name) not in allowed if _layer(name) else name not in shared | {"reflector"})
    }
    assert strangers == set()


def test_every_package_has_its_place_in_the_layers() -> None:
    packages = {path.parent.name for path in _PACKAGE.glob("*/__init__.py")}
    assert packages - set(_LAYERS) == set()


def test_no_import_goes_round_in_a_circle() -> None:
    graph = {module: {name for name, at_once in _imports(module) if at_once} - {module} for module in _MODULES}
    for module in graph:  # importing a module imports its packages first
        parents = [module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1)]
        graph[module] |= {parent for parent in parents if graph.get(parent)}
    done: set[str] = set()

    def walk(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, " → ".join([*above[above.index(module) :], module])
        if module not in done:
            for name in sorted(graph[module]):
                walk(name, (*above, module))
            done.add(module)

    for module in sorted(graph):
        walk(module, ())


_SPEAKS = {"print", "input", "exit", "quit"}
_ENDS = {("sys", "exit"), ("os", "_exit"), ("posix", "_exit"), ("sys", "stdout"), ("sys", "stderr"), ("sys", "stdin")}


@pytest.mark.parametrize(
    "module", [name for name in _MODULES if _layer(name) not in {"cli", "hooks"} and name != "reflector.__main__"]
)
def test_only_the_command_line_and_the_hooks_print_or_exit(module: str) -> None:
    calls = [node.func for node in ast.walk(_tree(module)) if isinstance(node, ast.Call)]
    spoken = {function.id for function in calls if isinstance(function, ast.Name)} & _SPEAKS
    ends = {
        (node.value.id, node.attr)
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    } & _ENDS
    raised = "SystemExit" in {node.id for node in ast.walk(_tree(module)) if isinstance(node, ast.Name)}
    assert (spoken, ends, raised) == (set(), set(), False)


@pytest.mark.parametrize("module", [name for name, path in _MODULES.items() if path.stat().st_size])
def test_a_module_says_in_its_docstring_what_it_is_for(module: str) -> None:
    docstring = ast.get_docstring(_tree(module))
    assert docstring
    assert len(docstring) > 20
    assert docstring.splitlines()[0].strip()


@pytest.mark.parametrize("module", _MODULES)
def test_a_module_is_short_enough_to_be_read_at_once(module: str) -> None:
    lines = len(_MODULES[module].read_text(encoding="utf-8").splitlines())
    assert lines <= _MOST_LINES or module in _LONGER
    assert lines > _MOST_LINES or module not in _LONGER, "short again: take it off the list"


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
    assert {name for name in _MODULES if name.rpartition(".")[2] in drawers} == set()


def test_a_layer_that_reaches_up_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule must be able to fail: a pure module that imports the ledger, even inside a function."""
    source = tmp_path / "reaching.py"
    source.write_text('"""Reaches up."""\n\ndef f():\n    from ..ledger import store\n    print(store)\n')
    monkeypatch.setitem(_MODULES, "reflector.playbook.reaching", source)
    with pytest.raises(AssertionError, match=r"reflector\.ledger\.store"):
        test_a_module_imports_only_from_its_own_layer_and_those_below("reflector.playbook.reaching")
    with pytest.raises(AssertionError, match="print"):
        test_only_the_command_line_and_the_hooks_print_or_exit("reflector.playbook.reaching")
