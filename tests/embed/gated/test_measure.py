"""`reflector lab bench`: its figures, and the files that it takes."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from reflector.cli.app import run
from reflector.embed.gated.settings import EXAMPLES
from reflector.gated import Fixtures, GatedConfig, measure, read_config
from tests.embed.gated import vectors


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["lab", "bench", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "line"), [("rulebased", vectors.BENCH), ("fixtures", vectors.BENCH_FIXTURES)]
)
def test_two_examples_ship_and_print_their_exact_lines(
    name: str,
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed(capsys, name, "-n", "3") == printed(capsys, str(EXAMPLES[name])) == f"{line}\n"
    assert printed(capsys) == f"{vectors.BENCH}\n"


@pytest.mark.parametrize(("topk", "length"), list(enumerate([4, 10, 15, 21, 25, 29, 29])))
def test_more_snippets_make_a_longer_summary(topk: int, length: int) -> None:
    assert measure(GatedConfig(topk_snippets=topk))["summary_len"] == length


def test_the_figures_are_those_of_the_settings() -> None:
    config = read_config("fixtures")
    # a smaller prompt has its own answer
    figures = measure(replace(config, topk_snippets=1, summary_tokens=32))
    assert (figures["fixture_key"], figures["summary_len"]) == ("5f6ba6438f41", 6)
    figures = measure(
        replace(config, allow_reflection=False, fixtures=Fixtures(True, "none.jsonl"))
    )
    assert (figures["allow_reflection"], figures["ops"], figures["backend"]) == (False, 0, "llm")
    assert figures["reason"] == "reflect_error:FixtureMissingError"


@pytest.mark.parametrize(
    ("ci", "asked", "shown"),
    [("", ["--raw-time"], True), ("", [], False), ("true", ["--raw-time"], False)],
)
def test_time_is_shown_on_request_outside_ci(
    ci: str,
    asked: list[str],
    shown: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CI", ci)
    assert (json.loads(printed(capsys, *asked))["ms"] > 0) is shown


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("c.TOML", "t3.reflection = {topk_snippets = 1, embed = false}"),
        ("c.json", '\ufeff{"t3": {"reflection": {"topk_snippets": 1, "embed": false}}}'),
    ],
)
def test_settings_come_from_toml_and_json(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    config = read_config(tmp_path / name)
    assert (config.topk_snippets, config.embed, config.allow_reflection) == (1, False, True)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.toml", None, "missing.toml cannot be read (No such file or directory)"),
        ("c.json", "[1]", "c.json: the file does not contain a table of settings"),
        (
            "c.YML",
            "t3:\n  allow_reflection: true\n",
            "c.YML is YAML, which reflector does not read; write it as TOML or JSON",
        ),
        ("c.toml", "[", "c.toml: "),
        ("c.json", '{"t3": {"reflection": {"embed": 2}}}', "c.json: t3.reflection.embed is 2"),
    ],
)
def test_unusable_file_is_a_usage_error(
    name: str, content: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    assert run(["lab", "bench", str(tmp_path / name)]) == 2
    assert words in capsys.readouterr().err
