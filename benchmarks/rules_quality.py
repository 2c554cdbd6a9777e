"""How often `rules` is right, on citations planted in real transcripts and labelled by reading.

    REFLECTOR_TRANSCRIPTS=… python benchmarks/rules_quality.py [--cases]

Each line of `rules_labels.jsonl` names a transcript, one assistant record, a bullet about that step, the
verdict of a careful reader, and why. The citation is planted into the stream of messages in memory; the
backend runs through its public interface. Beside it stands the naive rule "an error within ten records is
harmful, else neutral". Exit 2 when the transcripts are missing, 1 when the goal is missed.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reflector.playbook.bullet import Bullet
from reflector.reflection.backends.rules import RulesBackend
from reflector.reflection.protocol import Request
from reflector.transcripts.formats import read_messages
from reflector.transcripts.message import Message

TAGS = ("helpful", "harmful", "neutral")
#: What `rules` has to reach for helpful and for harmful each.
PRECISION, RECALL = 0.8, 0.5


@dataclass(frozen=True, slots=True)
class Case:
    """One planted citation; `uuid` is the record that cites, `text` the bullet's text."""

    file: str
    uuid: str
    text: str
    label: str
    reason: str


def planted(path: Path, uuid: str) -> Iterator[Message]:
    """The transcript's messages, with a citation in the record `uuid`."""
    for message in read_messages(path):
        if message.uuid == uuid and message.text.strip():
            yield message._replace(text=f"{message.text} [pat-001]")
        elif message.uuid == uuid:
            yield message._replace(thinking=f"{message.thinking} [pat-001]")
        else:
            yield message


def judged(path: Path, case: Case) -> tuple[str, str]:
    """Tag and rationale of `rules` for one case."""
    bullet = Bullet("pat-001", "pat", case.text)
    request = Request("benchmark", (bullet,), ("pat-001",), lambda: planted(path, case.uuid))
    tag = json.loads(RulesBackend().answer(request).text)["bullet_tags"][0]
    return tag["tag"], tag["rationale"]


def naive(path: Path, case: Case) -> str:
    """The baseline: a flagged error among the ten messages after the citation is harmful."""
    left = -1
    for message in read_messages(path):
        if message.uuid == case.uuid:
            left = 10
        elif left > 0:
            left -= 1
            if any(result.is_error for result in message.results):
                return "harmful"
    return "neutral"


def table(pairs: Counter[tuple[str, str]]) -> str:
    """Confusion matrix with precision and recall; rows are what a reader says, columns what was answered."""
    lines = [f"{'':10}" + "".join(f"{tag:>9}" for tag in TAGS) + "   recall"]
    for label in TAGS:
        row = [pairs[label, tag] for tag in TAGS]
        right = pairs[label, label]
        recall = f"{right}/{sum(row)} = {right / sum(row):.2f}" if sum(row) else "-"
        lines.append(f"{label:10}" + "".join(f"{count:>9}" for count in row) + f"   {recall}")
    shares = []
    for tag in TAGS:
        given = sum(pairs[label, tag] for label in TAGS)
        shares.append(f"{pairs[tag, tag]}/{given}={pairs[tag, tag] / given:.2f}" if given else "-")
    return "\n".join([*lines, f"{'precision':10}" + "".join(f"{share:>11}" for share in shares)])


def reached(pairs: Counter[tuple[str, str]]) -> bool:
    """True when helpful and harmful each reach the goal."""
    for tag in ("helpful", "harmful"):
        given = sum(pairs[label, tag] for label in TAGS)
        wanted = sum(pairs[tag, answer] for answer in TAGS)
        if not given or pairs[tag, tag] < PRECISION * given or pairs[tag, tag] < RECALL * wanted:
            return False
    return True


def main() -> int:
    """Prints both tables, with `--cases` also each wrong case."""
    here = Path(__file__).resolve().parent
    folder = Path(os.environ.get("REFLECTOR_TRANSCRIPTS") or here.parent.parent / "shared" / "transcripts")
    lines = (here / "rules_labels.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [Case(**json.loads(line)) for line in lines if line]
    missing = sorted({case.file for case in cases if not (folder / case.file).is_file()})
    if missing:
        print(
            f"transcripts are missing in {folder}: {', '.join(missing)}; set REFLECTOR_TRANSCRIPTS to their folder",
            file=sys.stderr,
        )
        return 2
    ours: Counter[tuple[str, str]] = Counter()
    baseline: Counter[tuple[str, str]] = Counter()
    for case in cases:
        tag, rationale = judged(folder / case.file, case)
        ours[case.label, tag] += 1
        baseline[case.label, naive(folder / case.file, case)] += 1
        if "--cases" in sys.argv and tag != case.label:
            print(f"{case.file} {case.uuid[:8]}: {case.label} expected, {tag} given\n  {case.text}\n  {rationale}")
    print(f"{len(cases)} citations in {len({case.file for case in cases})} transcripts\n")
    print(f"rules\n{table(ours)}\n\nan error within ten records is harmful\n{table(baseline)}")
    return 0 if reached(ours) else 1


if __name__ == "__main__":
    sys.exit(main())
