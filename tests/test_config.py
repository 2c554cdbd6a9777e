"""Configuration: what is understood, what is refused, and which source wins."""

from pathlib import Path

import pytest

from reflector.config import Config, ConfigError, load_config
from tests.road.agent import environ as variables


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / ".claude" / "reflector.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def loaded(folder: Path, environ: dict[str, str], **flags: str | None) -> Config:
    with variables(environ):
        return load_config(folder, flags=flags)


def test_without_any_setting_the_defaults_hold(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"HOME": str(tmp_path)}) == Config()


def test_flags_win_over_environment_over_project_over_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    user = home / ".config" / "reflector" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("idle_minutes = 1\nmax_attempts = 4\nplaybook = 'user'\n")
    project = written(
        tmp_path / "project",
        "max_attempts = 3\nplaybook = 'project'\nledger_url = 'sqlite:///p.db'\n",
    )
    environ = {
        "HOME": str(home),
        "REFLECTOR_PLAYBOOK": "environment",
        "REFLECTOR_LEDGER_URL": "sqlite:///e.db",
    }
    config = loaded(project, environ, ledger_url="sqlite:///f.db", backend=None)
    assert config == Config(
        ledger_url="sqlite:///f.db", playbook="environment", max_attempts=3, idle_minutes=1
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("backned = 'rules'", "did you mean 'backend'?"),
        ("colour = 'red'", "the settings are backend"),
        ("backend = 'rule'", "did you mean 'rules'?"),
        ("backend = 3", "it must be a text"),
        ("idle_minutes = '60'", "it must be a whole number"),
        ("idle_minutes = true", "it must be a whole number"),
        ("max_attempts = 0", "at least 1"),
        ("idle_minutes = 1000000000001", "at most 1,000,000,000,000"),
        (f"prune_after = 0x{'f' * 500}", "is a number of more than 30 digits; it must be at most"),
        (f"prune_after = -0x{'f' * 5_000}", "not TOML"),
        (f"backend = 0x{'f' * 5_000}", "a number has thousands of digits"),
        (f"pinned = [0b{'1' * 50_000}]", "a number has thousands of digits"),
        ("playbook = '../x'", "1 to 64 letters"),
        ("judgement_precision = 100", "at most 99"),
        ("judgement_precision = 49", "at least 50"),
        ("judgement_precision = 0.9", "whole number"),
        ("backend = ", "is not TOML"),
        ("[backend]\nname = 'x'", "it must be a text"),
        (b"\x00\xff", "cannot be read"),
        (b"\xef\xbb\xbf", "not TOML"),
        ('backend = "rules"\nbackend = "rules"', "not TOML"),
        (f"idle_minutes = {'1' * 5_000}", "thousands of digits"),
        (f"pinned = {'[' * 10_000}{']' * 10_000}", "not TOML"),
        (f"{'worktrees.' * 100_000}own = 1", "not TOML"),
        (f"""'worktrees' . "a b".{"'='." * 200_000}own = 1""", "not TOML"),
        # What would give whoever wrote the project's file power over who is asked, what it costs,
        # and other folders.
        ('base_url = "http://127.0.0.1:1"', "which only your own settings may contain"),
        ('projects = ["*"]', "which only your own settings may contain"),
        ('proposals = "accept"', "only your own settings may contain"),
        ('model = "the-dearest-1"', "sets the price of a request"),
        ("request_tokens = 10000000", "cannot exceed your own limit"),
        ("monthly_tokens = 0", "cannot exceed your own limit"),
        ('fixtures = "x.json"', "move `fixtures` to "),
    ],
)
def test_wrong_setting_is_refused_with_a_suggestion(
    tmp_path: Path, text: str | bytes, wanted: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(written(tmp_path, text), {"HOME": str(tmp_path)})
    assert wanted in str(caught.value)
    assert "reflector.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("BACKEN", "rules", "is not a setting; did you mean 'backend'"),
        ("IDLE_MINUTES", "9" * 500, "it must be at most"),
        ("IDLE_MINUTES", "9" * 5_000, "a whole number"),
    ],
)
def test_wrong_variable_is_refused(tmp_path: Path, name: str, value: str, wanted: str) -> None:
    with pytest.raises(
        ConfigError, match=(f"REFLECTOR_{name} is .*{wanted}|REFLECTOR_{name} {wanted}")
    ):
        loaded(tmp_path, {"HOME": str(tmp_path), f"REFLECTOR_{name}": value})


def test_variables_that_are_no_settings_pass(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "REFLECTOR_NO_SPAWN": "1", "REFLECTOR_TEST_POSTGRES_URL": "x"}
    assert loaded(tmp_path, environ) == Config()


def test_former_setting_is_ignored_and_named(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "REFLECTOR_JUDGEMENT_WEIGHTS": "own.json"}
    config = loaded(tmp_path, environ)
    assert (config, config.layer("judgement_weights")) == (Config(), "environment")


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ("helpful=36", "give both helpful and harmful"),
        ("harmful=36 sure=90", "give both helpful and harmful"),
        ("helpful=0 harmful=50", "must be at least 1"),
        ("helpful=101 harmful=50", "write the percentage"),
        ("helpful=0.4 harmful=0.8", "write the percentage"),
        ("helpful=40 harmful=80 helpful=50", "write each word only once"),
        ("sure=90 sure=80", "write each word only once"),
        ("found=40", "'helpful=36 harmful=73'"),
    ],
)
def test_a_wrong_measurement_is_refused(tmp_path: Path, value: str, fault: str) -> None:
    environ = {"HOME": str(tmp_path), "REFLECTOR_JUDGE_MEASURED": value}
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, environ)
    assert fault in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(
    ("value", "trusted", "rates"),
    [
        ("", {"sure"}, None),
        ("sure=95 likely=90", {"sure", "likely"}, None),
        ("helpful=36 harmful=73", {"sure"}, (36, 73)),
        ("likely=90 helpful=100 harmful=1", {"likely"}, (100, 1)),
    ],
)
def test_a_measurement_has_two_parts(
    value: str, trusted: set[str], rates: tuple[int, int] | None
) -> None:
    config = Config(judge_measured=value)
    assert (config.counting_words({"sure": 100}), config.finding_rates) == (trusted, rates)
