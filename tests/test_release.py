"""What a release is made of agrees: versions, program names, fragments of the changelog,
workflows and promises.
"""

import json
import re
import tomllib
from itertools import product
from pathlib import Path

import pytest
import yaml

import reflector
from reflector.ledger.url import url_of

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in (ROOT / ".github/workflows").glob("*.yml")
}


def test_version_is_the_same_everywhere() -> None:
    version = PROJECT["tool"]["hatch"]["version"]
    (being_made,) = re.findall(
        r'version = "(.+\.dev0)"', Path(reflector.__file__).read_text("utf-8")
    )
    assert version["fallback-version"] == being_made
    assert f"echo v{being_made}-" in version["raw-options"]["scm"]["git"]["describe_command"][2]
    manifest = json.loads(
        (ROOT / ".claude-plugin/reflector/.claude-plugin/plugin.json").read_text("utf-8")
    )
    assert f"{manifest['version']}.dev0" == being_made
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", reflector.__version__)


def test_each_changelog_fragment_is_one_sentence() -> None:
    kinds = {one["directory"] for one in PROJECT["tool"]["towncrier"]["type"]}
    for path in (ROOT / "changelog.d").iterdir():
        assert re.fullmatch(rf"\+[a-z-]+\.({'|'.join(kinds)})\.md", path.name), path.name
        said = path.read_text("utf-8")
        assert re.fullmatch(r"[A-Z`].*\.\n", said), (
            f"{path.name}: one line, from a capital or a name to a full stop"
        )


def test_ci_runs_every_named_python_and_system() -> None:
    matrix = WORKFLOWS["ci"]["jobs"]["fast"]["strategy"]["matrix"]
    named = [one.rpartition(" :: ")[2] for one in PROJECT["project"]["classifiers"]]
    assert [one for one in named if re.fullmatch(r"3\.\d+", one)] == matrix["python"]
    assert matrix["python"][0] == PROJECT["project"]["requires-python"].removeprefix(">=")
    for system, arm in product(("ubuntu", "macos"), (True, False)):
        of_arm = {"ubuntu-24.04-arm", "macos-latest"}
        assert [one for one in matrix["os"] if one.startswith(system) and (one in of_arm) == arm]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_no_workflow_has_undeclared_rights_or_secrets(name: str) -> None:
    assert WORKFLOWS[name]["permissions"] == {}
    rights = [job["permissions"] for job in WORKFLOWS[name]["jobs"].values()]
    writes = {key for one in rights for key, value in one.items() if value == "write"}
    assert writes == {"release": {"id-token"}, "codeql": {"security-events"}}.get(name, set())
    assert "secrets." not in (ROOT / ".github/workflows" / f"{name}.yml").read_text("utf-8")


def test_each_security_promise_names_existing_tests() -> None:
    rows = re.findall(
        r"^\| .+\. .*\| (`tests/.+`) \|$", (ROOT / "SECURITY.md").read_text("utf-8"), re.MULTILINE
    )
    named = [path for row in rows for path in re.findall(r"`(.+?)`", row)]
    assert len(rows) >= 7
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_formula_and_containers_install_the_published_package() -> None:
    project, classifiers = PROJECT["project"], PROJECT["project"]["classifiers"]
    formula = (ROOT / "examples/homebrew/reflector-ledger.rb").read_text("utf-8")
    assert f'desc "{project["description"].rstrip(".")}"' in formula
    assert f'license "{project["license"]}"' in formula
    assert re.findall(r'libexec/"bin/(reflector[\w-]*)"', formula) == list(project["scripts"])
    containers = (ROOT / "examples/team/Containerfile").read_text("utf-8")
    ((named, extra),) = re.findall(r'pip install .*"([\w-]+)\[(\w+)\]"', containers)
    assert (named, extra in project["optional-dependencies"]) == (project["name"], True)
    pythons = {*re.findall(r"python[@:]?(3\.\d+)", formula + containers)}
    assert pythons <= {one.rpartition(" :: ")[2] for one in classifiers}
    compose = yaml.safe_load((ROOT / "examples/team/compose.yaml").read_text("utf-8"))
    targets = {one["build"]["target"] for one in compose["services"].values()}
    assert targets == {*re.findall(r" AS (\w+)$", containers, re.MULTILINE)}
    assert all(
        (ROOT / "examples/team" / one).exists()
        for one in re.findall(r"^COPY (\S+) ", containers, re.MULTILINE)
    )
    environment = compose["services"]["admin"]["environment"]
    assert url_of(environment["REFLECTOR_LEDGER_URL"]).database == "reflector"
