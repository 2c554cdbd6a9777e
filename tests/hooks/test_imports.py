"""What the hook may load. Each import here is paid at the start and end of every session."""

import subprocess
import sys
from pathlib import Path

import pytest

from reflector.hooks import fast
from reflector.hooks.install import SCRIPT
from tests.conftest import first_fast
from tests.hooks.conftest import Project, event

HEAVY = {"sqlalchemy", "pydantic", "click", "rich", "anthropic", "alembic"}
SLOW = HEAVY | {
    "re",
    "json",
    "pathlib",
    "dataclasses",
    "typing",
    "subprocess",
    "uuid",
    "datetime",
    "os",
    "enum",
}
STATUSLINE = "from reflector.hooks import fast; fast.statusline()"
CHECKOUT = Path(fast.__file__).parents[2]


def loaded(project: Project, command: list[str], payload: dict[str, object]) -> set[str]:
    """The modules that a process imported while it ran."""
    _, err = project.hook(payload, command=[sys.executable, *command], cwd=CHECKOUT)
    return {
        line.rpartition("|")[2].strip()
        for line in err.decode().splitlines()
        if line.startswith("import time:")
    }


@pytest.mark.parametrize(
    "name", first_fast(2, ["SessionStart", "SubagentStart", "SessionEnd", "Stop", "PreCompact"])
)
def test_the_installed_hook_imports_next_to_nothing(project: Project, name: str) -> None:
    project.write_playbook(("oth-001", "text", 0, 0))
    payload = event(name, cwd=str(project.path), transcript_path=__file__)
    project.hook(event("SessionStart"))  # renders
    modules = loaded(project, ["-I", "-S", "-X", "importtime", SCRIPT], payload)
    assert "_json" in modules  # the list is a list
    assert modules & SLOW == set()
    ours = {f"reflector.{name}" for name in ("files", "locate", "handover", "hooks", "hooks.fast")}
    assert {module for module in modules if module.startswith("reflector.")} == ours


@pytest.mark.parametrize("name", ["SessionStart", "SessionEnd"])
def test_rendering_and_hook_command_import_no_library(project: Project, name: str) -> None:
    project.write_playbook(("oth-001", "text", 0, 0))
    modules = loaded(
        project, ["-X", "importtime", "-m", "reflector", "hook"], event(name, cwd=str(project.path))
    )
    assert "reflector.hooks.fast" in modules
    assert ("reflector.sessions.injection" in modules) == (name == "SessionStart")
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()


@pytest.mark.parametrize(
    "code", ["import reflector", "import reflector.sessions.spool", STATUSLINE]
)
def test_what_is_asked_for_often_imports_no_library(code: str) -> None:
    shown = "; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}{shown}"], capture_output=True, text=True
    )
    assert {name.partition(".")[0] for name in done.stderr.split()} & HEAVY == set()
    assert (" reflector." in done.stderr) == (code != "import reflector")


def test_help_imports_neither_commands_nor_the_ledger() -> None:
    code = (
        "import sys; from reflector.cli.app import run; run(['--help']); print(*sys.modules, "
        "file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ours = {
        name.removeprefix("reflector.")
        for name in done.stderr.split()
        if name.startswith("reflector.")
    }
    assert ours - {"_version"} == {
        "cli",
        "cli.app",
        "cli.screen",
        "cli.table",
        "ledger",
        "mistakes",
        "refusal",
    }
    assert "sqlalchemy" not in done.stderr


def test_every_public_name_exists_and_no_other() -> None:
    import reflector

    assert set(reflector.__all__) <= set(dir(reflector))
    for name in reflector.__all__:
        assert getattr(reflector, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = reflector.no_such_name
