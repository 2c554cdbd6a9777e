"""What the agent says after results: it explains them, and may tell of a find or a step back.

Invariant: a comment explains only the results since the last one, so "as expected" never excuses an
older failure.
"""

from __future__ import annotations

import re

from reflector.reflection.rules.chains import Chain
from reflector.reflection.rules.episode import Finding
from reflector.reflection.rules.table import found
from reflector.reflection.rules.topics import content_words
from reflector.reflection.rules.words_of_agents import RULES

_RULES = {rule.id: rule for rule in RULES}
#: A change that is undone to see a test fail is a check, not a change of mind.
_TRIAL = re.compile(
    r"temporar\w+|confirm\w*|verify|prove|sanity|mutat\w+|to (?:see|check|show|make sure)", re.IGNORECASE
)


def comment(chain: Chain, text: str, *, thinking: bool) -> None:
    """Reads the first 500 characters of what the agent says or thinks."""
    if any(True for _ in chain.listening):
        head = " ".join(text[:500].split())
        if chain.uncommented or chain.quiet:
            _explain(chain, head)
        _tell(chain, head)
    if not thinking:
        chain.uncommented, chain.quiet = [], []


def _explain(chain: Chain, head: str) -> None:
    expected = found(_RULES["expected-failure"], head)
    if expected or found(_RULES["unrelated-failure"], head):
        for finding in chain.uncommented:
            finding.excused = finding.sign < 0
            if finding.excused and not expected:
                finding.rule = "unrelated-failure"
    if found(_RULES["another-error"], head):
        for finding in chain.uncommented:
            finding.strength = 1 if finding.sign < 0 else finding.strength
        return
    good = found(_RULES["confirms"], head)
    bad = found(_RULES["reads-result-as-bad"], head)
    if good and not bad:
        for step, call_id in chain.quiet:
            quote = head[good.start() :][:200]
            confirmed = Finding("result", +1, 2, "confirms", quote, step.kind, step.family, "", step.command)
            chain.give(confirmed, call_id)
    elif bad and not good:
        for finding in chain.uncommented:
            if finding.sign > 0 and finding.strength == 1:
                finding.sign, finding.rule = -1, "reads-result-as-bad"
                finding.quote = head[bad.start() :][:200]
            if finding.sign < 0:
                finding.strength = max(finding.strength, 2)


def _tell(chain: Chain, head: str) -> None:
    # Later calls and changes have their own finds.
    finders = [
        episode for episode in chain.listening if episode.own and not episode.changed_later and episode.calls_later <= 2
    ]
    if finders and (find := found(_RULES["finds"], head)):
        finding = Finding("agent", +1, 3, "finds", head[find.start() :][:200])
        for episode in finders:
            episode.add(finding, own=True)
    changed = [episode for episode in chain.listening if episode.changed_after and not episode.step_open]
    if changed and (back := found(_RULES["reverts"], head)) and not _TRIAL.search(head):
        words = content_words(head)
        finding = Finding("agent", -1, 2, "reverts", head[back.start() :][:200])
        for episode in changed:
            episode.add(finding, bearing="yes" if episode.overlap(words) >= 2 else "no")
    for rule in ("abandons", "unavailable"):
        drop = found(_RULES[rule], head)
        if drop:
            finding = Finding("agent", -1, 1, rule, head[drop.start() :][:200])
            words = content_words(head)
            named = {id(episode): episode.overlap_with_advice(words) for episode in chain.episodes}
            for episode in chain.listening:
                most = max(named[id(other)] for other in chain.episodes if other.at == episode.at)
                dropped = 0 < named[id(episode)] == most
                episode.add(finding, own=episode.step_open, bearing="yes" if dropped else "no")
