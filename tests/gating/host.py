"""An agent loop of somebody else's, small and whole: it retrieves, plans, speaks, applies, and logs each stage.

`python -m tests.gating.host FOLDER MODE` plays four turns of two agents. MODE is `without` (the loop as it was before
anybody wrote a reflection step), or one of `config`, `plan` and `dry`, in which the step is there and its gate is
closed in that way, or `open`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SAID = [
    ("AgentA", "Which port does the staging database use?"),
    ("AgentB", "日本語のメモを残して。 It is naïve – and TZ matters!"),
    ("AgentA", "And the port of the cache?"),
    ("AgentB", "Repeat the memo, please."),
]
DOCUMENTS = [
    "The staging database listens on port 5433.",
    "The cache listens on port 6380.",
    "Memos are kept for 30 days; a memo has one author.",
]


class Host:
    """The loop, its memory and its logs."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.folder, self.mode = folder, mode
        self.memory: list[dict[str, Any]] = [{"id": f"doc-{n}", "text": text} for n, text in enumerate(DOCUMENTS)]

    def log(self, stage: str, **record: Any) -> None:
        with (self.folder / f"{stage}.jsonl").open("a", encoding="utf-8", newline="\n") as file:
            file.write(json.dumps(record, sort_keys=True) + "\n")

    def turn(self, number: int, agent: str, said: str) -> None:
        words = {word.strip("?.,!;").lower() for word in said.split()}
        ranked = sorted(self.memory, key=lambda one: (-len(words & {*one["text"].lower().split()}), one["id"]))
        found = [one["text"] for one in ranked[:3]]
        self.log("t2", turn=number, agent=agent, retrieved=[one["id"] for one in ranked[:3]])
        plan = {"ops": ["answer"], "reflection": self.mode != "plan"}
        self.log("t4", turn=number, agent=agent, ops=plan["ops"])
        utter = f"{agent}: {found[0]}"
        print(utter)
        if self.mode != "dry":
            self.log("apply", turn=number, agent=agent, state=len(self.memory))
        self.log("turn", turn=number, agent=agent, utter=utter)
        if self.mode != "without":
            self.reflect(number, agent, plan, utter, found)

    def reflect(self, number: int, agent: str, plan: dict[str, Any], utter: str, found: list[str]) -> None:
        """The step, as docs/embedding.md shows it."""
        from reflector.gated import FILE_NAME, ReflectionBundle, ReflectionLog, after_turn, entry_id, load_config

        ctx = {
            "agent_id": agent,
            "turn_id": number,
            "now_ms": 1_000 * number,
            "_dry_run_until_t4": self.mode == "dry",
        }
        result = after_turn(
            ReflectionBundle(ctx, {}, plan, utter, found),
            load_config({"t3": {"allow_reflection": self.mode != "config"}}),
            log=ReflectionLog(self.folder / FILE_NAME),
        )
        for slot, entry in enumerate(result.memory_entries if result else ()):
            self.memory.append({"id": entry_id(agent, number, slot, entry["text"]), **entry})


def main(folder: str, mode: str) -> None:
    host = Host(Path(folder), mode)
    for number, (agent, said) in enumerate(SAID, start=1):
        host.turn(number, agent, said)
    (Path(folder) / "memory.json").write_text(json.dumps(host.memory), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
