"""Older exports of playbook.json that come back: another branch, a backup, a colleague's machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reflector.curation.playbook_file import WRITTEN, sync
from reflector.ledger.store import Ledger
from reflector.project import Project
from tests.ledger.events import add_bullet


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.at(tmp_path)


def exported(ledger: Ledger, project: Project, text: str) -> bytes:
    """The export after one more bullet."""
    add_bullet(ledger, "pat", text)
    sync(ledger, project)
    return project.playbook_json.read_bytes()


def test_an_older_export_that_comes_back_is_no_edit_and_is_written_anew(project: Project) -> None:
    with project.open_ledger() as ledger:
        old = exported(ledger, project, "one")
        new = exported(ledger, project, "two")
        before = ledger.head()
        project.playbook_json.write_bytes(old)
        synced = sync(ledger, project)
        assert (synced.edits, synced.written) == (0, True)
        assert ledger.head() == before
    assert project.playbook_json.read_bytes() == new


def test_an_older_export_that_was_edited_is_compared_with_itself(project: Project) -> None:
    with project.open_ledger() as ledger:
        old = exported(ledger, project, "one")
        exported(ledger, project, "two")
        project.playbook_json.write_bytes(old.replace(b'"one"', b'"one, revised"'))
        assert sync(ledger, project).edits == 1
        assert {b.name: b.text for b in ledger.bullets()} == {"pat-001": "one, revised", "pat-002": "two"}


def test_an_export_of_the_same_ledger_is_known_without_a_memory_of_having_written_it(project: Project) -> None:
    with project.open_ledger() as ledger:
        old = exported(ledger, project, "one")
        exported(ledger, project, "two")
        ledger.set_checkpoint(WRITTEN, 0, "forgotten")
        project.playbook_json.write_bytes(old)
        assert sync(ledger, project).edits == 0
        assert len(ledger.bullets()) == 2


def test_a_file_that_lost_its_time_is_compared_with_the_last_write(project: Project) -> None:
    with project.open_ledger() as ledger:
        exported(ledger, project, "one")
        document = json.loads(exported(ledger, project, "two"))
        document["last_updated"] = None
        document["sections"]["PATTERNS & APPROACHES"].pop()
        project.playbook_json.write_text(json.dumps(document))
        assert sync(ledger, project).edits == 1
        assert [b.name for b in ledger.bullets()] == ["pat-001"]
