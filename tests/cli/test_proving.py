"""Heads are signed, published in git, and prove the ledger from there."""

from __future__ import annotations

import re
import shlex
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.road.agent import Agent
from tests.road.sessions import Session


@pytest.fixture
def lived(agent: Agent, tmp_path: Path) -> Agent:
    agent.call("ingest", Session("s-0").cites("pat-001").write(tmp_path / "0.jsonl"))
    return agent


@pytest.fixture
def key(lived: Agent, tmp_path: Path) -> tuple[Path, str]:
    """(file of the private key, public key)."""
    file = tmp_path / "signing.key"
    return file, lived.call("keygen", file, "--name", "example.com/p").out.strip()


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def in_git(lived: Agent, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """A project under version control whose heads were committed and tagged, and are gone from the folder."""
    project = lived.project
    git(project, "init", "-q", "-b", "main")
    (lived.claude / "playbook.head.json").write_text(lived.call("head", "--json").out)
    (project / "docs").mkdir()
    (project / "docs" / "published.txt").write_text(lived.call("head").out)
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "Published the head")
    git(project, "tag", "-a", "v1.2", "-m", "1.2")
    (lived.claude / "playbook.head.json").unlink()
    (project / "docs" / "published.txt").unlink()
    monkeypatch.chdir(project)
    return lived


def began_anew(agent: Agent, folder: Path) -> None:
    for path in agent.state.glob("ledger.db*"):
        path.unlink()
    agent.call("ingest", Session("other").cites("pat-001").write(folder / "other.jsonl"))


def test_a_head_is_taken_from_git_and_proves_the_history(in_git: Agent, tmp_path: Path) -> None:
    refs = ["v1.2", "main", "HEAD", "HEAD:.claude/playbook.head.json"]
    refs += ["v1.2:docs/published.txt", "main:./docs/published.txt"]
    in_git.call("ingest", Session("s-1").cites("pat-002").write(tmp_path / "1.jsonl"))
    for ref in refs:
        in_git.call("--project", in_git.project, "verify", "--anchor", ref)
    began_anew(in_git, tmp_path)
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
    (below.claude / "playbook.head").write_text(below.call("--project", below.project, "head").out)
    git(below.project, "add", "-f", ".claude/playbook.head")
    git(below.project, "commit", "-q", "-m", "Published the other head")
    below.call("--project", below.project, "verify", "--anchor", "main")


def test_a_replaced_commit_is_not_taken_for_the_published_one(in_git: Agent, tmp_path: Path) -> None:
    published = git(in_git.project, "rev-parse", "main").strip()
    began_anew(in_git, tmp_path)
    (in_git.claude / "playbook.head.json").write_text(in_git.call("head", "--json").out)
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


def test_a_signed_head_proves_the_ledger_and_who_signed_it(lived: Agent, key: tuple[Path, str], tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text(lived.call("head", "--sign", key[0]).out, "utf-8")
    position, chain = lived.call("head").out.strip().split(":", 1)
    lived.call("ingest", Session("s-1").cites("pat-002").write(tmp_path / "1.jsonl"))
    for public in (key[1], str(tmp_path / "public.txt")):
        (tmp_path / "public.txt").write_text(f"{key[1]}\n")
        assert lived.call("verify", "--anchor", note, "--key", public).out == ""
    found = lived.json("verify", "--anchor", note, "--key", key[1])["anchors"]
    assert found == [{"position": int(position), "chain": chain, "signed_by": ["example.com/p"]}]
    began_anew(lived, tmp_path)
    assert "[anchor]" in lived.call("verify", "--anchor", note, "--key", key[1], code=1).out


def test_a_note_of_two_keys_is_taken_from_either_and_a_tampered_one_from_none(
    lived: Agent, key: tuple[Path, str], tmp_path: Path
) -> None:
    other = tmp_path / "other.key"
    public = lived.call("keygen", other, "--name", "witness.example").out.strip()
    stranger = lived.call("keygen", tmp_path / "third.key", "--name", "stranger.example").out.strip()
    note = tmp_path / "note.txt"
    note.write_text(lived.call("head", "--sign", key[0], "--sign", other).out, "utf-8")
    for keys in (["--key", key[1]], ["--key", public], ["--key", key[1], "--key", public]):
        lived.call("verify", "--anchor", note, *keys)
    assert "none of the keys" in lived.call("verify", "--anchor", note, "--key", stranger, code=2).err
    text = note.read_text("utf-8").split("\n")
    note.write_text("\n".join([text[0], str(int(text[1]) - 1), *text[2:]]), "utf-8")
    for one in (key[1], public):
        assert "does not fit" in lived.call("verify", "--anchor", note, "--key", one, code=2).err


def test_a_note_in_json_or_in_git_is_taken_with_its_key_only(
    in_git: Agent, key: tuple[Path, str], tmp_path: Path
) -> None:
    (tmp_path / "head.json").write_text(in_git.call("head", "--json", "--sign", key[0]).out, "utf-8")
    in_git.call("verify", "--anchor", tmp_path / "head.json", "--key", key[1])
    (tmp_path / "plain.json").write_text(in_git.call("head", "--json").out)
    assert (
        "not a signed note" in in_git.call("verify", "--anchor", tmp_path / "plain.json", "--key", key[1], code=2).err
    )
    (in_git.claude / "playbook.note").write_text(in_git.call("head", "--sign", key[0]).out, "utf-8")
    git(in_git.project, "add", "-A")
    git(in_git.project, "commit", "-q", "-m", "Signed")
    in_git.call("--project", in_git.project, "verify", "--anchor", "main", "--key", key[1])
    (tmp_path / "note.txt").write_text(in_git.call("head", "--sign", key[0]).out, "utf-8")
    assert "add --key" in in_git.call("verify", "--anchor", tmp_path / "note.txt", code=2).err


def test_a_private_key_is_its_owners_and_is_never_overwritten(lived: Agent, key: tuple[Path, str]) -> None:
    file, public = key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()
    assert "never overwritten" in lived.call("keygen", file, "--name", "example.com/p", code=2).err
    assert file.read_bytes() == before
    file.chmod(0o644)
    assert "chmod 600" in lived.call("head", "--sign", file, code=2).err
    file.chmod(0o600)
    file.write_text(public)
    told = lived.call("head", "--sign", file, code=2).err
    assert "not a private key" in told
    assert "permitted" not in told


@pytest.mark.parametrize("place", ["--key", "--sign", "--anchor"])
def test_a_private_key_that_is_given_in_the_place_of_another_thing_is_not_shown(
    lived: Agent, key: tuple[Path, str], place: str
) -> None:
    private = key[0].read_text().strip()
    seed = private.rpartition("+")[2]
    call = {
        "--key": ["verify", "--anchor", lived.call("head").out.split()[-1], "--key", private],
        "--sign": ["head", "--sign", private],
        "--anchor": ["verify", "--anchor", private],
    }[place]
    ran = lived.call(*call, code=None)
    assert ran.code != 0
    assert "[redacted:private-key]" in ran.err
    assert not any(seed[start : start + 12] in ran.out + ran.err for start in range(len(seed) - 11))


def test_a_key_without_an_anchor_and_an_anchor_without_a_note_are_usage_errors(
    lived: Agent, key: tuple[Path, str]
) -> None:
    assert "--anchor" in lived.call("verify", "--key", key[1], code=2).err
    assert "not a signed note" in lived.call("verify", "--anchor", lived.call("head").out, "--key", key[1], code=2).err
    assert "--key" in lived.call("verify", "--anchor", "x", "--key", "nonsense", code=2).err
    assert "--key" in lived.call("verify", "--anchor", "x", "--key", "a+b+c", code=2).err


def test_a_head_of_then_is_signed_as_that_of_now(lived: Agent, key: tuple[Path, str], tmp_path: Path) -> None:
    first = lived.call("head", "--sign", key[0]).out
    position = lived.call("head").out.split(":")[0]
    lived.call("ingest", Session("s-1").cites("pat-002").write(tmp_path / "1.jsonl"))
    assert (
        lived.call("head", "--sign", key[0], "--as-of", position).out
        == first
        != lived.call("head", "--sign", key[0]).out
    )


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


PAGE = (Path(__file__).parents[2] / "docs" / "proving.md").read_text("utf-8")
RANDOM = re.compile(r"[0-9a-f]{8}\+[A-Za-z0-9+/]{44}")


def test_every_example_of_the_page_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = Agent(tmp_path / "demo", tmp_path / "home")
    demo.home.mkdir()
    demo.call("demo", "--keep", demo.project)
    monkeypatch.chdir(demo.project)
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    parts = [part for block in blocks for part in re.split(r"^\$ reflector ", block, flags=re.MULTILINE)[1:]]
    key = ""
    for part in parts:
        command, _, told = part.partition("\n")
        arguments, _, file = command.partition(" > ")
        ran = demo.call(*shlex.split(RANDOM.sub(key, arguments)))
        if file:
            Path(file).write_text(ran.out, "utf-8")
            continue
        assert RANDOM.sub("KEY", ran.out) == RANDOM.sub("KEY", told), command
        key = key or RANDOM.findall(ran.out)[0]
    assert len(parts) == 6
    (shape,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert [line[:13] for line in shape.splitlines() if "=" not in line] == [
        line[:13] for line in Path("note.txt").read_text("utf-8").splitlines() if not line.endswith("=") or " " in line
    ]
