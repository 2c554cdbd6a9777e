# ruff: noqa: E501 - the lines of the page are as long as in the other pages of docs.
"""`docs/rules.md`, written from the findings, weights and wordings that the backend runs on.

Invariant: the page and the data cannot differ; a test compares them.
"""

from __future__ import annotations

import json
from importlib.resources import files

import reflector.reflection.rules
from reflector.reflection.rules.findings import FINDINGS
from reflector.reflection.rules.weighing import shipped
from reflector.reflection.rules.wordings import all_wordings

_TEXT = """<!-- generated -->
# The `rules` backend

`rules` judges each cited bullet by what follows its citation in the same conversation. It needs no network, no clock and
no randomness: the same messages give the same bytes. Its answer's model is `{version}`; the number changes whenever a
finding, a wording or a weight changes a verdict.

Neutral is the default. A wrong count does lasting damage, a missing one costs nothing, so `rules` speak only where such
verdicts were right {precision} times of 100 on labelled sessions that had no part in them.

## How a citation is judged

1. **The step.** The calls that follow the citation until the agent speaks again are the cited step.
2. **The results** are the checks and commands that run until a person speaks. Text decides, not the error flag: a pipe hides
   a failure, and slips of the editing tool are no failure. Failures that the agent calls expected or older are left out.
   Lint, types and builds that pass prove something only if they belong to the step or had been red before it.
3. **The first word** is the first message of a person after the step that is more than a go-ahead of up to five words. It
   is an objection if one of the signs below stands in its opening, or if the agent takes it as a correction ("You're
   right"). A message that says that it works is praise, with a wish behind it as well. Behind a question mark nothing
   is praise. To be committed, pushed or merged is acceptance. Pasted logs and code are not read.
4. **Later words.** The next four messages are heard too. They count only if they name the advice, or accept the work before
   anybody objected. So a later word beats an earlier green, and what has nothing to do with the advice beats nothing.
5. **The sum.** Each finding adds its points for helpful and for harmful to what every citation starts with. The estimate
   is 1 / (1 + e^-sum). The higher of the two becomes the verdict if it reaches its cutoff and a quote bears it out.

A person's words that are not in English are not read: no green stands against them, and the verdict is neutral. So is that
on advice that the agent names only to decline it. Several citations of one bullet make one tag: neutral ones say nothing,
agreeing ones stand, contradicting ones make neutral.

| finding | it is there when | helpful | harmful |
|---|---|--:|--:|
| | what every citation starts with | {start_helpful} | {start_harmful} |
{findings}
**An example.** The agent edits a file, the tests pass, the next message is "commit". That is `accepted` and
`check-passed`: {example} for helpful, an estimate of {estimate}, above the cutoff of {cutoff_helpful}. Had the message been
"why is the total still wrong?", of advice about totals, it would be `objects`, `names-the-advice` and `objects-strongly`
(two signs): {objection} for harmful, an estimate of {objected}, above {cutoff_harmful}.

A verdict's rationale names the finding that weighs most and the wording that it rests on, and quotes the evidence (redacted,
at most 300 characters). The recorded answer's `meta.judgement` holds the precision that was asked for, both estimates of
each bullet and all of its findings.

A window is judged together with the windows before it of its session: their records are read again, so it does not
matter where a compaction, a stop or a resume cut the session. A verdict that stands adds no tag. A verdict that later
words change is taken out of the count by an `evidence.retracted` of `rules`, and the new one counts.

## How often it is right

Measured by `python -m benchmarks.judgement FOLDER` on {citations} labelled citations in real sessions of {groups} groups: each
group is judged with points and cutoffs of the other groups, without the wordings that were made in view of it. *Chosen*
are points where something could be judged, 139; *random* ones, 50, were drawn among all steps, of which 1 was harmful.

{curve}
The setting `judgement_precision` (default {precision}) is how many of 100 verdicts have to be right, chosen and random points
together. It stands for these cutoffs; where none is given, nothing of that kind is said:

{cutoffs}
Known limits: sarcasm, remarks that are only understood from an image, results that only a person can see, words in other
languages than English. Two things go wrong: an objection that no sign betrays leaves a green standing (helpful), and an
objection to another part of the same work condemns a step that shares a word with it (harmful).

## What is read

Signs of an objection: {signs}.

Other words of people: {people}. Of the agent: {agent}.

Runners and tools whose results are known: {runners}. Not failures of the work but mechanics: {mechanics}.

The expressions stand in `reflector/reflection/rules/wordings.tsv`, each with an example and a counter-example.
"""


def page() -> str:
    """Return the whole page."""
    weights = shipped()
    data = json.loads(files(reflector.reflection.rules).joinpath("weights.json").read_text(encoding="utf-8"))
    helpful, harmful = weights.points["helpful"], weights.points["harmful"]
    accepted, objected = ("accepted", "check-passed"), ("objects", "names-the-advice", "objects-strongly")
    shares = sorted(set(weights.cutoffs["helpful"]) | set(weights.cutoffs["harmful"]))
    return _TEXT.format(
        version=weights.version,
        precision=85,
        start_helpful=_points(helpful[""]),
        start_harmful=_points(harmful[""]),
        findings="".join(
            f"| `{name}` | {when} | {_points(helpful[name])} | {_points(harmful[name])} |\n"
            for name, (_, when) in FINDINGS.items()
        ),
        example=" ".join(_points(helpful[name]) for name in ("", *accepted)),
        estimate=f"{weights.estimate('helpful', accepted):.2f}",
        cutoff_helpful=f"{weights.cutoff('helpful', 85):.2f}",
        objection=" ".join(_points(harmful[name]) for name in ("", *objected)),
        objected=f"{weights.estimate('harmful', objected):.2f}",
        cutoff_harmful=f"{weights.cutoff('harmful', 85):.2f}",
        citations=data["fitted_on"]["citations"],
        groups=data["fitted_on"]["groups"],
        curve="".join(f"{line}\n" for line in data["curve"]),
        cutoffs="| precision asked | "
        + " | ".join(map(str, shares))
        + " |\n|---|"
        + "--:|" * len(shares)
        + "\n"
        + "".join(
            f"| cutoff for {side} | "
            + " | ".join(f"{cut:.2f}" if (cut := weights.cutoff(side, share)) < 1 else "–" for share in shares)
            + " |\n"
            for side in ("helpful", "harmful")
        ),
        signs=_listed("sign"),
        people=_listed("person"),
        agent=_listed("agent"),
        runners=_listed("counted", "check", "line", examples=False),
        mechanics=_listed("mechanics", examples=False),
    )


def _points(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _listed(*kinds: str, examples: bool = True) -> str:
    """Rows by id, with an example where it is short; what fails and what passes of one runner make one entry."""
    shown: dict[str, str] = {}
    for row in all_wordings():
        if row.kind in kinds:
            name = row.id if examples else row.id.removesuffix("-failed").removesuffix("-passed")
            shown.setdefault(name, f'`{name}` ("{" ".join(row.example.split())}")' if examples else f"`{name}`")
    return ", ".join(shown.values())
