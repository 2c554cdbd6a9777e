"""Readers and judges of other packages: who may load them, and that a broken one breaks nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from reflector import extensions
from reflector.config import BACKENDS, Config, ConfigError, load_config
from reflector.judges.extensions import extension_kind
from reflector.judges.model import Client, ModelBackend, Reply
from reflector.judges.protocol import BackendError
from reflector.prices import Usage
from reflector.reflection.gate import Gate
from reflector.transcripts.agents.claude_code import ClaudeCode
from reflector.transcripts.building import Kept
from reflector.transcripts.reading import UnknownTranscript, recognise, scan
from tests.conftest import first_fast
from tests.road.agent import Agent, environ
from tests.transcripts.agents import Claude

EXAMPLE = Path(__file__).parents[1] / "examples/extension"
#: A module that shows that it was imported, with a reader and a judge.
MODULE = """
from pathlib import Path
Path(__file__).with_name("imported").touch()
from reflector.judges.model import Client, Reply
from reflector.prices import Usage
from reflector.transcripts import building
from reflector.transcripts.building import Conversation, Place

class Odd(Conversation):
    agent, name = "odd", "Odd"
    @staticmethod
    def recognises(record):
        return "odd" in record
    def messages(self, record, text, offset, tally):
        yield building.by_model(str(record["odd"]), Place("", "", offset), "As [pat-001] says.")

class Judge(Client):
    async def send(self, texts):
        return Reply('{"analysis": "", "bullet_tags": []}', "odd/1", "end_turn", Usage(1, 1))

def judge(model, deadline):
    return Judge()
"""


def install(folder: Path, module: str = MODULE, name: str = "odd") -> Path:
    """Write an installed distribution by hand; return its folder."""
    info = folder / f"{name}_pack-1.5.dist-info"
    info.mkdir(parents=True)
    (folder / f"{name}_pack.py").write_text(module)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-pack\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(
        f"[reflector.readers]\n{name} = {name}_pack:Odd\n"
        f"[reflector.judges]\n{name}-judge = {name}_pack:judge\n"
    )
    return folder


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No extension and no project of another test is known."""
    from reflector.transcripts.readers import _load_listed

    monkeypatch.setattr(extensions, "_listed_readers", ())
    monkeypatch.setattr(extensions, "_projects", set())
    _load_listed.cache_clear()
    yield
    _load_listed.cache_clear()
    sys.modules.pop("odd_pack", None)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = install(tmp_path / "site")
    monkeypatch.syspath_prepend(folder)
    return folder


def imported(site: Path) -> bool:
    return (site / "imported").exists()


def list_names(agent: Agent, **names: str) -> None:
    for setting, value in names.items():
        agent.call("config", "set", "--global", setting, *value.split())


def odd_file(folder: Path) -> Path:
    path = folder / "odd.jsonl"
    path.write_text('{"odd": 1}\n{"odd": 2}\n')
    return path


def test_an_installed_reader_is_not_permitted(agent: Agent, site: Path, tmp_path: Path) -> None:
    ran = agent.call("ingest", odd_file(tmp_path), code=1)
    assert "is not a known transcript" in ran.err
    assert not imported(site)


def test_a_listed_reader_reads_its_files(agent: Agent, site: Path, tmp_path: Path) -> None:
    list_names(agent, readers="odd")
    assert not imported(site)
    agent.call("ingest", odd_file(tmp_path))
    (recorded,) = agent.events("session.recorded")
    assert recorded["data"]["agent"] == "odd"
    assert imported(site)


def test_an_extension_takes_no_file_of_ours(site: Path, tmp_path: Path) -> None:
    module = site / "odd_pack.py"
    module.write_text(module.read_text().replace('"odd" in record', "True"))
    extensions.open_for(tmp_path / "project", Config(readers=("odd",)))
    path = Claude().cites("pat-001").write(tmp_path / "claude.jsonl")
    assert recognise(path) is ClaudeCode
    assert not imported(site)


@pytest.mark.parametrize("setting", ["readers", "judges"])
def test_a_repository_lists_no_extension(agent: Agent, setting: str) -> None:
    (agent.claude / "reflector.toml").write_text(f'{setting} = ["odd"]\n')
    match = f"contains `{setting}`, which only your own settings may contain"
    with environ(agent.env()), pytest.raises(ConfigError, match=match):
        load_config(agent.project)


def test_a_repository_chooses_no_judge_of_another_package(agent: Agent) -> None:
    list_names(agent, judges="odd-judge")
    (agent.claude / "reflector.toml").write_text('backend = "odd-judge"\n')
    match = "a project cannot choose a judge from an extension"
    with environ(agent.env()), pytest.raises(ConfigError, match=match):
        load_config(agent.project)


@pytest.mark.parametrize("name", ["rules", "human", "git", "Odd", "a b", "", "x" * 41, "../x"])
def test_reserved_or_invalid_name_is_refused(agent: Agent, name: str) -> None:
    ran = agent.call("config", "set", "--global", "judges", name, code=None)
    assert ran.code != 0 or not name


def test_an_unlisted_judge_is_an_unknown_backend(agent: Agent, site: Path) -> None:
    ran = agent.call("config", "set", "--global", "backend", "odd-judge", code=None)
    assert f"'odd-judge'; the choices are {', '.join(BACKENDS)}" in ran.err
    assert not imported(site)


@pytest.mark.parametrize("place", ["project", "working folder"])
def test_a_distribution_below_a_project_is_skipped(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = agent.project if place == "project" else tmp_path / "work"
    site = install(folder / ".venv/site")
    monkeypatch.syspath_prepend(site)
    if place == "working folder":
        monkeypatch.chdir(folder)
    list_names(agent, readers="odd")
    ran = agent.call("ingest", odd_file(tmp_path), code=1)
    assert f"odd-pack is in {folder}" in ran.err
    assert f"odd-pack is in {folder}" in agent.call("doctor", code=1).out
    assert not imported(site)


def test_a_module_in_the_working_folder_is_skipped(
    agent: Agent, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "odd_pack.py").write_text(MODULE)
    monkeypatch.chdir(work)
    monkeypatch.syspath_prepend(work)
    list_names(agent, readers="odd")
    assert "odd-pack is in" in agent.call("ingest", odd_file(tmp_path), code=1).err
    assert not imported(work)
    assert not imported(site)


def test_doctor_lists_extensions_and_what_is_missing(agent: Agent, site: Path) -> None:
    out = agent.call("doctor", code=None).out
    assert (
        "odd (odd-pack 1.5): not loaded, because your setting `readers` does not list this" in out
    )
    assert not imported(site)
    list_names(agent, readers="odd gone")
    out = " ".join(agent.call("doctor", code=1).out.split())
    assert f"odd (odd-pack 1.5), {site}" in out
    assert "the setting readers lists 'gone', but no installed package offers it" in out


@pytest.mark.usefixtures("site")
def test_missing_judge_is_named_once(agent: Agent) -> None:
    list_names(agent, judges="gone")
    agent.environ["REFLECTOR_BACKEND"] = "gone"
    assert agent.call("doctor", code=1).out.count("judges lists 'gone'") == 1


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("raise RuntimeError('no')", "cannot be loaded: RuntimeError: no"),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
        ("Odd = 1", "is not a subclass of Conversation"),
        ("Odd.agent = 'codex'", "has the same name as the built-in reader Codex CLI"),
        ("del Odd.name", "lacks `agent` or `name`"),
    ],
)
def test_a_broken_reader_is_named_with_its_setting(
    agent: Agent, site: Path, tmp_path: Path, change: str, fault: str
) -> None:
    with (site / "odd_pack.py").open("a") as module:
        module.write(f"{change}\n")
    list_names(agent, readers="odd")
    error = agent.call("ingest", odd_file(tmp_path), code=1).err
    assert f"odd (odd-pack 1.5) in the setting readers {fault}" in error
    assert "update odd-pack, or remove 'odd' from readers" in error


@pytest.mark.parametrize(
    ("command", "code"), [("check", 0), ("history", 0), ("history --agent odd", 2)]
)
def test_a_reader_that_is_missing_is_named(agent: Agent, command: str, code: int) -> None:
    list_names(agent, readers="odd")
    (agent.project / "CLAUDE.md").write_text("# Rules\n\n- Use tabs.\n")
    error = " ".join(agent.call(*command.split(), code=code).err.split())
    assert error.count("the setting readers lists 'odd', but no installed package offers it") == 1
    assert "list the reader's name" not in error


@pytest.mark.parametrize("method", first_fast(1, ["recognises", "messages", "__init__"]))
def test_a_reader_that_fails_loses_only_its_file(
    agent: Agent, site: Path, tmp_path: Path, method: str
) -> None:
    with (site / "odd_pack.py").open("a") as module:
        module.write(f"Odd.{method} = lambda *given: 1 / 0\n")
    list_names(agent, readers="odd")
    ours = Claude().cites("pat-001").write(tmp_path / "claude.jsonl")
    ran = agent.call("ingest", odd_file(tmp_path), ours, code=1)
    assert "the reader odd, which is an extension, failed: ZeroDivisionError" in ran.err
    assert len(agent.events("session.recorded")) == 1
    agent.call("list")


def test_hooks_load_no_extension(agent: Agent, site: Path, tmp_path: Path) -> None:
    agent.environ["PYTHONPATH"] = str(site)
    list_names(agent, readers="odd", judges="odd-judge", backend="odd-judge")
    path = odd_file(tmp_path)
    agent.hook("SessionStart", session_id="odd", transcript_path=str(path))
    agent.hook("Stop", session_id="odd", transcript_path=str(path))
    agent.hook("SessionEnd", session_id="odd", transcript_path=str(path))
    assert not imported(site)


def test_distributions_are_searched_only_for_a_listed_name(
    agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(**_: str) -> None:
        raise AssertionError("distributions were searched")

    monkeypatch.setattr("importlib.metadata.entry_points", searched)
    agent.call("ingest", Claude().cites("pat-001").write(tmp_path / "claude.jsonl"))
    agent.call("ingest", odd_file(tmp_path), code=1)
    agent.call("list")
    list_names(agent, readers="odd")
    with pytest.raises(AssertionError, match="were searched"):
        agent.call("ingest", odd_file(tmp_path))


def judged(agent: Agent, tmp_path: Path) -> None:
    """Record a session that cites."""
    agent.call("ingest", Claude().cites("pat-001").write(tmp_path / "claude.jsonl"), code=None)


def test_a_listed_judge_waits_for_consent(agent: Agent, site: Path, tmp_path: Path) -> None:
    list_names(agent, judges="odd-judge", backend="odd-judge")
    judged(agent, tmp_path)
    (failure,) = agent.events("reflection.failed")
    assert failure["data"]["stage"] == "access"
    assert "run: reflector judge allow odd-judge" in failure["data"]["message"]
    assert not imported(site)


def test_an_allowed_judge_signs_its_answers(agent: Agent, site: Path, tmp_path: Path) -> None:
    list_names(agent, judges="odd-judge")
    assert "add --yes" in agent.call("judge", "allow", "odd-judge", code=2).err
    agent.call("judge", "allow", "odd-judge", "--yes")
    judged(agent, tmp_path)
    (answered,) = agent.events("reflection.answered")
    assert answered["data"]["backend"] == "odd-judge"
    assert answered["meta"]["extension"] == {
        "name": "odd-judge",
        "distribution": "odd-pack",
        "version": "1.5",
    }
    assert imported(site)


def test_another_distribution_needs_a_new_consent(agent: Agent, site: Path, tmp_path: Path) -> None:
    list_names(agent, judges="odd-judge")
    agent.call("judge", "allow", "odd-judge", "--yes")
    metadata = site / "odd_pack-1.5.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("odd-pack", "other-pack"))
    judged(agent, tmp_path)
    (failure,) = agent.events("reflection.failed")
    assert "you have not allowed odd-judge (other-pack 1.5) to judge" in failure["data"]["message"]


@pytest.mark.usefixtures("site")
def test_a_withdrawal_takes_back_the_consent(agent: Agent, tmp_path: Path) -> None:
    list_names(agent, judges="odd-judge")
    agent.call("judge", "allow", "odd-judge", "--yes")
    agent.call("judge", "forbid")
    with environ(agent.env()):
        assert load_config(agent.project).backend == "rules"
    list_names(agent, backend="odd-judge")
    judged(agent, tmp_path)
    assert agent.events("reflection.answered") == []


@pytest.mark.usefixtures("site")
def test_monthly_budget_holds_for_a_judge(agent: Agent, tmp_path: Path) -> None:
    list_names(agent, judges="odd-judge", monthly_tokens="1")
    agent.call("judge", "allow", "odd-judge", "--yes")
    judged(agent, tmp_path)
    assert agent.events("reflection.answered") == []
    (skipped,) = agent.events("reflection.skipped")
    assert "setting monthly_tokens" in skipped["data"]["reason"]


def test_daily_budget_holds_for_a_judge(tmp_path: Path) -> None:
    config = Config(backend="odd-judge", judges=("odd-judge",), daily_requests=1)
    gate = Gate(config, tmp_path)
    assert gate.left_of_day(one_more=True) is None
    assert "setting daily_requests" in str(gate.left_of_day())


@pytest.mark.parametrize(
    ("change", "stage"),
    first_fast(
        1,
        [
            ("raise RuntimeError('no')", "access"),
            ("judge = 1", "access"),
            ("judge = lambda model, deadline: None", "access"),
            ("Judge.send = lambda self, texts: 1 / 0", "answer"),
            ("async def send(self, texts): return 'helpful'\nJudge.send = send", "answer"),
            (
                "async def send(self, texts): return Reply('{}', 'm', 'end_turn', Usage(-9, 0))\n"
                "Judge.send = send",
                "answer",
            ),
        ],
    ),
)
def test_a_broken_judge_is_a_failure(
    agent: Agent, site: Path, tmp_path: Path, change: str, stage: str
) -> None:
    list_names(agent, judges="odd-judge")
    agent.call("judge", "allow", "odd-judge", "--yes")
    with (site / "odd_pack.py").open("a") as module:
        module.write(f"{change}\n")
    judged(agent, tmp_path)
    (failure,) = agent.events("reflection.failed")
    assert failure["data"]["stage"] == stage
    agent.call("list")
    agent.call("status", code=1)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("raise RuntimeError('no')", "cannot be loaded: RuntimeError: no"),
        ("judge = 1", "is not a function"),
    ],
)
def test_doctor_reports_a_broken_judge(agent: Agent, site: Path, change: str, fault: str) -> None:
    list_names(agent, judges="odd-judge")
    agent.call("judge", "allow", "odd-judge", "--yes")
    with (site / "odd_pack.py").open("a") as module:
        module.write(f"{change}\n")
    agent.environ["REFLECTOR_BACKEND"] = "odd-judge"
    out = " ".join(agent.call("doctor", code=1).out.split())
    assert out.count(fault) == 1
    assert "that you allowed to judge" not in out


def test_a_ledger_needs_no_extension(
    agent: Agent, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_names(agent, judges="odd-judge")
    agent.call("judge", "allow", "odd-judge", "--yes")
    judged(agent, tmp_path)
    exported = agent.call("export", "--format", "ndjson").out
    monkeypatch.syspath_prepend("/nowhere")
    sys.path.remove(str(site))
    sys.modules.pop("odd_pack", None)
    list_names(agent, backend="rules")
    for command in (["verify"], ["rebuild", "--check"], ["blame", "pat-001"], ["list"]):
        agent.call(*command)
    other = Agent.bare(tmp_path / "other")
    (tmp_path / "events.ndjson").write_text(exported)
    other.call("import", tmp_path / "events.ndjson")
    other.call("verify")
    assert len(other.events("reflection.answered")) == 1


def test_a_kept_folder_follows_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept("ODD_HOME", ".odd", "projects")
    assert kept.folder == tmp_path / "home/.odd/projects"
    monkeypatch.setenv("ODD_HOME", str(tmp_path / "odd"))
    assert kept.folder == tmp_path / "odd/projects"


def test_an_unknown_file_is_refused_without_extensions(tmp_path: Path) -> None:
    with pytest.raises(UnknownTranscript, match="is not a known transcript"):
        scan(odd_file(tmp_path))


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed as its page says, without a network."""
    folder = tmp_path_factory.mktemp("example")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder)]
    subprocess.run([*pip, *offline, str(EXAMPLE)], check=True, capture_output=True)
    return folder


def heron_session(folder: Path, cwd: Path) -> Path:
    """A session of Heron in which a person praises an applied bullet."""
    parts = [
        ("user", "Fix the cart."),
        ("assistant", "As [pat-001] says, I test first."),
        ("user", "Perfect, that works. Thanks!"),
    ]
    records = [
        {
            "uuid": f"0a1b2c3d-0000-4000-8000-{number:012d}",
            "sessionId": "5b1f6b1e-0000-4000-8000-000000000001",
            "timestamp": f"2026-11-20T10:00:0{number}.000Z",
            "type": kind,
            "cwd": str(cwd),
            "message": {"parts": [{"text": text}]},
        }
        for number, (kind, text) in enumerate(parts)
    ]
    folder.mkdir(parents=True)
    path = folder / "session.jsonl"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


@pytest.mark.slow
def test_the_example_is_found_read_and_judges(agent: Agent, example: Path) -> None:
    """The real program, in a process of its own, with an agent that has no hooks."""
    agent.environ["PYTHONPATH"] = str(example)
    run = partial(agent.run, program=[sys.executable, "-P", "-m", "reflector"])
    heron_session(agent.home / ".heron/projects/shop", agent.project)
    list_names(agent, readers="heron", judges="praise")
    run("judge", "allow", "praise", "--yes")
    (agent.project / "CLAUDE.md").write_text("- Always test first.\n")
    assert "1 session since 20 Nov." in run("check", "--dry-run").out
    run("history", "--yes")
    run("reflect")
    (answered,) = agent.events("reflection.answered")
    assert answered["meta"]["extension"]["distribution"] == "reflector-heron"
    assert "Perfect, that works" in run("blame", "pat-001").out


def test_answer_survives_a_package_removed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []

    class Judge(Client):
        async def send(self, texts: Sequence[str]) -> Reply:
            removed.append("praise")
            return Reply(texts[0], "m", "end_turn", Usage())

    def agreed(name: str) -> extensions.Extension:
        if removed:
            raise extensions.ExtensionError(f"{name} is gone; install it again")
        return extensions.Extension(
            "judges", name, "pkg", "1.0", "/", "", EntryPoint(name, "m", "judges")
        )

    monkeypatch.setattr("reflector.judges.extensions.agreed_extension", agreed)
    monkeypatch.setattr(extensions, "load_extension", lambda _: lambda *_: Judge())
    judge = extension_kind("praise").build(Config(judges=("praise",)), None)
    assert isinstance(judge, ModelBackend)
    assert judge.complete("yes").meta["extension"]["version"] == "1.0"  # type: ignore[index]
    with pytest.raises(BackendError, match="praise is gone; install it again"):
        judge.complete("no")
