"""Heads are published in git, and prove the ledger from there."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture
def lived(agent: Agent) -> Agent:
    agent.counted(id="s-0")
    return agent


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def in_git(lived: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project under version control whose heads were committed and tagged, and are gone from the folder."""
    project = lived.project
    git(project, "init", "-q", "-b", "main")
    (lived.claude / "playbook.head.json").write_text(lived.call("ledger", "head", "--json").out)
    (project / "docs").mkdir()
    (project / "docs" / "published.txt").write_text(lived.call("ledger", "head").out)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Published the head")
    git(project, "tag", "-a", "v1.2", "-m", "1.2")
    (lived.claude / "playbook.head.json").unlink()
    (project / "docs" / "published.txt").unlink()
    monkeypatch.chdir(project)
    return lived


def began_anew(agent: Agent) -> None:
    for path in agent.state.glob("ledger.db*"):
        path.unlink()
    agent.counted(id="other")


def test_a_head_is_taken_from_git_and_proves_the_history(in_git: Agent) -> None:
    refs = ["v1.2", "main", "HEAD", "HEAD:.claude/playbook.head.json"]
    refs += ["v1.2:docs/published.txt", "main:./docs/published.txt"]
    in_git.counted("pat-002")
    for ref in refs:
        in_git.call("--project", in_git.project, "verify", "--anchor", ref)
    began_anew(in_git)
    for ref in refs:
        assert "[anchor]" in in_git.call("--project", in_git.project, "verify", "--anchor", ref, code=1).out, ref


def test_a_ref_that_is_not_there_is_named_with_the_way_out(in_git: Agent) -> None:
    for ref, told in (
        ("v9.9", "a branch, tag or commit here"),
        ("v9.9:x", "a branch, tag or commit here"),
        ("v1.2:gone.txt", "'gone.txt' is not in 'v1.2'"),
        ("v1.2:docs", "a folder"),
        ("docs", "a branch, tag or commit here"),
        ("v1.2:.claude/playbook.json", "--anchor"),
        ("", "no branch, tag or commit"),
        ("a\nb", "no branch, tag or commit"),
        (":docs/gone", "not in the index"),
    ):
        assert told in in_git.call("--project", in_git.project, "verify", "--anchor", ref, code=2).err, ref


def test_no_ref_becomes_an_option_or_a_command(in_git: Agent) -> None:
    for ref in ("--help", "-v", "--upload-pack=touch pwned", "--output=pwned:x", "HEAD;touch pwned", "$(x)"):
        told = in_git.call("--project", in_git.project, "verify", f"--anchor={ref}", code=2).err
        assert "--anchor" in told, ref
        assert list(in_git.project.rglob("pwned*")) == [], ref


def test_a_ref_without_published_heads_says_where_they_are_looked_for(in_git: Agent) -> None:
    git(in_git.project, "rm", "-q", "--cached", ".claude/playbook.head.json")
    git(in_git.project, "commit", "-q", "-m", "Took it away")
    told = in_git.call("--project", in_git.project, "verify", "--anchor", "main", code=2).err
    assert ".claude/playbook.head.json" in told
    assert "main:PATH" in told


def test_a_project_below_the_top_of_its_repository_finds_its_own_heads(in_git: Agent, tmp_path: Path) -> None:
    below = Agent(in_git.project / "below", in_git.home)
    below.claude.mkdir(parents=True)
    below.write_playbook({})
    below.call("--project", below.project, "ingest", Session("b").cites("pat-001").write(tmp_path / "b.jsonl"))
    (below.claude / "playbook.head").write_text(below.call("--project", below.project, "ledger", "head").out)
    git(below.project, "add", "-f", ".claude/playbook.head")
    git(below.project, "commit", "-q", "-m", "Published the other head")
    below.call("--project", below.project, "verify", "--anchor", "main")


def test_a_replaced_commit_is_not_taken_for_the_published_one(in_git: Agent) -> None:
    published = git(in_git.project, "rev-parse", "main").strip()
    began_anew(in_git)
    (in_git.claude / "playbook.head.json").write_text(in_git.call("ledger", "head", "--json").out)
    git(in_git.project, "add", "-A")
    git(in_git.project, "commit", "-q", "-m", "Another history")
    git(in_git.project, "replace", published, "main")
    assert "[anchor]" in in_git.call("--project", in_git.project, "verify", "--anchor", published, code=1).out


def test_outside_git_and_without_git_the_error_says_so(lived: Agent, tmp_path: Path) -> None:
    assert "in no git repository" in lived.call("verify", "--anchor", "v1.2", code=2).err
    lived.environ["PATH"] = str(tmp_path)
    assert "not installed" in lived.call("verify", "--anchor", "v1.2", code=2).err


def test_a_blob_that_is_too_large_is_not_read(in_git: Agent) -> None:
    (in_git.project / "large.txt").write_text("#\n" * 2**23)
    git(in_git.project, "add", "large.txt")
    git(in_git.project, "commit", "-q", "-m", "Large")
    assert (
        "bytes, more than"
        in in_git.call("--project", in_git.project, "verify", "--anchor", "HEAD:large.txt", code=2).err
    )


def test_an_old_signed_note_is_named_as_one(lived: Agent, tmp_path: Path) -> None:
    head = lived.call("ledger", "head").out
    note = tmp_path / "note.txt"
    note.write_text(
        "example.com/demo\n13\n6zB3v6IU=\nhash-chain pl1\n\n\N{EM DASH} example.com/demo nUGHoiBH\n", "utf-8"
    )
    assert "a signed note of an earlier version" in lived.call("verify", "--anchor", note, code=2).err
    note.write_text(f"{head}\N{EM DASH} x y\n", "utf-8")
    assert "a signed note of an earlier version" in lived.call("verify", "--since", note, code=2).err


def test_a_head_of_then_is_that_of_now(lived: Agent) -> None:
    first = lived.call("ledger", "head").out
    lived.counted("pat-002")
    assert lived.call("ledger", "head", "--as-of", first.split(":")[0]).out == first != lived.call("ledger", "head").out
    found = lived.json("verify", "--anchor", first)["anchors"]
    position, chain = first.strip().split(":", 1)
    assert found == [{"position": int(position), "chain": chain}]


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"no ledger at all" + raw[16:],
        lambda raw: raw[:5000],
        lambda raw: raw[:100] + bytes(4000) + raw[4100:],
        lambda raw: raw.replace(b"CREATE TABLE event", b"CREATE TABLE \xff\xfe\xfdnt"),
        lambda raw: raw[:8192] + b"".join(bytes(8192) for _ in range(len(raw) // 8192 - 1)),
    ],
    ids=["header", "cut", "first page", "schema", "all pages but the first"],
)
def test_a_broken_file_is_told_in_findings_with_what_to_do(lived: Agent, damage: Callable[[bytes], bytes]) -> None:
    lived.ledger.write_bytes(damage(lived.ledger.read_bytes()))
    found = lived.json("verify", code=1)
    assert found["findings"]
    assert all(finding["message"] and "restore a backup" in finding["remedy"] for finding in found["findings"])
    told = lived.call("verify", code=1)
    assert "restore a backup" in told.out
    assert "Traceback" not in told.err


def test_a_ledger_of_a_revision_that_never_was_is_a_finding(lived: Agent) -> None:
    with sqlite3.connect(lived.ledger) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    connection.close()
    (finding,) = lived.json("verify", code=1)["findings"]
    assert "never had" in finding["message"]
