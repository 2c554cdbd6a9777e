"""What must hold of machines after a full exchange."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.campaign import folds
from tests.campaign.machines import Machine, Ran, Row
from tests.campaign.model import SECTIONS

Must = Callable[[bool, str, str], None]
__all__ = ["SECTIONS", "agrees", "equal", "rebuilds"]


def agrees(machine: Machine, chance: random.Random, must: Must) -> None:
    """A machine's tables, list, file and past are one, each of the six folds answers by its
    definition, and the proof is silent.
    """
    rows, head = machine.rows(), machine.head()
    if not head:
        return
    everything = ("list", "--removed", "--json")
    questions = (
        ("verify",),
        ("rebuild", "--check"),
        everything,
        (*everything, "--as-of", str(head)),
    )
    proof, drift, listed, past = machine.runs(questions)
    must(proof == Ran(0, "", ""), "verify", f"{machine.name}: {proof}")
    must(drift.code == 0, "rebuild --check", f"{machine.name}: {drift}")
    must(listed.code == 0 == past.code, "list", listed.err + past.err)
    must(_bullets(listed.out) == rows, "list and tables", f"{machine.name}: {listed.out} {rows}")
    must(
        _bullets(listed.out) == _bullets(past.out),
        "list --as-of",
        f"{machine.name}: {listed.out} {past.out}",
    )
    must(
        _file(machine) == [row for row in rows if row.status == "live"],
        "playbook.json",
        f"{machine.name}: {rows}",
    )
    at = chance.randint(0, head)
    differing = machine.asks(lambda: folds.differing(head, at))
    must(not differing, "fold and answer", f"{machine.name}: {differing}")


def rebuilds(machine: Machine, must: Must) -> None:
    """A rebuild changes nothing."""
    if machine.head():
        before, answers = machine.rows(), machine.asks(folds.answers)
        ran = machine.run("rebuild", quiet=True)
        must(
            ran.code == 0 and machine.rows() == before,
            "rebuild",
            f"{machine.name}: {ran.err} {before}",
        )
        after = machine.asks(folds.answers)
        must(after == answers, "answers after a rebuild", f"{machine.name}: {answers} {after}")


def equal(machines: Sequence[Machine], must: Must) -> None:
    """Machines that know the same show the same, up to names."""
    first, *others = (_told(machine) for machine in machines)
    for machine, told in zip(machines[1:], others, strict=True):
        ours, theirs = (
            [one for one in all_ if one not in other]
            for all_, other in ((first, told), (told, first))
        )
        must(
            told == first,
            "machines differ",
            f"{machines[0].name}: {ours}, {machine.name}: {theirs}",
        )


def _told(machine: Machine) -> list[Any]:
    rows = machine.rows()
    text = {row.name: row.text for row in rows}
    bullets = sorted(
        (r.section, r.text, r.status, text.get(r.into or "", ""), *r.counters) for r in rows
    )
    policy = json.loads(machine.run("ledger", "policy", "--json", quiet=True).out)["counting"]
    return [*bullets, policy]


def _bullets(text: str) -> list[Row]:
    fields = ("name", "section", "text", "status", "removed_into", "helpful", "harmful")
    return sorted(Row(*(one[field] for field in fields)) for one in json.loads(text))


def _file(machine: Machine) -> list[Row]:
    sections = (
        json.loads(machine.playbook.read_text())["sections"] if machine.playbook.exists() else {}
    )
    return sorted(
        Row(one["name"], section, one["text"], "live", None, one["helpful"], one["harmful"])
        for section, bullets in sections.items()
        for one in bullets
    )
