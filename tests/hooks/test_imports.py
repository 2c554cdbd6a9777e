"""What the hook may load. Each import here is paid at the start and end of every session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reflector.hooks import fast
from reflector.hooks.install import SCRIPT
from tests.hooks.conftest import Project, event

HEAVY = {"sqlalchemy", "pydantic", "click", "rich", "anthropic", "alembic"}
SLOW = HEAVY | {"re", "json", "pathlib", "dataclasses", "typing", "subprocess", "uuid", "datetime", "os", "enum"}
CHECKOUT = Path(fast.__file__).parents[2]


def loaded(project: Project, command: list[str], payload: dict[str, object]) -> set[str]:
    """The modules that a process imported while it ran."""
    process = project.start([sys.executable, *command], cwd=CHECKOUT)
    _, err = process.communicate(json.dumps(payload).encode(), timeout=30)
    assert process.returncode == 0
    return {line.rpartition("|")[2].strip() for line in err.decode().splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("name", ["SessionStart", "SubagentStart", "SessionEnd", "Stop", "PreCompact"])
def test_the_installed_hook_imports_next_to_nothing(project: Project, name: str) -> None:
    project.write_playbook(("oth-001", "text", 0, 0))
    payload = event(name, cwd=str(project.path), transcript_path=__file__)
    project.hook(event("SessionStart"))  # renders
    modules = loaded(project, ["-I", "-S", "-X", "importtime", SCRIPT], payload)
    assert "_json" in modules  # the list is a list
    assert modules & SLOW == set()
    ours = {"reflector", "reflector.files", "reflector.locate", "reflector.handover"}
    ours |= {"reflector.hooks", "reflector.hooks.fast"}
    assert {module for module in modules if module.startswith("reflector")} == ours


@pytest.mark.parametrize("name", ["SessionStart", "SessionEnd"])
def test_the_console_command_hook_imports_no_library(project: Project, name: str) -> None:
    project.write_playbook(("oth-001", "text", 0, 0))
    payload = event(name, cwd=str(project.path))
    modules = loaded(project, ["-X", "importtime", "-m", "reflector", "hook"], payload)
    assert "reflector.hooks.fast" in modules
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()


def test_rendering_in_the_hook_imports_no_library(project: Project) -> None:
    project.write_playbook(("oth-001", "text", 0, 0))
    modules = loaded(project, ["-I", "-S", "-X", "importtime", SCRIPT], event("SessionStart"))
    assert "reflector.sessions.injection" in modules
    assert {module.partition(".")[0] for module in modules} & HEAVY == set()


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import reflector; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT, env=os.environ)
    assert done.stdout == "['reflector']\n"


def test_every_public_name_is_there_and_another_name_is_an_attribute_error() -> None:
    import reflector

    assert set(reflector.__all__) <= set(dir(reflector))
    for name in reflector.__all__:
        assert getattr(reflector, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = reflector.no_such_name


def test_the_spools_reading_side_imports_no_library() -> None:
    code = "import sys, reflector.sessions.spool; print({name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT, check=True)
    assert not any(repr(name) in done.stdout for name in HEAVY)
