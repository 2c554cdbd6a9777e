"""The deterministic backend: judges each cited bullet by the evidence that follows its citation.

Invariant: the same messages give the same bytes. No network, no clock, no randomness; every finding
stands in `docs/judging.md`, and without evidence the tag is neutral.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from reflector.judges.protocol import Answer, Request
from reflector.playbook.bullet import VERDICTS
from reflector.text.secrets import redact
from reflector.transcripts.citations import FOLLOWED

if TYPE_CHECKING:
    from reflector.judges.rules.findings import Judged

#: A rationale, and the evidence that it quotes, have up to so many characters.
_RATIONALE, _CUT_QUOTE = 300, 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]+")


class RulesBackend:
    """Gives one tag per cited bullet of the playbook, in order of first citation. With
    `wrong_counts`, the agent's own word that a bullet was wrong makes it harmful.
    """

    name = "rules"
    is_model = False
    rereads = True
    quotes = False

    def __init__(self, *, wrong_counts: bool = False) -> None:
        self.wrong_counts = wrong_counts

    def answer(self, request: Request) -> Answer:
        """Judge one window. Never raises for what the messages contain."""
        # Most windows cite nothing and never come here: they need not wait for the rules' patterns.
        from reflector.judges.rules.findings import VERSION, Judged, judge, merge
        from reflector.judges.rules.follow import Reader

        bullets = {bullet.name: bullet for bullet in request.playbook}
        cited = [name for name in dict.fromkeys(request.cited) if name in bullets]
        reader = Reader({name: bullets[name] for name in cited}, request.passed)
        # The first of each tag is all that merging asks for, however often a bullet is cited.
        judged: dict[str, dict[str, Judged]] = {name: {} for name in cited}
        places: list[tuple[int, str, str]] = []
        for citation in reader.read(request.messages() if cited else ()):
            if citation.at >= request.judged:
                one = judge(citation, wrong_counts=self.wrong_counts)
                places.append((citation.at, citation.name, one.tag))
                known = judged[citation.name].get(one.tag)
                if known is None or (known.followed and not one.followed):
                    judged[citation.name][one.tag] = one
        settled = {name: set(tags) for name, tags in request.settled.items()}
        for name in cited:  # citations that are too far back to be judged again
            for before in (tag for tag in VERDICTS if tag in settled.get(name, ())):
                judged[name].setdefault(
                    before, Judged(before, (f"{before} at an earlier citation of the session"))
                )
        for at, name, tag in places:  # no later record bears on these
            if at < reader.at - FOLLOWED and tag != "neutral":
                settled.setdefault(name, set()).add(tag)
        verdicts = {name: merge([*judged[name].values()]) for name in cited}
        judgement = {
            "bullets": {name: list(verdict.found) for name, verdict in verdicts.items()},
            "settled": {name: sorted(tags) for name, tags in settled.items() if tags},
        }
        answer = {
            "analysis": _analysis(verdicts),
            "bullet_tags": [_said(*one) for one in verdicts.items()],
        }
        text = json.dumps(
            answer, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
        )
        return Answer(text, VERSION, meta={"judgement": judgement})


def _said(name: str, verdict: Judged) -> dict[str, str]:
    said = {"name": name, "rationale": rationale(verdict), "tag": verdict.tag}
    return said if verdict.followed else said | {"followed": "no"}


def rationale(verdict: Judged) -> str:
    """Return a verdict's reason, rule and evidence as quoted, in one line of at most 300
    characters.
    """
    head = f"{verdict.reason} ({verdict.rule})" if verdict.rule else verdict.reason
    quote = verdict.quote
    if not quote:
        return head
    if len(quote) >= _CUT_QUOTE:
        quote = quote[: quote.rfind(" ") + 1]  # the last word may be half a secret
    # Control characters and those that turn the direction of text are left out, surrogates
    # replaced.
    quote = " ".join(
        _CONTROL.sub(" ", redact(quote)).encode("utf-8", "replace").decode("utf-8").split()
    )
    room = _RATIONALE - len(head) - 4
    return f'{head}: "{quote if len(quote) <= room else quote[: room - 1] + "…"}"'


def _analysis(verdicts: dict[str, Judged]) -> str:
    if not verdicts:
        return "Nothing to judge: the window cites no bullet of the playbook."
    counts = Counter(verdict.tag for verdict in verdicts.values())
    each = ", ".join(f"{counts[tag]} {tag}" for tag in VERDICTS if counts[tag])
    noun = "bullet" if len(verdicts) == 1 else "bullets"
    return f"{len(verdicts)} cited {noun} judged by what followed: {each}."
