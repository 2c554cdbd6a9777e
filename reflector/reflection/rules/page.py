"""`docs/rules.md`, written from the rows that the backend runs on.

Invariant: the page and the table cannot differ; a test compares them.
"""

from __future__ import annotations

from reflector.reflection.rules.table import VERSION, Rule, markdown
from reflector.reflection.rules.words_of_agents import RULES as AGENT
from reflector.reflection.rules.words_of_failures import RULES as FAILURES
from reflector.reflection.rules.words_of_people import RULES as PEOPLE
from reflector.reflection.rules.words_of_runners import COUNTED

#: Every row, in the order in which the page shows them.
ALL_RULES: tuple[Rule, ...] = PEOPLE + COUNTED + FAILURES + AGENT

#: Rules that look at what happened instead of at words.
BY_EVENT: dict[str, str] = {
    "refused-with-reason": "a person refused a tool call and said why, in whatever words",
    "interrupted": "a person interrupted without a word: ambiguous until the sequel",
    "bare-stop": "a person wrote nothing but stop: ambiguous until the sequel",
    "pasted-error": "a person pasted a stack trace or an error with few words of their own",
    "agent-concedes": "a person's remark that the agent took as a correction (see `concedes`)",
    "agent-glad": "a person's remark that the agent took as thanks (see `glad`)",
    "plan-approved": "a person approved the plan",
    "but": "praise, then a wish or an objection behind a but: an objection",
    "except": "it works except for something: mixed",
    "flagged-error": "a call of the step ended with an error that no row knows",
    "flagged-look": "a reading or tidying call ended with an error: mechanics",
    "no-complaint": "a linter, type checker or build ended without an error or a word of failure",
    "pushed": "a push ended without an error",
    "ran": "a command ended without an error: a hint that needs the agent's confirmation",
    "runs-now": "the very command that failed before the citation ended without an error",
    "background-failed": "the notice that a background command failed",
    "background-done": "the notice that a background check ended with exit code 0",
    "review-finding": "a review found faults in files or matters of the step",
    "reverted": "the agent restored files of the step with version control",
    "rewritten": "a person spoke and the agent rewrote what the step had written: takes a green away",
    "replaced": "the agent rewrote what the step had written, unasked: after a repeated error that is harmful",
    "edited-back": "an edit whose old and new text are those of an edit of the step, exchanged",
}

_TEXT = """# The `rules` backend

`rules` judges each cited bullet by what follows its citation on the same chain of the transcript. It needs no
network, no clock and no randomness: the same messages give the same bytes. Its answer's model is `{version}`;
the number changes whenever a table row or the order below changes a verdict.

Neutral is the default. A helpful or harmful tag names one decisive finding, quotes it (redacted, at most 300
characters) and gives the id of the rule that found it, so that `blame` leads to a row of this page. Two ids
joined by a plus sign mean that both were found in one message.

## How a citation is judged

1. **The step.** The calls that follow the citation until the agent speaks again are the cited step: a change, a
   check (tests, types, lint, build, CI, review), an act (run, install, ship, delegate), looking, tidying, or talk.
   Looking and tidying prove nothing by going well.
2. **The topic.** Evidence counts until a person turns to something else. The first message after the work may
   speak of "it"; later ones must name the advice or its files. After the topic only symptoms that persist, undone
   changes, red CI and review findings about the same files are heard.
3. **People.** An objection or a reported symptom is harmful, approval or building on the work is helpful, both
   may be neutral, and the later word wins. A person's message is read together with the agent's first words after it:
   "You're right" turns a polite remark into a correction. Questions, `continue` and new tasks say nothing.
   An interrupt without a reason says nothing; its sequel does. A refused call with its reason is an objection.
   An objection to something else does not refute advice about running checks. A problem of unclear origin, reported
   right after a change, takes a green away but does not condemn. What is approved after an objection is what the
   objection made of it: harmful stays, unless the person took it back or had only reported a problem that the
   agent then mended in place.
   Of several pieces of advice cited in one message an objection meets the one it names best and takes the green of
   the others away. Politeness ("thanks", "great, next …") praises a step only where its words or a green bear it out,
   "ok" accepts only what was asked, and to have a change committed praises nothing. A change of plans blames nothing.
   A message that praises one part and blames another meets each bullet by the part that names it. Approval does
   not cover a call that was stopped, nor a way that the agent left after it failed. Work that the agent rewrites
   after a person's remark loses its green.
4. **The agent.** A change that the agent takes back (`git restore`, the inverse edit, "let me revert") is
   harmful. A review that finds faults in it is harmful; faults that were found and then fixed are neutral.
   A step that failed, after which the agent says that it goes another way, is harmful unless that way is a detail,
   and so is one whose error came again and whose text the agent then replaced. Advice that is named only to be
   declined is neutral.
5. **Results.** The last run of each command decides: green is helpful, also after red; red for good is harmful
   for a change or an act, neutral for advice to run checks. The same error twice is harmful. Failures that the
   agent calls expected or older than the work are not counted, and an expected failure is what a red phase wants.
   That a change compiles, builds or lints says little about advice on other matters. Of several pieces of advice
   cited in one message the tests speak for those whose own words the commands, files or lines bear. Tests that are
   red and name nothing of the step do not condemn it.
   A command that could not be run as written is harmful unless the same kind of command then works without a
   word that the advice named. `is_error` alone decides nothing: text is read, mechanics are skipped.
6. **Finds.** A looking or checking step after which the agent names the cause is helpful.

Several citations of one bullet make one tag: neutral ones say nothing, agreeing ones stand, and contradicting ones
make neutral. A window without citations gets no tags.

A window is judged together with the windows before it of its session: their records are read again, so it does not
matter where a compaction, a stop or a resume cut the session. A verdict that stands adds no tag. A verdict that later
words change is taken out of the count by an `evidence.retracted` of `rules`, and the new one counts.

Known limits: sarcasm, remarks that are only understood from an image, what people write in languages other than
English, and results that only a person can see. Most of these end as neutral. Two things go wrong: an unrecognised
objection can leave a green standing (helpful), and a refusal or a fixed failure can condemn a bullet that was
cited in passing.

## By what happened

| rule | looks for |
|---|---|
{events}
## What people write

Rows of place *start* must open the message, *clause* a clause. Words of approval do not count behind "if",
"make sure" or a negation; pasted logs and code are not read as prose; of long messages only the opening is.

{people}
## What test runners, builds and CI print

Asked in this order; the first that matches decides. Case counts.

{counted}
## What failures print

{failures}
## What the agent says

These explain the message or the result before them; only finds and reverts are evidence of their own.

{agent}"""


def page() -> str:
    """Return the whole page."""
    return _TEXT.format(
        version=VERSION,
        events="".join(f"| `{rule}` | {looks_for} |\n" for rule, looks_for in BY_EVENT.items()),
        people=markdown(PEOPLE),
        counted=markdown(COUNTED),
        failures=markdown(FAILURES),
        agent=markdown(AGENT),
    )
