"""Playbooks of ACE and of tools made after it, and files that are no playbook."""

import json
from typing import Any

import pytest

from reflector.handover import has_only_a_strangers_file
from reflector.playbook.document import load

ONE = {
    "id": "arch-0001",
    "content": "Keep functions small.",
    "helpful": 3,
    "harmful": 1,
    "section": "strategies",
}
OLD = {
    "id": "arch-0002",
    "content": "Use the old wrapper.",
    "helpful": 0,
    "harmful": 5,
    "section": "strategies",
}
COUNTED = {"id": "a", "content": ONE["content"], "helpful_count": 3, "harmful_count": 1}
FORMS: dict[str, Any] = {
    "bullets by id": {
        "bullets": {"1": ONE, "2": {**OLD, "deprecated": True}},
        "sections": {"strategies": ["1", "2"]},
    },
    "skills": {
        "skills": {"1": {**ONE, "status": "active"}, "2": {**OLD, "status": "invalid"}},
        "next_id": 2,
    },
    "counters in metadata": {
        "bullets": [
            {"content": ONE["content"], "metadata": {"helpful": 3, "harmful": 1}},
            {**OLD, "active": False},
        ],
        "sections": ["strategies"],
    },
    "sections as objects": {
        "version": "1.0",
        "sections": {
            "ARCHITECTURE": {"description": "x", "bullets": [COUNTED, {**OLD, "deprecated": True}]}
        },
    },
    "a list of sections": {
        "sections": [{"name": "A", "bullets": [COUNTED, {**OLD, "deprecated": True}]}]
    },
    "sections by id": {"sections": {"A": {"1": ONE, "2": {**OLD, "status": "archived"}}}},
    "other words": {"sections": {"OTHERS": [COUNTED, {**OLD, "deprecated": True}]}},
    "an envelope": {
        "metadata": {},
        "playbook": {"bullets": {"1": ONE, "2": {**OLD, "deprecated": True}}},
    },
    "a list": [ONE, {**OLD, "deprecated": True}],
}
#: Files of other tools.
STRANGERS = (
    *(
        '{"verify": "npm test"}',
        "[]",
        '"text"',
        "5",
        "{}",
        "[1, 2]",
        '{"plays": []}',
        '{"name": "d", "steps": [1]}',
    ),
    *(
        ('{"sections": [{"title": "x", "steps": []}]}'),
        '{"sections": "x"}',
        '{"sections": {"deploy": [{"cmd": "x"}]}}',
    ),
    *(
        ('{"playbook": {"hosts": "all"}}'),
        '{"version": 1, "tasks": []}',
        "hosts: all\n- tasks",
        "{'a': 1}",
    ),
)
#: Damaged playbooks, which are not a stranger's.
DAMAGED = ("", '{"version": "1.0", "sec', '{"sections": {,}}', "{", '{"sections": []}')


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_each_form_is_read_with_its_counters(form: Any) -> None:
    loaded = load(json.dumps(form))
    assert [(one.text, one.helpful, one.harmful) for one in loaded.bullets] == [
        ("Keep functions small.", 3, 1)
    ]
    assert loaded.problems == ()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_a_deprecated_bullet_is_named(form: Any) -> None:
    noted = [note for note in load(json.dumps(form)).notes if "deprecated" in note]
    assert len(noted) == 1
    assert "arch-0002" in noted[0]


@pytest.mark.parametrize("raw", STRANGERS)
def test_a_strangers_file_is_foreign_everywhere(raw: str, tmp_path: Any) -> None:
    loaded = load(raw)
    assert (loaded.format, bool(loaded.problems)) == ("foreign", True)
    assert strangers(tmp_path, raw)


@pytest.mark.parametrize("raw", [*DAMAGED, *map(json.dumps, FORMS.values())])
def test_a_playbook_is_not_foreign(raw: str, tmp_path: Any) -> None:
    assert load(raw).format != "foreign"
    assert not strangers(tmp_path, raw)


def strangers(folder: Any, raw: str) -> bool:
    """Return what the hook thinks of a project with such a playbook.json and nothing else."""
    (folder / ".claude").mkdir()
    (folder / ".claude" / "playbook.json").write_text(raw)
    return has_only_a_strangers_file(str(folder))
