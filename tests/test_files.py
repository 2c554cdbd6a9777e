"""Files that a person named, and folders that a repository brought."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reflector.files import append_named, read_brought, read_folder, write_named


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is the working folder, beside a folder of the person's."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "profile").write_text("mine")
    folder = tmp_path / "clone"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond a size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.parametrize("write", [write_named, append_named])
@pytest.mark.parametrize("absolute", [False, True])
def test_named_file_follows_no_link(clone: Path, write: object, absolute: bool) -> None:
    (clone / "report.html").symlink_to("../home/profile")
    with pytest.raises(OSError, match=r"report\.html"):
        write((clone if absolute else Path()) / "report.html", b"theirs")  # type: ignore[operator]
    assert (clone.parent / "home" / "profile").read_text() == "mine"


@pytest.mark.parametrize("name", ["out/report.html", "out/new/report.html"])
def test_named_file_follows_no_linked_folder(clone: Path, name: str) -> None:
    (clone / "out").symlink_to("../home")
    for path in (Path(name), clone / name):
        with pytest.raises(OSError, match=r"is a symbolic link.*/out'"):
            write_named(path, b"theirs")
    assert [path.name for path in (clone.parent / "home").iterdir()] == ["profile"]


def test_named_file_outside_a_repository_follows_links(clone: Path) -> None:
    (clone.parent / "desk").symlink_to("home")
    write_named(clone.parent / "desk" / "report.html", b"page")
    assert (clone.parent / "home" / "report.html").read_bytes() == b"page"


def test_named_file_makes_folders_and_keeps_its_mode(clone: Path) -> None:
    path = clone / "out" / "new" / "report.html"
    mask = os.umask(0o027)
    try:
        write_named(path, b"one")
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(mask)
    path.chmod(0o600)
    write_named(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o600)


def test_named_file_is_whole_on_a_full_disk(clone: Path) -> None:
    write_named(Path("report.html"), b"whole")
    with full_disk(1000), pytest.raises(OSError, match="report"):
        write_named(Path("report.html"), b"x" * 5000)
    assert (clone / "report.html").read_bytes() == b"whole"
    assert {path.name for path in clone.iterdir()} == {".git", "report.html"}


def test_folder_is_read_with_its_modes(clone: Path) -> None:
    (clone / "files" / "sub").mkdir(parents=True)
    (clone / "files" / "run.sh").write_text("true")
    (clone / "files" / "run.sh").chmod(0o755)
    (clone / "files" / "sub" / "a").write_text("x")
    found = [
        (one.path, one.content, one.mode & 0o111) for one in read_folder(Path("files"), 10, 100)
    ]
    assert found == [("run.sh", b"true", 0o111), ("sub", None, 0o111), ("sub/a", b"x", 0)]
    assert read_folder(Path("missing"), 10, 100) == []


def test_folder_with_a_link_or_pipe_is_refused(clone: Path) -> None:
    files = clone / "files" / "sub"
    files.mkdir(parents=True)
    (files / "root").symlink_to("/")
    with pytest.raises(OSError, match="files/sub/root"):
        read_folder(Path("files"), 10, 100)
    (files / "root").unlink()
    os.mkfifo(files / "pipe")
    with pytest.raises(OSError, match="files/sub/pipe"):
        read_folder(Path("files"), 10, 100)


def test_folder_and_file_are_bounded(clone: Path) -> None:
    (clone / "files").mkdir()
    for number in range(3):
        (clone / "files" / str(number)).write_text("12345")
    assert len(read_folder(Path("files"), 3, 15)) == 3
    for most_files, most_bytes in ((2, 15), (3, 14)):
        with pytest.raises(
            OSError, match=f"has more than ({most_files} files|{most_bytes} bytes).*'files'"
        ):
            read_folder(Path("files"), most_files, most_bytes)
    with pytest.raises(OSError, match="has more than 4 bytes"):
        read_brought(Path("files/0"), 4)
