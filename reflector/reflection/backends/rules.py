"""The deterministic backend: judges each cited bullet by the evidence that follows its citation.

Invariant: the same messages give the same bytes. No network, no clock, no randomness; every finding stands in
`docs/judging.md` with its weight, and without evidence the tag is neutral.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from reflector.playbook.counting import VERDICTS
from reflector.reflection.protocol import Answer, Request
from reflector.text.secrets import redact
from reflector.transcripts.citations import FOLLOWED, citations_of

if TYPE_CHECKING:
    from reflector.playbook.bullet import Bullet
    from reflector.reflection.rules.citation import Citation
    from reflector.reflection.rules.weighing import Weighed, Weights
    from reflector.reflection.truth.asking import Question
    from reflector.transcripts.message import Message

_RATIONALE = 300
#: Evidence is quoted up to so many characters.
_CUT_QUOTE = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]+")


class RulesBackend:
    """`answer` gives one tag per cited bullet of the playbook, in order of first citation.

    `precision` is how many of 100 verdicts are to be right, by measurement: the fewer, the more it says.
    """

    name = "rules"
    is_model = False
    rereads = True

    def __init__(self, precision: int = 85) -> None:
        self.precision = precision

    def answer(self, request: Request) -> Answer:
        """Judges one window. Never raises for what the messages contain."""
        bullets = {bullet.name: bullet for bullet in request.playbook}
        cited = [name for name in dict.fromkeys(request.cited) if name in bullets]
        judged = {name: bullets[name] for name in cited}
        judging = self.judging(judged, request)
        for message in request.messages() if cited else ():
            judging.take(message, citations_of(message))
        return judging.answer(cited)

    def judging(self, bullets: Mapping[str, Bullet], request: Request) -> Judging:
        """Return what judges the citations of bullets, by name, while messages are read."""
        # Most windows cite nothing and never come here: they need not wait for the rules' patterns.
        from reflector.reflection.rules.weighing import shipped

        return Judging(bullets, self.precision, shipped(), request)

    def reply(self, question: Question) -> Answer:
        """Answer a question about a trajectory, by its test report alone."""
        from reflector.reflection.rules.weighing import shipped
        from reflector.reflection.truth.verdicts import judged

        return Answer(text=_json(judged(question)), model=shipped().version)


class Judging:
    """Judges the citations of `bullets`, by name, in messages that it is given in their order."""

    def __init__(self, bullets: Mapping[str, Bullet], precision: int, weights: Weights, request: Request) -> None:
        from reflector.reflection.rules.follow import Reader

        self.precision = precision
        self._weights = weights
        self._judged, self._settled = request.judged, request.settled
        self.reader = Reader(bullets, request.passed)
        self._judgements: dict[str, list[Weighed]] = {}
        #: The tag of each citation, by its place in the session.
        self._tags: list[tuple[int, str, str]] = []

    def take(self, message: Message, names: Iterable[str]) -> None:
        """Read the next message, which cites these names."""
        for citation in self.reader.take(message, names):
            self._judge(citation)

    def answer(self, cited: Iterable[str]) -> Answer:
        """Return a tag for each of the cited names, after the last message."""
        from reflector.reflection.rules.weighing import merge

        for citation in self.reader.left():
            self._judge(citation)
        verdicts = {name: merge([*self._judgements.get(name, ()), *self._said(name)]) for name in cited}
        tags = [
            {"name": name, "rationale": rationale(verdict), "tag": verdict.tag} for name, verdict in verdicts.items()
        ]
        text = _json({"analysis": _analysis(verdicts), "bullet_tags": tags})
        return Answer(
            text=text,
            model=self._weights.version,
            meta={"judgement": {**self._weighed(verdicts), "settled": self._all_settled()}},
        )

    def _judge(self, citation: Citation) -> None:
        from reflector.reflection.rules.weighing import judge

        if citation.at < self._judged:
            return
        kept = self._judgements.setdefault(citation.name, [])
        judgement = judge(citation, self.precision, self._weights)
        # The first of each tag is all that merging asks for, however often a bullet is cited.
        if all(known.tag != judgement.tag or max(judgement.estimates) > max(known.estimates) for known in kept):
            kept.append(judgement)
        self._tags.append((citation.at, citation.name, judgement.tag))

    def _said(self, name: str) -> list[Weighed]:
        """Return the verdicts on citations of a bullet that are too far back to be judged again."""
        from reflector.reflection.rules.weighing import Weighed

        tags = (tag for tag in VERDICTS if tag in self._settled.get(name, ()))
        return [Weighed(tag, f"{tag} at an earlier citation of the session") for tag in tags]

    def _all_settled(self) -> dict[str, list[str]]:
        """Return the verdicts on citations that no later record bears on, by name."""
        found = {name: set(tags) for name, tags in self._settled.items()}
        for at, name, tag in self._tags:
            if at < self.reader.at - FOLLOWED and tag != "neutral":
                found.setdefault(name, set()).add(tag)
        return {name: sorted(tags) for name, tags in found.items() if tags}

    def _weighed(self, verdicts: dict[str, Weighed]) -> dict[str, object]:
        """Return what each verdict rests on, so that another precision can be asked for later."""
        estimated = {
            name: {
                "helpful": f"{verdict.estimates[0]:.2f}",
                "harmful": f"{verdict.estimates[1]:.2f}",
                "found": list(verdict.found),
            }
            for name, verdict in verdicts.items()
        }
        return {"precision": self.precision, "bullets": estimated}


def _json(answer: dict[str, object]) -> str:
    return json.dumps(answer, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def rationale(judgement: Weighed) -> str:
    """Return the verdict in one line of at most 300 characters: the reason, the rule, the evidence as quoted."""
    head = judgement.reason
    if judgement.rule:
        head = f"{head} ({judgement.rule})"
    if not judgement.quote:
        return head
    quote = judgement.quote
    if len(quote) >= _CUT_QUOTE:
        quote = quote[: quote.rfind(" ") + 1]  # the last word may be half a secret
    quote = _printable(redact(quote))
    room = _RATIONALE - len(head) - 4
    if len(quote) > room:
        quote = quote[: room - 1] + "…"
    return f'{head}: "{quote}"'


def _printable(text: str) -> str:
    """Without control characters and those that turn the direction of text; surrogates replaced."""
    return " ".join(_CONTROL.sub(" ", text).encode("utf-8", "replace").decode("utf-8").split())


def _analysis(verdicts: dict[str, Weighed]) -> str:
    if not verdicts:
        return "Nothing to judge: the window cites no bullet of the playbook."
    counts = Counter(verdict.tag for verdict in verdicts.values())
    each = ", ".join(f"{counts[tag]} {tag}" for tag in VERDICTS if counts[tag])
    noun = "bullet" if len(verdicts) == 1 else "bullets"
    return f"{len(verdicts)} cited {noun} judged by what followed: {each}."
