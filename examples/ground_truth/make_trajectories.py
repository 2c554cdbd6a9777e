"""Runs the tests of twelve small tasks and writes what happened as trajectories, and the playbook that they use.

    python examples/ground_truth/make_trajectories.py FOLDER
    reflector --dataset python-tasks import FOLDER/playbook.json
    reflector lab trajectory --backend anthropic FOLDER/trajectories.jsonl

Each task of `tasks.json` is tried once. Where the answer was mended, its tests run again, and the report holds both
runs as text; else it is pytest's JUnit XML. Times and paths are taken out, so that a report is the same everywhere.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

TASKS = json.loads((Path(__file__).parent / "tasks.json").read_text("utf-8"))
_CHANGES = re.compile(r' (?:time|timestamp|hostname)="[^"]*"| in \d+\.\d+s')
_SECTIONS = {"pat": "PATTERNS & APPROACHES", "mis": "MISTAKES TO AVOID", "ctx": "PROJECT CONTEXT"}
_PLUGINS = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout", "-p", "no:randomly"]


os.environ["COLUMNS"] = "120"


def run(folder: Path, name: str, code: str, tests: str) -> tuple[str, str]:
    """Return (text, JUnit XML) of a run of an answer's tests."""
    folder.mkdir(parents=True, exist_ok=True)
    file, xml = folder / f"test_{name}.py", folder / "report.xml"
    file.write_text(f"{code}\n\n{tests}", "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    told = io.StringIO()
    options = ["-v", "--tb=short", "--no-header", "--import-mode=importlib", f"--junitxml={xml}"]
    sys.modules.pop(f"test_{name}", None)  # of the run before
    with redirect_stdout(told), chdir(folder):
        pytest.main([file.name, *options, *_PLUGINS])
    text, report = (
        _CHANGES.sub("", one.replace(f"{folder}/", "")) for one in (told.getvalue(), xml.read_text("utf-8"))
    )
    return text, report


def trajectory(task: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return a task's trajectory, with the report of its tests."""
    text, xml = run(folder / "first", task["name"], task["wrong"], task["tests"])
    if task["mended"]:
        text += run(folder / "second", task["name"], task["right"], task["tests"])[0]
    return {
        "query": task["query"],
        "dataset": "python-tasks",
        "generated_answer": task["right"] if task["mended"] else task["wrong"],
        "reasoning_steps": ["Read what is asked for.", f"[{task['bullet']}] {task['step']}"],
        "used_bullet_ids": [task["bullet"]],
        "status": "success" if task["mended"] else "failure",
        "ground_truth": task["right"],
        "test_report": text if task["mended"] else xml,
    }


def playbook() -> dict[str, Any]:
    """Return the bullets of the tasks as a playbook.json."""
    sections: dict[str, list[dict[str, Any]]] = {}
    for name, text in TASKS["bullets"].items():
        entry = {"name": name, "text": text, "helpful": 0, "harmful": 0}
        sections.setdefault(_SECTIONS[name[:3]], []).append(entry)
    return {"version": "1.0", "last_updated": None, "sections": sections}


def main(folder: Path) -> Path:
    """Write the playbook and the trajectories, and return the file of these."""
    out = folder / "trajectories.jsonl"
    found = [trajectory(task, folder / task["name"]) for task in TASKS["tasks"]]
    out.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in found), "utf-8")
    (folder / "playbook.json").write_text(json.dumps(playbook(), indent=2) + "\n", "utf-8")
    return out


if __name__ == "__main__":
    print(main(Path(sys.argv[1])))
