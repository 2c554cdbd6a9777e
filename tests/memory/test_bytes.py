"""The kept versions of watched files."""

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from reflector.attribution.steps import content_of, plain_digest
from reflector.memory import bytes as kept_bytes
from reflector.memory.bytes import Versions, keep_versions, versions_folder
from reflector.memory.digests import digest_in_ledger
from reflector.project import Project
from tests.road.agent import Agent, environ


@pytest.fixture
def project(agent: Agent) -> Project:
    with environ(agent.env()):
        yield Project.at(agent.project)


def _kept(project: Project, content: bytes) -> str:
    keep_versions(project, [content_of(content)])
    digest = plain_digest(content)
    assert Versions(project).has(digest)
    return digest


def _limited(project: Project, megabytes: int) -> Project:
    return replace(project, config=replace(project.config, memory_keep=megabytes))


@pytest.mark.parametrize("is_tracked", [True, False])
def test_version_is_read_by_its_ledger_digest(project: Project, is_tracked: bool) -> None:
    content = b"\xff no text\r\n\0"
    digest = digest_in_ledger(project, _kept(project, content), is_tracked=is_tracked)
    assert Versions(project).read(digest) == content


def test_only_the_owner_may_read_versions(project: Project) -> None:
    digest = _kept(project, b"mine")
    folder = versions_folder(project)
    assert (folder.stat().st_mode & 0o777, (folder / digest).stat().st_mode & 0o777) == (
        0o700,
        0o600,
    )


def test_damaged_version_is_not_returned(project: Project) -> None:
    digest = _kept(project, b"mine")
    (versions_folder(project) / digest).write_bytes(b"else")
    assert Versions(project).read(digest) is None


def test_oldest_versions_go_first(project: Project) -> None:
    small = _limited(project, 1)
    digests = [_kept(project, bytes([number]) * 400_000) for number in range(2)]
    for age, digest in enumerate(digests):
        os.utime(versions_folder(project) / digest, (1_000 + age, 1_000 + age))
    newest = _kept(small, b"n" * 400_000)
    versions = Versions(project)
    assert [versions.has(digest) for digest in (*digests, newest)] == [False, True, True]


def test_limit_counts_all_projects(project: Project, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Project.at(tmp_path / "other")
    digest = _kept(other, b"o" * 900_000)
    os.utime(versions_folder(other) / digest, (1_000, 1_000))
    _kept(_limited(project, 1), b"n" * 900_000)
    assert not Versions(other).has(digest)


def test_full_disk_keeps_no_version(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(kept_bytes, "write_durably", full)
    keep_versions(project, [content_of(b"x")])
    assert not Versions(project).has(plain_digest(b"x"))


def test_no_version_is_kept_without_room(project: Project) -> None:
    keep_versions(_limited(project, 0), [content_of(b"x")])
    assert not Versions(project).has(plain_digest(b"x"))
