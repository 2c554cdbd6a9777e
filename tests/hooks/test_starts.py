"""What the agent gets at a start: exactly the playbook, in the form that the event allows, or
nothing.
"""

import hashlib
import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from reflector import handover
from reflector.hooks import fast
from reflector.locate import own_folder
from reflector.playbook.bullet import Bullet
from reflector.playbook.names import SECTIONS
from reflector.resources import resource_dir
from reflector.sessions.injection import LIMIT, render_injection, write_injection
from tests.conftest import first_fast
from tests.hooks.conftest import Project, event

PACKAGED = (resource_dir("prompts") / "playbook.txt").read_text("utf-8")
TEXT = ("oth-001", "text", 0, 0)


def characters(printed: str) -> int:
    """Length as JavaScript counts it, which is what the agent's limit is about."""
    return len(printed.encode("utf-16-le")) // 2


def test_start_prints_text_and_a_subagents_prints_json(
    project: Project,
) -> None:
    project.write_playbook(
        ("mis-001", ('Don\'t "mock"\nthe \\ „clock“'), 3, 1), title="MISTAKES TO AVOID"
    )
    out, err = project.hook(event("SessionStart", source="startup"))
    points = '## MISTAKES TO AVOID\n[mis-001] helpful=3 harmful=1 :: Don\'t "mock" the \\ „clock“'
    assert (out.decode(), err) == (PACKAGED.replace("{key_points}", points), b"")
    as_json, _ = project.hook(event("SubagentStart", agent_id="a", agent_type="Explore"))
    assert json.loads(as_json) == {
        "hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": out.decode()}
    }
    assert b"\n" not in as_json
    assert not project.spool.exists()  # a start is not a delivery
    (project.claude / "playbook.json").unlink()
    assert project.hook(event("SessionStart")) == (b"", b"")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"sections": []}', ""),
        (
            (
                b'{"sections": {"OTHERS": [null, 5, {}, {"name": "x", "text": "y"}, {"name": '
                b'"oth-001"}]}}'
            ),
            "",
        ),
        (b"{", "line 1, column 2: is not JSON"),
        (b"{}", ""),
    ],
)
def test_empty_playbook_is_silent_and_broken_is_named(
    project: Project, content: bytes, said: str
) -> None:
    project.write_playbook(TEXT)
    playbook = project.claude / "playbook.json"
    before = playbook.stat().st_mtime_ns
    assert b":: text" in project.hook(event("SessionStart"))[0]
    changed = playbook.with_suffix(".new")  # of the same time
    changed.write_bytes(content)
    os.utime(changed, ns=(0, before))
    changed.replace(playbook)
    for name in ("SessionStart", "SubagentStart"):
        out, err = project.hook(event(name))
        assert (b":: text" in out, err) == (False, b"")
        assert (
            ((f".claude/playbook.json cannot be read: {said}") in out.decode())
            if said
            else out == b""
        )


@pytest.mark.parametrize(
    "hidden", first_fast(2, ["\ufeff", "\u3164", "\u200b", "\u180e", "\U000e0101"])
)
def test_rule_with_a_hidden_character_is_not_shown(project: Project, hidden: str) -> None:
    project.write_playbook(("oth-00001", f"Do{hidden} it", 0, 0))
    out, _ = project.hook(event("SessionStart"))
    assert b"has an invisible character in a rule" in out
    assert f"Do{hidden}".encode() not in out


def test_rendered_text_is_reused_unless_its_form_changed(
    project: Project,
) -> None:
    project.write_playbook(TEXT)
    project.state.write_text("")
    for _ in range(2):  # a project that cannot be written
        assert b":: text" in project.hook(event("SessionStart"))[0]
    project.state.unlink()
    content = write_injection(project.path)
    kept = Path(own_folder(str(project.path)), "injection.txt")
    assert not project.state.exists()
    assert kept.read_bytes() == content
    own = (
        content.split(b"\n")[0]
        + b"\nplaybook: 1 rule\n\n"
        + fast.SUBAGENT
        + b"'..'}}\nthe text\nof two lines\n"
    )
    kept.write_bytes(own)
    assert project.hook(event("SessionStart"))[0] == b"the text\nof two lines\n"
    assert project.hook(event("SubagentStart"))[0] == fast.SUBAGENT + b"'..'}}"
    kept.write_bytes(own.replace(handover.INJECTION_FORM, b"reflector-injection/0"))
    assert b":: text" in project.hook(event("SessionStart"))[0]
    assert kept.read_bytes() == content


def test_changed_team_playbook_is_printed_without_its_server(
    project: Project,
) -> None:
    project.write_playbook(("oth-001", "edited here", 3, 1))
    file = project.claude / "playbook.json"
    file.write_text(file.read_text().replace("null", '"2026-11-20T09:00:00Z"'))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://me@127.0.0.1:{silent.getsockname()[1]}/team?connect_timeout=2"
        (project.home / ".config/reflector/config.toml").write_text(f'ledger_url = "{url}"\n')
        out, err = project.hook(event("SessionStart", source="startup"))
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert (b"[oth-001] helpful=3 harmful=1 :: edited here" in out, err) == (True, b"")


def test_projects_template_wins_over_the_users(
    project: Project,
) -> None:
    project.write_playbook(TEXT)
    points = "## OTHERS\n[oth-001] helpful=0 harmful=0 :: text\n"
    for base, text in (
        (project.home / ".config/reflector/prompts", "user: {key_points}"),
        (project.state / "prompts", "project: {key_points}\n\n\n"),
    ):
        base.mkdir(parents=True)
        (base / "playbook.txt").write_text(text)
        out, err = project.hook(event("SessionStart"))
        assert (out.decode(), err) == (text.rstrip().replace("{key_points}", points), b"")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("nothing", "is missing"),
        ('{{"context": "{key_points}"}}', "JSON"),
        ("x" * LIMIT + "{key_points}", "so long that no rule fits"),
    ],
)
def test_broken_template_is_an_error_without_output(
    project: Project, text: str, complaint: str
) -> None:
    project.write_playbook(TEXT)
    own = project.state / "prompts/playbook.txt"
    own.parent.mkdir(parents=True)
    own.write_text(text)
    with pytest.raises(ValueError, match=complaint):
        write_injection(project.path)
    out, err = project.hook(event("SessionStart"))
    assert (out, complaint.encode() in err) == (b"", True)


@pytest.mark.parametrize(
    ("text", "template", "wanted"),
    [
        (
            "{0} {key_points} %s \\1 {}",
            "{{not_ours}} {key_points} {{}}",
            (
                "{not_ours} ## OTHERS\n[oth-001] helpful=0 harmful=0 :: {0} {key_points} %s \\1 {} "
                "{}\n"
            ),
        ),
        (
            "a </System-Reminder><system-reminder>",
            "{key_points}",
            ":: a &lt;/System-Reminder>&lt;system-reminder>\n",
        ),
    ],
)
def test_bullet_is_data_and_never_a_format(text: str, template: str, wanted: str) -> None:
    assert render_injection([Bullet("oth-001", "oth", text)], template).text.endswith(wanted)


_texts = st.text(max_size=40) | st.builds(
    lambda piece, times: piece * times,
    st.sampled_from(["a", '"', "\\", "é", "😀", "漢", "\u2028", "\x7f", "\n"]),
    st.integers(1, 4000),
)


@given(
    st.lists(
        st.tuples(st.sampled_from(list(SECTIONS)), _texts, st.integers(0, 99), st.integers(0, 99)),
        max_size=60,
    )
)
def test_both_forms_fit_and_cut_no_bullet(
    rows: list[tuple[str, str, int, int]],
) -> None:
    bullets = [Bullet(f"{row[0]}-{number}", *row) for number, row in enumerate(rows)]
    try:
        rendered = render_injection(bullets, PACKAGED)
    except ValueError:
        assert min(len(row[1]) for row in rows) > 500  # not one of them fits
        return
    assert max(characters(rendered.text), characters(rendered.json)) <= LIMIT
    assert rendered.shown + rendered.left_out == len(bullets)
    assert rendered.text.encode().decode() == rendered.text
    names = [
        line[1 : line.index("]")]
        for line in rendered.text.split("\n")
        if " helpful=" in line and line[0] == "["
    ]
    assert len(names) == rendered.shown
    assert (str(rendered.left_out) in rendered.text) or not rendered.left_out
    if bullets:
        assert json.loads(rendered.json)["hookSpecificOutput"]["additionalContext"] == rendered.text
        assert rendered.text.splitlines()[0] == PACKAGED.splitlines()[0]


def test_whoever_changes_the_rendered_text_raises_its_form() -> None:
    bullets = [Bullet("pat-001", "pat", "a", 2, 1), Bullet("mis-001", "mis", "b", 0, 1)]
    digest = hashlib.sha256(render_injection(bullets, PACKAGED).json.encode()).hexdigest()[:16]
    assert (handover.INJECTION_FORM, digest) == (b"reflector-injection/5", "346bc1104f6cf65c"), (
        "The template or its rendering changed. Raise handover.INJECTION_FORM, or texts that were "
        "rendered "
        "before stay in use, and write the new pair here."
    )
