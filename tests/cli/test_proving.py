"""Heads are published, in a file or in git, and prove later that nothing before them was
changed.
"""

from pathlib import Path

import pytest

from reflector.ledger.store import Ledger
from tests.building import commit, git
from tests.ledger import sql
from tests.ledger.events import moved
from tests.road.agent import Agent, Ran
from tests.road.sessions import Session


@pytest.fixture
def lived(agent: Agent) -> Agent:
    agent.counted(id="s-0")
    return agent


@pytest.fixture
def in_git(lived: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project under version control whose heads were committed and tagged, and are gone from
    the folder.
    """
    project = lived.project
    (project / "docs").mkdir()
    for path, form in ((".claude/playbook.head.json", ["--json"]), ("docs/published.txt", [])):
        (project / path).write_text(lived.call("ledger", "head", *form).out)
    commit(project, ".")
    git(project, "tag", "-a", "v1.2", "-m", "1.2")
    for path in (".claude/playbook.head.json", "docs/published.txt"):
        (project / path).unlink()
    monkeypatch.chdir(project)
    return lived


def verify(agent: Agent, anchor: str | Path, code: int = 0) -> Ran:
    return agent.call("--project", agent.project, "verify", f"--anchor={anchor}", code=code)


def began_anew(agent: Agent) -> None:
    for path in agent.state.glob("ledger.db*"):
        path.unlink()
    agent.loses_its_copy()
    agent.counted(id="other")


@pytest.mark.slow
def test_head_in_git_proves_the_history(in_git: Agent) -> None:
    refs = ["v1.2", "main", "HEAD", "HEAD:.claude/playbook.head.json"]
    refs += ["v1.2:docs/published.txt", "main:./docs/published.txt"]
    in_git.counted("pat-002")
    for ref in refs:
        verify(in_git, ref)
    began_anew(in_git)
    for ref in refs:
        assert "[anchor]" in verify(in_git, ref, code=1).out, ref


@pytest.mark.slow
def test_unknown_ref_is_named_and_never_executed(
    in_git: Agent,
) -> None:
    (in_git.project / "large.txt").write_text("#\n" * 2**23)
    commit(in_git.project, "large.txt")
    for ref, told in (
        *dict.fromkeys(
            ("v9.9", "v9.9:x", "docs", "v1.2:gone.txt", "v1.2:docs", "", "a\nb", ":docs/gone"),
            "or a file in git. Name a file in git as REV:PATH",
        ).items(),
        ("v1.2:.claude/playbook.json", "--anchor"),
        ("HEAD:large.txt", "bytes, but a file of heads has at most"),
        *dict.fromkeys(
            ("--help", "--upload-pack=touch pwned", "--output=pwned:x", "HEAD;touch pwned"),
            "--anchor",
        ).items(),
    ):
        assert told in verify(in_git, ref, code=2).err, ref
    assert list(in_git.project.rglob("pwned*")) == []
    git(in_git.project, "rm", "-q", "--cached", ".claude/playbook.head.json")
    commit(in_git.project)
    assert "that contains one of .claude/playbook.head.json" in verify(in_git, "main", code=2).err


def test_project_below_the_repository_finds_its_heads(in_git: Agent, tmp_path: Path) -> None:
    below = Agent(in_git.project / "below", in_git.home)
    below.claude.mkdir(parents=True)
    below.write_playbook({})
    below.call(
        "--project",
        below.project,
        "ingest",
        Session("b").cites("pat-001").write(tmp_path / "b.jsonl"),
    )
    (below.claude / "playbook.head").write_text(
        below.call("--project", below.project, "ledger", "head").out
    )
    commit(below.project, ".claude/playbook.head")
    verify(below, "main")


def test_replaced_commit_is_not_the_published_one(in_git: Agent) -> None:
    git(in_git.project, "tag", "published", "main")
    began_anew(in_git)
    (in_git.claude / "playbook.head.json").write_text(in_git.call("ledger", "head", "--json").out)
    commit(in_git.project, ".claude/playbook.head.json")
    git(in_git.project, "replace", "published", "main")
    assert "[anchor]" in verify(in_git, "published", code=1).out


@pytest.mark.slow
def test_every_head_of_a_file_is_proved(lived: Agent) -> None:
    file = lived.project / "heads.txt"
    lines = []
    for number in range(3):
        lived.counted(id=f"s-{number}")
        lines.append(lived.call("ledger", "head").out)
    file.write_text(f"# weekly\n\n{''.join(lines)}")
    heads = [line.strip() for line in lines]
    for anchor in (file, *heads):
        assert verify(lived, anchor).out == ""
    position, chain = heads[0].split(":", 1)
    assert lived.call("ledger", "head", "--as-of", position).out == lines[0]
    assert lived.json("verify", "--anchor", heads[0])["anchors"] == [
        {"position": int(position), "chain": chain}
    ]
    signed = (
        "example.com/demo\n13\n6zB3v6IU=\nhash-chain pl1\n\n\N{EM DASH} example.com/demo nUGHoiBH\n"
    )
    for text, told in (
        *(
            (text, "--anchor")
            for text in ("", "# nothing\n", "hello", "3:pl1:abc", "{}", "{", "\0")
        ),
        (f"{lines[0]}and more\n", "'and more'"),
        (signed, "the file is a signed note, a form that reflector no longer reads"),
        (
            f"{lines[0]}\N{EM DASH} x y\n",
            "the file is a signed note, a form that reflector no longer reads",
        ),
    ):
        (lived.project / "bad.txt").write_text(text, "utf-8")
        assert told in verify(lived, lived.project / "bad.txt", code=2).err
    began_anew(lived)
    assert verify(lived, file, code=1).out.count("[anchor]") == 3


def test_broken_file_is_reported_with_a_remedy(lived: Agent) -> None:
    raw = lived.ledger.read_bytes()
    header, schema = (
        b"no ledger at all" + raw[16:],
        raw.replace(b"CREATE TABLE event", b"CREATE TABLE \xff\xfe\xfdnt"),
    )
    for damaged in (header, schema, raw[:5000], raw[:100] + bytes(4000) + raw[4100:]):
        lived.ledger.write_bytes(damaged)
        found = lived.json("verify", code=1)["findings"]
        assert found
        assert all(
            finding["message"] and "restore a backup" in finding["remedy"] for finding in found
        )


def test_rebuild_fix_opens_a_forged_ledger_again(agent: Agent) -> None:
    agent.call("add", "pat", "Read the log first.")
    with Ledger.open_file(agent.ledger) as ledger:
        ledger.append([moved("sqlite:///nowhere")])
        ahead = (
            "UPDATE projection SET code_version = 99 WHERE name = 'tables'",
            "UPDATE projection SET position = 99",
        )
        sql.run(ledger, *ahead)
        end = ledger.head().position
    assert "a newer reflector wrote the tables" in agent.call("list", code=1).err
    for words in (["--why", "x"], ["--fix", "--why", " "]):
        agent.call("rebuild", *words, code=2)
    told = agent.call(
        "rebuild",
        "--fix",
        "--why",
        "Eve appended it, api_key=sk-ant-api03-abcdefghijklmnopqrstuvwx",
    )
    assert f"the ledger.moved at position {end} no longer has an effect" in told.err
    agent.call("add", "pat", "It goes on.")
    assert "Eve appended it" in (log := agent.call("log").out)
    assert "abcdefgh" not in log
    assert agent.call("verify").out == ""
