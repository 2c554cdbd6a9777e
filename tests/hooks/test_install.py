"""Our hooks in the text of a settings file: of any, and of some as people have them."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import given, strategies as st

from reflector.hooks.agents import CLAUDE
from reflector.hooks.install import HookList, MalformedSettings, hook_command, is_own
from tests.hooks.conftest import EXACT, REFUSED, SHAPES

FORM = HookList(CLAUDE.events)
install, uninstall, handlers = FORM.install, FORM.uninstall, FORM.handlers
COMMAND = "'/opt/my tools/venv/bin/python' -I -S /opt/reflector/hooks/fast.py || exit 0"
OLD = "/old/venv/bin/python3.11 -I -S /old/lib/reflector/hooks/fast.py"

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
KEYS = st.text(max_size=4) | st.sampled_from(["hooks", "Stop", "matcher", "command"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
HANDLERS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["command", "prompt", "http"])}, optional={"command": st.text()}
    ),
    max_size=2,
)
GROUPS = st.lists(
    st.fixed_dictionaries({}, optional={"matcher": st.text(), "hooks": HANDLERS, "x": VALUES}),
    max_size=3,
)
HOOKS = st.dictionaries(
    st.sampled_from([*CLAUDE.events, "PreToolUse", "Notification"]), GROUPS, max_size=4
)
SETTINGS = st.builds(
    lambda rest, hooks: rest | hooks,
    st.dictionaries(KEYS.filter(lambda key: key != "hooks"), VALUES, max_size=3),
    st.just({}) | st.fixed_dictionaries({"hooks": HOOKS}),
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Any settings, formatted by an editor, with any line ends."""
    indent = draw(st.sampled_from([None, 0, 2, 4, "\t"]))
    text = json.dumps(draw(SETTINGS), indent=indent, ensure_ascii=draw(st.booleans()))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    return text.replace("\n", newline) + draw(st.sampled_from(["", newline, newline * 2]))


def semantic(settings: Any, command: str) -> Any:
    """What installing means, said without texts."""
    for event, timeout in CLAUDE.events.items():
        handler = {"type": "command", "command": command, "timeout": timeout}
        settings.setdefault("hooks", {}).setdefault(event, []).append({"hooks": [handler]})
    return settings


@given(documents())
def test_any_settings_keep_their_content_beside_our_hooks(text: str) -> None:
    installed = install(text, COMMAND)
    assert json.dumps(json.loads(installed)) == json.dumps(semantic(json.loads(text), COMMAND))
    assert sorted(handler.event for handler in handlers(installed)) == sorted(CLAUDE.events)
    assert install(installed, COMMAND) == installed
    assert FORM.foreign(installed) == FORM.foreign(text) == FORM.foreign(uninstall(installed))
    settings = json.loads(text)
    if FORM.is_exact(text) and settings and [] not in settings.get("hooks", {"": 1}).values():
        assert settings.get("hooks") == {} or uninstall(installed) == text


@given(documents(), st.integers(0, 9), st.text(min_size=1, max_size=4))
def test_later_edit_differs_from_the_text_before(text: str, number: int, key: str) -> None:
    edited = json.loads(install(text, COMMAND)) | {f"edited-{key}": number}
    without_us = json.loads(uninstall(json.dumps(edited)))
    assert FORM.foreign(json.dumps(edited)) != FORM.foreign(text)
    assert without_us[f"edited-{key}"] == number
    assert handlers(json.dumps(without_us)) == []


@given(documents(), st.sampled_from([*CLAUDE.events, "PostToolUse"]), st.integers(0, 3))
def test_an_older_installation_is_replaced(text: str, event: str, more: int) -> None:
    old = install(text, OLD)
    settings = json.loads(old)
    for _ in range(more):
        settings["hooks"].setdefault(event, []).insert(
            0, {"hooks": [{"type": "command", "command": "reflector hook"}]}
        )
    installed = install(json.dumps(settings), COMMAND)
    assert sorted(handler.event for handler in handlers(installed)) == sorted(CLAUDE.events)
    assert {handler.command for handler in handlers(installed)} == {COMMAND}
    assert handlers(uninstall(installed)) == []
    assert install(old, COMMAND) == install(text, COMMAND)


@pytest.mark.parametrize("name", SHAPES)
def test_shape_gets_our_hooks_and_some_are_reformatted(name: str) -> None:
    text = SHAPES[name].decode("utf-8-sig")
    installed = install(text, COMMAND)
    assert json.loads(installed) == semantic(json.loads(text) if text.strip() else {}, COMMAND)
    assert FORM.foreign(installed) == FORM.foreign(text)
    assert FORM.is_exact(text) == (name in EXACT)
    assert "\r" in text or "\r" not in installed


@pytest.mark.parametrize("name", [name for name in REFUSED if "UTF" not in name])
def test_settings_that_cannot_hold_hooks_are_refused(name: str) -> None:
    raw, words = REFUSED[name]
    with pytest.raises(MalformedSettings) as caught:
        install(raw.decode(), COMMAND)
    assert words in str(caught.value)


def test_own_hook_is_replaced_in_its_place() -> None:
    handlers_there = [{"type": "command", "command": "reflector hook"}, {"type": "prompt"}]
    text = json.dumps(
        {"hooks": {"SessionStart": [{"matcher": "startup", "hooks": handlers_there}]}}
    )
    group = json.loads(install(text, COMMAND))["hooks"]["SessionStart"]
    assert group[0]["matcher"] == "startup"
    assert [hook["type"] for hook in group[0]["hooks"]] == ["command", "prompt"]
    assert group[0]["hooks"][0]["command"] == COMMAND
    assert len(group) == 1


def test_chosen_timeout_stays_and_a_missing_is_set() -> None:
    installed = install("{}", COMMAND)
    chosen = installed.replace('"timeout": 10', '"timeout": 55', 1)
    assert install(chosen, COMMAND) == chosen
    without_time = json.loads(installed)
    del without_time["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"]
    assert install(json.dumps(without_time, indent=2), COMMAND) == installed


OWN = [
    "reflector hook",
    "'/home/me/my tools/bin/reflector' hook",
    "python3 -I -m reflector hook || true",
    OLD,
    COMMAND,
]
FOREIGN = ["", "my-reflector hook", "reflector hooks", "cd /x && reflector hook", "'reflector hook"]
FOREIGN += ["node /x/reflector/hooks/fast.py", "python x.py -m reflector hook"]


@pytest.mark.parametrize("command", [*OWN, *FOREIGN])
def test_own_command_is_known_in_every_form(
    command: str,
) -> None:
    assert is_own(command) == (command in OWN)


def test_foreign_commands_are_reported_and_kept() -> None:
    command = "cd /x && reflector hook"
    text = json.dumps(
        {"hooks": {"Stop": [{"matcher": "m", "hooks": [{"type": "command", "command": command}]}]}}
    )
    found = handlers(text)
    assert [(handler.command, handler.own) for handler in found] == [(command, False)]
    assert uninstall(text) == text
    handler = {"type": "command", "command": "python3", "args": ["-m", "reflector", "hook"]}
    assert uninstall(json.dumps({"a": 1, "hooks": {"Stop": [{"hooks": [handler]}]}})) == '{"a": 1}'


def test_command_quotes_special_characters_of_a_shell() -> None:
    command = hook_command("/home/o'neil/$x y/bin/python", "/s p/reflector/hooks/fast.py")
    assert shlex.split(command)[:4] == [
        "/home/o'neil/$x y/bin/python",
        "-I",
        "-S",
        "/s p/reflector/hooks/fast.py",
    ]
    assert is_own(command)


def test_path_that_no_settings_hold_is_refused() -> None:
    with pytest.raises(MalformedSettings, match="the path of this Python is unknown"):
        hook_command("")
    with pytest.raises(MalformedSettings, match=r"/bad\\udcff/python.* is not UTF-8"):
        hook_command("/bad\udcff/python")
