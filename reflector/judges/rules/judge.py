"""The deterministic backend: judges each cited bullet by the evidence that follows its citation.

Invariant: the same messages give the same bytes, without a network, a clock or randomness.
docs/judging.md lists every finding, and without evidence the tag is neutral.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from reflector.judges.protocol import Answer, Request
from reflector.playbook.bullet import VERDICTS
from reflector.text.lazy import lazy_pattern
from reflector.text.secrets import redact
from reflector.transcripts.citations import FOLLOWED

if TYPE_CHECKING:
    from reflector.judges.rules.findings import Judged

#: The most characters of a rationale. Evidence is cut to the second number of characters.
_RATIONALE = 300
_CUT_QUOTE = 200
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]+")


@dataclass(slots=True)
class _Ballot:
    """The verdicts on one bullet.

    first_by_tag  the first of each tag, but one that was not followed replaces one that was
    settled       the tags that no later record can change
    """

    first_by_tag: dict[str, Judged] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)

    def add(self, verdict: Judged) -> None:
        first = self.first_by_tag.setdefault(verdict.tag, verdict)
        if first.followed and not verdict.followed:
            self.first_by_tag[verdict.tag] = verdict


class _Decision(NamedTuple):
    """The tag of one citation, by its place and its bullet."""

    at: int
    name: str
    tag: str


@dataclass(frozen=True, slots=True)
class RulesBackend:
    """Gives one tag per cited bullet of the playbook, in order of first citation. With
    `wrong_counts`, a bullet is harmful if the agent itself called it wrong.
    """

    wrong_counts: bool = False
    name = "rules"
    is_model = False
    rereads = True
    quotes = False

    def answer(self, request: Request) -> Answer:
        """Judge one window. No content of the messages causes an error."""
        # Imported here, because most windows cite nothing and do not need the rules' patterns.
        from reflector.judges.rules.findings import VERSION, merge_judged

        ballots = self._ballots(request)
        verdicts = {name: merge_judged(ballots[name].first_by_tag) for name in ballots}
        settled = {name: sorted(ballot.settled) for name, ballot in ballots.items()}
        judgement = {
            "bullets": {name: list(verdict.names) for name, verdict in verdicts.items()},
            "settled": {name: tags for name, tags in settled.items() if tags},
        }
        answer = {
            "analysis": _analysis(verdicts),
            "bullet_tags": [_tag_of(name, verdict) for name, verdict in verdicts.items()],
        }
        text = json.dumps(
            answer, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return Answer(text, VERSION, meta={"judgement": judgement})

    def _ballots(self, request: Request) -> dict[str, _Ballot]:
        """Return the verdicts on each cited bullet. A verdict is settled if no later record can
        change it. Verdicts that were settled earlier are taken from the request.
        """
        from reflector.judges.rules.findings import Judged, judge_citation
        from reflector.judges.rules.follow import Reader

        bullets = {bullet.name: bullet for bullet in request.playbook}
        ballots = {name: _Ballot() for name in request.cited if name in bullets}
        reader = Reader({name: bullets[name] for name in ballots}, request.passed)
        decided: list[_Decision] = []
        for citation in reader.read(request.messages() if ballots else ()):
            if citation.at >= request.judged_from:
                verdict = judge_citation(citation, wrong_counts=self.wrong_counts)
                ballots[citation.name].add(verdict)
                decided.append(_Decision(citation.at, citation.name, verdict.tag))
        # Citations that are too far back to be judged again.
        for name, ballot in ballots.items():
            ballot.settled.update(request.settled.get(name, ()))
            for tag in VERDICTS:
                if tag in ballot.settled:
                    reason = f"{tag} at an earlier citation in the session"
                    ballot.first_by_tag.setdefault(tag, Judged(tag, reason))
        for decision in decided:
            has_passed = decision.at < reader.at - FOLLOWED  # no later record bears on it
            if has_passed and decision.tag != "neutral":
                ballots[decision.name].settled.add(decision.tag)
        return ballots


def _tag_of(name: str, verdict: Judged) -> dict[str, str]:
    tag = {"name": name, "rationale": rationale(verdict), "tag": verdict.tag}
    return tag if verdict.followed else tag | {"followed": "no"}


def rationale(verdict: Judged) -> str:
    """Return a verdict's reason, rule and quoted evidence, in one line of at most 300 characters.

    Secrets are removed from the quote. A quote of which nothing remains is omitted.
    """
    head = f"{verdict.reason} ({verdict.rule})" if verdict.rule else verdict.reason
    quote = verdict.quote
    if len(quote) >= _CUT_QUOTE:
        # The quote was cut there, so its last word may be half a secret, which `redact` would not
        # recognise.
        quote = quote[: quote.rfind(" ") + 1]
    # Control characters and those that turn the direction of text are removed, and surrogates are
    # replaced.
    printable = _CONTROL.sub(" ", redact(quote)).encode("utf-8", "replace").decode("utf-8")
    line = " ".join(printable.split())
    if not line:
        return head
    room = _RATIONALE - len(head) - 4
    return f'{head}: "{line if len(line) <= room else line[: room - 1] + "…"}"'


def _analysis(verdicts: dict[str, Judged]) -> str:
    if not verdicts:
        return "Nothing to judge: this part of the session does not cite a rule of the playbook."
    counts = Counter(verdict.tag for verdict in verdicts.values())
    each = ", ".join(f"{counts[tag]} {tag}" for tag in VERDICTS if counts[tag])
    noun = "bullet" if len(verdicts) == 1 else "bullets"
    return f"{len(verdicts)} cited {noun} judged by the evidence after each citation: {each}."
