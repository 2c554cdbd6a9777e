"""The deterministic backend: judges each cited bullet by the evidence that follows its citation.

Invariant: the same messages give the same bytes. No network, no clock, no randomness; every finding stands in
`docs/rules.md` with its weight, and without evidence the tag is neutral.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflector.playbook.verdicts import VERDICTS, decisive
from reflector.reflection.protocol import Answer, BackendError, Request
from reflector.text.secrets import redact
from reflector.transcripts.citations import citations_of

if TYPE_CHECKING:
    from reflector.playbook.bullet import Bullet
    from reflector.reflection.resuming import Story
    from reflector.reflection.rules.citation import Citation
    from reflector.reflection.rules.weighing import Judgement, Weights
    from reflector.reflection.truth.asking import Question
    from reflector.transcripts.message import Message

_RATIONALE = 300
#: Evidence is quoted up to so many characters.
_CUT_QUOTE = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]+")


class Unsaid(LookupError):
    """A rationale quotes words before the place at which judging resumed, and the last answer lacks them."""


class RulesBackend:
    """`answer` gives one tag per cited bullet of the playbook, in order of first citation.

    `precision` is how many of 100 verdicts are to be right, by measurement: the fewer, the more it says. `weights` is a
    file of a person's own weights, None for those that ship.
    """

    name = "rules"
    is_model = False

    def __init__(self, precision: int = 85, weights: Path | None = None) -> None:
        self.precision = precision
        self._file = weights

    def answer(self, request: Request, part: int = 1) -> Answer:
        """Judges one window. Never raises for what the messages contain."""
        bullets = {bullet.name: bullet for bullet in request.playbook}
        cited = [name for name in dict.fromkeys(request.cited) if name in bullets]
        judged = {name: bullets[name] for name in cited}
        if cited and request.story is not None:
            return self._resume(request.story, judged)
        judging = self.judging(judged)
        for message in request.messages() if cited else ():
            judging.take(message, citations_of(message))
        return judging.answer(cited)

    def _resume(self, story: Story, judged: Mapping[str, Bullet]) -> Answer:
        """Judge a window from the state that the last judging of its session left, else from its first citation."""
        from reflector.reflection.rules.resume_points import ResumePoints

        held = story.held if story.held.get("by") == self.judging({}).by else {}
        for left in (held, {}) if held else ({},):
            judging = self.judging(judged)
            try:
                places, messages = story.messages(*left.get("place", (0, None)))
                if left:
                    judging.restore(left, story.said)
                points = ResumePoints(judging.reader, places)
                for message in messages:
                    points.come_to(message)
                    had = judging.reader.has_open
                    judging.take(message, citations_of(message))
                    points.cited(had)
                place, settled = points.last(), judging.settled()
                answer = judging.answer(judged)
            except Unsaid:
                continue
            story.keep(None if place is None else {**place.as_json(), **judging.left(settled)})
            return answer
        raise AssertionError("the second judging needs nothing")

    def judging(self, bullets: Mapping[str, Bullet]) -> Judging:
        """Return what judges the citations of bullets, by name, while messages are read. Raises BackendError."""
        # Most windows cite nothing and never come here: they need not wait for the rules' patterns.
        from reflector.reflection.rules.weighing import weights_of

        try:
            return Judging(bullets, self.precision, weights_of(self._file))
        except ValueError as error:
            raise BackendError(str(error), stage="backend") from error

    def reply(self, question: Question) -> Answer:
        """Answer a question about a trajectory, by its test report alone."""
        from reflector.reflection.rules.weighing import shipped
        from reflector.reflection.truth.verdicts import judged

        return Answer(text=_json(judged(question)), model=shipped().version)


class Judging:
    """Judges the citations of `bullets`, by name, in messages that it is given in their order."""

    def __init__(self, bullets: Mapping[str, Bullet], precision: int, weights: Weights) -> None:
        from reflector.reflection.rules.reading import Reader

        self.precision = precision
        self._weights = weights
        self.reader = Reader(bullets)
        self._judgements: dict[str, list[Judgement]] = {}
        self._said: dict[str, tuple[list[str], str]] = {}
        self._rationales: dict[str, str] = {}

    def take(self, message: Message, names: Iterable[str]) -> None:
        """Read the next message, which cites these names."""
        for citation in self.reader.take(message, names):
            self._judge(citation)

    def answer(self, cited: Iterable[str]) -> Answer:
        """Return a tag for each of the cited names, after the last message."""
        from reflector.reflection.rules.weighing import merge

        for citation in self.reader.left():
            self._judge(citation)
        verdicts = {name: merge(self._judgements.get(name, ())) for name in cited}
        self._rationales = {name: self._rationale(name, verdict) for name, verdict in verdicts.items()}
        tags = [
            {"name": name, "rationale": self._rationales[name], "tag": verdict.tag}
            for name, verdict in verdicts.items()
        ]
        text = _json({"analysis": _analysis(verdicts), "bullet_tags": tags})
        return Answer(text=text, model=self._weights.version, meta={"judgement": self._weighed(verdicts)})

    @property
    def by(self) -> str:
        """What tells apart those that judge differently."""
        return sha256(f"{self.precision} {self._weights!r}".encode("utf-8", "surrogatepass")).hexdigest()[:32]

    def settled(self) -> dict[str, list[Judgement]]:
        """Return the judgements so far, of each bullet in their order."""
        return {name: list(kept) for name, kept in self._judgements.items()}

    def left(self, settled: Mapping[str, Sequence[Judgement]]) -> dict[str, Any]:
        """Return, after the answer, what `restore` needs of what was settled before it, as JSON without quotes.

        A rationale stands in the answer. It is kept by its digest, where no later judgement can change it but by
        contradiction.
        """
        said: dict[str, tuple[list[str], str]] = {}
        for name, kept in settled.items():
            decided = _decided(kept)
            if decided and name in self._rationales and decided == _decided(self._judgements[name]):
                said[name] = [one.tag for one in decided], _digest(self._rationales[name])
        kept_ = {name: [[*astuple(replace(one, quote=""))] for one in kept] for name, kept in settled.items()}
        return {"by": self.by, "kept": kept_, "said": said}

    def restore(self, held: Mapping[str, Any], said: Mapping[str, str]) -> None:
        """Resume from what `left` returned and the rationales of that answer."""
        from reflector.reflection.rules.weighing import Judgement

        self.reader.restore(held["reader"])
        for name, kept in held["kept"].items():
            self._judgements[name] = [
                Judgement(tag, reason, quote, rule, (helpful, harmful), tuple(found), at)
                for tag, reason, quote, rule, (helpful, harmful), found, at in kept
            ]
        self._said = {
            name: (list(tags), said[name])
            for name, (tags, digest) in held["said"].items()
            if name in said and _digest(said[name]) == digest
        }

    def _rationale(self, name: str, verdict: Judgement) -> str:
        """Return the rationale of a verdict. Raises Unsaid where it quotes what an earlier reading has read, and
        was not said."""
        decided = _decided(self._judgements.get(name, ()))
        if not decided or decided[-1].quote:
            return rationale(verdict)
        tags, said = self._said.get(name, ([], ""))
        if tags != [one.tag for one in decided]:
            raise Unsaid(name)
        return said

    def _judge(self, citation: Citation) -> None:
        from reflector.reflection.rules.weighing import judge

        if citation.at < 0:
            return  # judged by an earlier reading
        kept = self._judgements.setdefault(citation.name, [])
        judgement = replace(judge(citation, self.precision, self._weights), at=citation.at)
        for number, known in enumerate(kept):
            if not known.quote and known == replace(judgement, quote=""):
                kept[number] = judgement  # read again, with its words
                return
        # The first of each tag is all that merging asks for, however often a bullet is cited.
        if all(known.tag != judgement.tag or max(judgement.estimates) > max(known.estimates) for known in kept):
            kept.append(judgement)

    def _weighed(self, verdicts: dict[str, Judgement]) -> dict[str, object]:
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


def _decided(kept: Sequence[Judgement]) -> list[Judgement]:
    return decisive(kept, lambda judgement: judgement.tag)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _json(answer: dict[str, object]) -> str:
    return json.dumps(answer, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def rationale(judgement: Judgement) -> str:
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


def _analysis(verdicts: dict[str, Judgement]) -> str:
    if not verdicts:
        return "Nothing to judge: the window cites no bullet of the playbook."
    counts = Counter(verdict.tag for verdict in verdicts.values())
    each = ", ".join(f"{counts[tag]} {tag}" for tag in VERDICTS if counts[tag])
    noun = "bullet" if len(verdicts) == 1 else "bullets"
    return f"{len(verdicts)} cited {noun} judged by what followed: {each}."
