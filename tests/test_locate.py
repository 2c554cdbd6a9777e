"""Which project a folder belongs to: the hook and the command line agree, in sub-folders, worktrees
and archives. And a repository's configuration runs nothing when git is asked.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from reflector import locate
from reflector.git import GitUnavailable, ask_git, tracked_below
from reflector.project import find_project
from tests.building import commit, git
from tests.conftest import first_fast


def playbook(folder: Path) -> Path:
    (folder / ".claude").mkdir(parents=True, exist_ok=True)
    (folder / ".claude/playbook.json").write_text('{"sections": {}}')
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


def _by_the_hook(folder: Path) -> Path:
    """What the hook finds, in a process of its own: it goes where it looks."""
    return Path(_hook("print(fast.hook_project({'cwd': sys.argv[1]}))", folder).rstrip("\n"))


def _hook(code: str, folder: Path) -> str:
    """What a program prints of a folder that has the hook's module, and no other package, as the
    hook is started.
    """
    program = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r}); from "
        "reflector.hooks import fast; "
    )
    command = [sys.executable, "-I", "-S", "-c", program + code, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def find(folder: Path) -> Path:
    """The project that the command line and the hook find."""
    found = find_project(folder)
    assert _by_the_hook(folder) == found
    return found


@pytest.fixture
def repository(home: Path) -> Path:
    """A repository with a commit and a sub-folder."""
    root = home / "shop"
    (root / "src/deep").mkdir(parents=True)
    (root / "src/deep/code.py").write_text("")
    commit(root)
    return root


def test_folder_belongs_to_playbook_above_or_repository(repository: Path, home: Path) -> None:
    (home / "link").symlink_to(repository / "src")
    (repository / "src/.claude").mkdir()  # the agent's settings alone make no project of a folder
    for folder in ("src/deep", "src", "src/gone/deeper", "../link/deep"):
        assert find(repository / folder) == repository
    assert find(playbook(repository / "src") / "deep") == repository / "src"
    playbook(repository)
    assert find(repository) == repository


def test_folder_outside_a_repository_is_its_own_project(
    home: Path,
) -> None:
    (home / "work").mkdir()
    assert find(home / "work") == home / "work"
    playbook(home)
    assert find(home / "work") == home / "work"
    assert find(home) == home


def test_repository_below_a_playbook_belongs_to_it(
    repository: Path,
) -> None:
    inner = repository / "vendor"
    inner.mkdir()
    git(inner, "init")
    assert find(inner) == inner
    playbook(repository)
    assert find(inner) == repository


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away"
)
@pytest.mark.usefixtures("home")
def test_another_users_playbook_above_is_not_ours(tmp_path: Path) -> None:
    shared = playbook(tmp_path / "shared")
    (shared / "mine").mkdir()
    assert find(shared / "mine") == shared
    os.chown(shared / ".claude", 65534, 65534)
    assert find(shared / "mine") == shared / "mine"


@pytest.mark.usefixtures("home")
def test_folder_writable_for_all_is_no_project_below(tmp_path: Path) -> None:
    shared = playbook(tmp_path / "shared")
    (shared / "mine").mkdir()
    shared.chmod(0o1777)
    assert find(shared / "mine") == shared / "mine"
    assert find(shared) == shared


@pytest.mark.parametrize("where", ["../shop-fix", ".claude/worktrees/fix"])
def test_a_linked_worktree_belongs_to_the_main_checkout(repository: Path, where: str) -> None:
    playbook(repository)
    commit(repository)
    git(repository, "worktree", "add", where)
    worktree = (repository / where).resolve()
    assert (worktree / ".claude/playbook.json").exists()
    assert find(worktree) == find(worktree / "src/deep") == repository


def test_worktrees_share_a_sub_folders_playbook(repository: Path) -> None:
    playbook(repository / "src")
    git(repository, "worktree", "add", "../fix")
    assert find(repository.parent / "fix/src/deep") == repository / "src"


@pytest.mark.parametrize("where", ["environment", "project", "user"])
def test_worktrees_may_be_apart(
    repository: Path, home: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repository, "worktree", "add", "../fix")
    if where == "environment":
        monkeypatch.setenv("REFLECTOR_WORKTREES", "own")
    else:
        folder = (
            playbook(repository) / ".claude" if where == "project" else home / ".config/reflector"
        )
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("reflector.toml" if where == "project" else "config.toml")).write_text(
            'worktrees = "own"'
        )
    assert find(repository.parent / "fix/src") == repository.parent / "fix"


@pytest.mark.parametrize(("name", "project"), [(".bare", "."), ("shop.git", "shop.git")])
def test_bare_worktrees_belong_together(
    repository: Path, home: Path, name: str, project: str
) -> None:
    bare = home / "bare"
    bare.mkdir()
    git(bare, "clone", "--bare", repository, name)
    for branch in ("one", "two"):
        git(bare / name, "worktree", "add", "-b", branch, bare / branch)
        assert find(bare / branch / "src") == (bare / project).resolve()


@pytest.mark.parametrize("folder", ["worktrees/other", ".bare/worktrees/other"])
def test_a_folder_named_worktrees_is_not_gits(repository: Path, folder: str) -> None:
    (repository / folder).mkdir(parents=True)
    (repository / folder / "gitdir").write_text("/elsewhere/.git")
    assert locate.worktrees(repository.as_posix()) == []


def test_submodule_and_separate_git_folder_are_own_projects(repository: Path, home: Path) -> None:
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", repository, "module")
    assert find(repository / "module/src") == repository / "module"
    (home / "apart").mkdir()
    git(home / "apart", "init", "--separate-git-dir", home / "elsewhere")
    assert find(home / "apart") == home / "apart"


@pytest.mark.parametrize("nested", ["", ".claude/worktrees/other"])
def test_removed_agent_worktree_belongs_where_it_was(
    repository: Path, home: Path, nested: str
) -> None:
    playbook(repository)
    playbook(repository / "src")
    gone = repository / nested / ".claude/worktrees/fix"
    if not nested:
        git(repository, "worktree", "add", gone)
        _noted_by_the_hook(gone)
        git(repository, "worktree", "remove", "--force", gone)
        assert not (home / ".local").exists()
    assert find(gone) == repository
    assert find(gone / "src/deep") == repository / "src"


def _noted_by_the_hook(worktree: Path) -> None:
    _hook("fast.note_worktree({'cwd': sys.argv[1]})", worktree)


@pytest.mark.parametrize(
    "above", first_fast(1, ["nothing", "another project", "another repository"])
)
def test_removed_worktree_belongs_to_its_main_checkout(
    repository: Path, home: Path, above: str
) -> None:
    playbook(repository)
    trees = home / "trees"
    trees.mkdir()
    if above == "another project":
        playbook(trees)
    elif above == "another repository":
        git(trees, "init")
    git(repository, "worktree", "add", trees / "fix")
    _noted_by_the_hook(trees / "fix/src")
    git(repository, "worktree", "remove", "--force", trees / "fix")
    assert find(trees / "fix") == find(trees / "fix/src/deep") == repository
    (trees / "fix/node_modules").mkdir(parents=True)  # what a server that still runs makes again
    assert find(trees / "fix") == repository


def test_replacement_of_a_worktree_is_its_own_project(repository: Path, home: Path) -> None:
    fix = home / "fix"
    git(repository, "worktree", "add", fix)
    _noted_by_the_hook(fix)
    git(repository, "worktree", "remove", "--force", fix)
    playbook(fix)
    assert find(fix) == fix
    git(fix, "init")
    assert find(fix / "src") == fix


def test_newest_note_of_a_worktree_counts(repository: Path, home: Path) -> None:
    other = home / "other"
    git(home, "clone", repository, other)
    for checkout in (repository, other, repository, repository):
        git(checkout, "worktree", "add", "--detach", home / "fix")
        _noted_by_the_hook(home / "fix")
        git(checkout, "worktree", "remove", "--force", home / "fix")
        assert find(home / "fix") == checkout
    assert (home / ".local/state/reflector/worktrees").read_text().count("\n") == 3


def test_the_notes_of_worktrees_stay_short(repository: Path, home: Path) -> None:
    notes = home / ".local/state/reflector/worktrees"
    notes.parent.mkdir(parents=True, mode=0o700)
    notes.write_text("/some/worktree\t/some/checkout\n" * (locate.MAX_NOTES // 30))
    git(repository, "worktree", "add", home / "fix")
    _noted_by_the_hook(home / "fix")
    git(repository, "worktree", "remove", "--force", home / "fix")
    assert find(home / "fix") == repository
    assert notes.stat().st_size < locate.MAX_NOTES * 2 / 3


def test_an_archive_cannot_pass_for_a_worktree(
    repository: Path, home: Path, tmp_path: Path
) -> None:
    git(repository, "worktree", "add", "../fix")
    admin = repository / ".git/worktrees/fix"
    evil = tmp_path / "evil"
    (evil / "admin/worktrees/x").mkdir(parents=True)
    (evil / "admin/worktrees/x/commondir").write_text(f"{repository}/.git\n")
    (evil / "admin/worktrees/x/gitdir").write_text(f"{home}/taken/.git\n")
    for pointer in (f"gitdir: {admin}\n", "gitdir: admin/worktrees/x\n"):
        (evil / ".git").write_text(pointer)
        with tarfile.open(tmp_path / "evil.tar", "w") as archive:
            archive.add(evil, "taken")
        with tarfile.open(tmp_path / "evil.tar") as archive:
            archive.extractall(home, filter="data")
        assert find(home / "taken") == home / "taken"


@pytest.mark.parametrize(
    "content",
    [b"", b"gitdir:", b"gitdir: \0", b"gitdir: " + b"x" * 10_000, b"\xff\xfe", b"nothing", None],
)
def test_empty_git_file_makes_an_ordinary_root(home: Path, content: bytes | None) -> None:
    (home / "odd").mkdir()
    if content is None:
        os.mkfifo(home / "odd/.git")
    else:
        (home / "odd/.git").write_bytes(content)
    assert find(home / "odd") == home / "odd"


def test_a_variable_names_project_or_start(
    repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(repository / "src"))
    assert find(home) == repository
    monkeypatch.setenv("REFLECTOR_PROJECT", str(repository / "src"))
    assert find(home) == repository / "src"


PROGRAMS = (
    "core.fsmonitor core.pager core.sshCommand core.editor core.alternateRefsCommand gpg.program "
    "diff.external diff.program.textconv diff.program.command"
).split()


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """An unpacked repository whose every setting that can name a program names one."""
    folder = tmp_path / "work"
    (folder / "hooks").mkdir(parents=True)
    mark = folder / "mark.sh"
    mark.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    mark.chmod(0o755)
    (folder / "heads.txt").write_text("x")
    (folder / ".gitattributes").write_text("*.txt diff=program\n")
    commit(folder)
    for name in ("post-index-change", "reference-transaction"):
        (folder / "hooks" / name).symlink_to(mark)
    for setting, value in (
        *((setting, mark) for setting in PROGRAMS),
        ("core.hooksPath", folder / "hooks"),
    ):
        git(folder, "config", setting, value)
    (tmp_path / "ran").unlink(missing_ok=True)
    return folder


@pytest.mark.parametrize(
    "arguments",
    [
        ["rev-parse", "--verify", ":heads.txt"],
        ["cat-file", "-p", "HEAD:heads.txt"],
        ["ls-files"],
        ["status"],
        ["log"],
        ["log", "-p"],
        ["show"],
        ["diff-tree", "--root", "-p", "HEAD"],
    ],
    ids=" ".join,
)
def test_nothing_that_a_repository_names_is_run(
    hostile: Path, tmp_path: Path, arguments: list[str]
) -> None:
    assert ask_git(hostile, *arguments)
    assert not (tmp_path / "ran").exists()


def test_no_variable_names_another_repository(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert ask_git(hostile, "rev-parse", "--show-toplevel") == os.fsencode(hostile) + b"\n"


@pytest.mark.parametrize("relative", ["", "."])
def test_no_local_git_is_run(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relative: str
) -> None:
    (hostile / "git").symlink_to(hostile / "mark.sh")
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PATH", os.pathsep.join([relative, os.environ["PATH"]]))
    assert ask_git(hostile, "rev-parse", "HEAD")
    assert not (tmp_path / "ran").exists()


STATE = ".claude/reflector"


def test_tracked_file_is_found_from_worktrees_too(
    tmp_path: Path,
) -> None:
    work, linked = tmp_path / "work", tmp_path / "linked"
    assert tracked_below(tmp_path / STATE) is None  # outside of a repository
    git(tmp_path, "init", "-q", "work")
    for name in (".claude/playbook.json", f"{STATE}2/y", f"a/{STATE}/x"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).touch()
    git(work, "add", "-Af")
    (work / STATE).mkdir()
    (work / STATE / "ledger.db").touch()
    assert tracked_below(work / STATE) is None
    assert tracked_below(work / "a" / STATE) == f"a/{STATE}/x"
    git(work, "add", "-f", f"{STATE}/ledger.db")
    assert (
        tracked_below(work / STATE)
        == tracked_below(work / STATE / "ledger.db")
        == f"{STATE}/ledger.db"
    )
    assert tracked_below(work / ".Claude/Reflector") == f"{STATE}/ledger.db"
    git(work, "commit", "-qm", "x")
    git(work, "worktree", "add", "-q", str(linked))
    assert tracked_below(linked / STATE) == f"{STATE}/ledger.db"


def test_submodule_as_state_folder_came_with_the_repository(tmp_path: Path) -> None:
    theirs, work = tmp_path / "theirs", tmp_path / "work"
    theirs.mkdir()
    (theirs / "ledger.db").touch()
    commit(theirs)
    git(tmp_path, "init", work)
    git(work, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(theirs), STATE)
    assert tracked_below(work / STATE) == "ledger.db"


def test_unreadable_index_and_missing_git_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".git" / "index").write_bytes(b"DIRC\0\0\0\4\xff\xff\xff\xff" + b"\x80" * 90)
    with pytest.raises(GitUnavailable, match="git cannot list the files"):
        tracked_below(tmp_path / STATE)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GitUnavailable, match="git is not installed"):
        tracked_below(tmp_path / STATE)


def test_folder_without_a_repository_starts_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("git was started"))
    assert ask_git(tmp_path, "rev-parse", "HEAD") is None


@pytest.mark.parametrize("below", ["", "refs/heads"])
def test_bare_repository_is_asked(tmp_path: Path, below: str) -> None:
    git(tmp_path, "init", "--bare")
    assert ask_git(tmp_path / below, "rev-parse", "--is-bare-repository") == b"true\n"


def test_linked_folder_of_a_repository_is_asked(tmp_path: Path) -> None:
    git(tmp_path, "init", "work")
    (tmp_path / "work" / "below").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "work" / "below")
    assert ask_git(tmp_path / "link", "rev-parse", "--show-prefix") == b"below/\n"
