"""What a person sees and agrees to when they let their agents judge."""

from pathlib import Path

import pytest

from reflector.judges import consent


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables as an `npm run` or direnv of a project sets them."""
    project, users = tmp_path / "project", tmp_path / "users"
    for folder in (project / "node_modules" / ".bin", users, tmp_path / "home"):
        folder.mkdir(parents=True)
    for program in (
        project / "node_modules/.bin/node",
        project / "node_modules/.bin/claude",
        users / "claude",
    ):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.chdir(project)
    values = {
        "HOME": str(tmp_path / "home"),
        "USER": "ada",
        "LANG": "C.UTF-8",
        "PATH": f"{project}/node_modules/.bin:node_modules/.bin:{users}",
        "HTTPS_PROXY": "http://ada:secret@127.0.0.1:9",
        "NODE_EXTRA_CA_CERTS": f"{project}/ca.pem",
        "SSL_CERT_FILE": "ca.pem",
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "CLAUDE_CONFIG_DIR": f"{project}/.claude",
        "ANTHROPIC_API_KEY": "sk-ant-secret/1",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:1?key=secret",
    }
    monkeypatch.setattr("os.environ", values)
    return values


@pytest.mark.usefixtures("environ")
def test_every_kept_variable_is_shown() -> None:
    agreed = consent.installed_clients()["claude"]
    shown = {line.partition("=")[0] for line in consent.shown(agreed)}
    assert shown == agreed.environ.keys() - {"HOME", "USER", "LANG"}
    assert {
        "PATH",
        "HTTPS_PROXY",
        "XDG_CONFIG_HOME",
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
    } == shown


def test_keys_are_masked(environ: dict[str, str]) -> None:
    agreed = consent.installed_clients()["claude"]
    assert "secret" not in "\n".join(consent.shown(agreed))
    assert agreed.environ["ANTHROPIC_API_KEY"] == environ["ANTHROPIC_API_KEY"]
    assert "HTTPS_PROXY=http://…@127.0.0.1:9" in consent.shown(agreed)


@pytest.mark.usefixtures("environ")
def test_nothing_below_a_project_is_kept(tmp_path: Path) -> None:
    agreed = consent.installed_clients()["claude"]
    assert agreed.path == str(tmp_path / "users" / "claude")
    assert not any(str(tmp_path / "project") in value for value in agreed.environ.values())
    assert consent.left_out("claude") == [
        "NODE_EXTRA_CA_CERTS",
        "SSL_CERT_FILE",
        "CLAUDE_CONFIG_DIR",
    ]


def test_nothing_below_a_named_project_is_kept(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path / "users")
    environ["PATH"] += f":{tmp_path}/users"
    assert consent.left_out("claude", tmp_path / "project") == [
        "NODE_EXTRA_CA_CERTS",
        "SSL_CERT_FILE",
        "CLAUDE_CONFIG_DIR",
    ]


def test_home_that_is_a_repository_is_no_project(environ: dict[str, str], tmp_path: Path) -> None:
    environ["CLAUDE_CONFIG_DIR"] = str(tmp_path / "home" / ".claude")
    assert "CLAUDE_CONFIG_DIR" in consent.installed_clients(tmp_path / "home")["claude"].environ
