"""The parts of the page, and the signals that put a rule among those to look at.

Invariant: a signal is evidence in your terms: a count of sessions, or a path. A rule belongs to
exactly one part. A kind of signal is one row of `SIGNALS`: its name in JSON, its count, and its
words. The first signal of a rule decides the order of its row, and the words of all signals are
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from reflector.check.facts import Counts, HeadingFacts, PageFacts, Repeated, RuleFacts
from reflector.text.phrases import counted, on_day, plain_words

#: The least share of occasions at which a rule counts as followed.
FOLLOWED_SHARE = 0.8
#: The fewest sessions for the claims "followed before it existed" and "named in none".
_FEWEST = 5
#: The most rules, and the most facts, of a page without a rule to look at.
_MOST_QUIET = 4


class Part(StrEnum):
    """A part of the page."""

    LOOK = "look"
    FOLLOWED = "followed"
    UNSEEN = "never came up"
    NEW = "newer than all sessions"
    JUDGE = "needs a judge"


class Speech(NamedTuple):
    """The agent that a sentence names, and today's date."""

    agent: str
    today: date


class Signal(NamedTuple):
    """A reason to look at a rule.

    group  the place of its rows. In a group, rows with the most sessions come first
    count  returns the number of sessions that show it; 0 if it does not apply
    words  returns its evidence in a clause
    """

    group: int
    count: Callable[[RuleFacts], int]
    words: Callable[[RuleFacts, Speech], str]


class Row(NamedTuple):
    """A row to look at: a rule, or a sentence that is not in any rule.

    evidence  the strongest first
    rank      the group of its signal, its count and its share; they decide the order of the rows
    quotes    your sentences, each with its session
    """

    label: str
    text: str
    evidence: tuple[str, ...]
    rank: tuple[float, ...] = ()
    quotes: tuple[str, ...] = ()


def part_of(rule: RuleFacts) -> Part:
    """Return the part of the page to which a rule belongs."""
    return Part.LOOK if signals_of(rule) else _part_without_signals(rule)


def needs_judge(rule: RuleFacts) -> bool:
    """Return whether only a judge can find out if a rule was followed. Your own words do not show
    it.
    """
    is_only_repeated = signals_of(rule) in ([], [_SAID_AGAIN])
    return is_only_repeated and _part_without_signals(rule) is Part.JUDGE


def _part_without_signals(rule: RuleFacts) -> Part:
    if _is_followed(rule):
        return Part.FOLLOWED
    if not rule.counts.sessions and not rule.judged_since.asked:
        return Part.NEW if rule.before.sessions else Part.JUDGE
    if _never_came_up(rule):
        return Part.UNSEEN
    return Part.JUDGE


def parts(rules: Iterable[RuleFacts]) -> Mapping[Part, list[RuleFacts]]:
    """Return the rules of each part. Rules with the most evidence come first."""
    rules_by_part: dict[Part, list[RuleFacts]] = {part: [] for part in Part}
    for rule in rules:
        rules_by_part[part_of(rule)].append(rule)
    rules_by_part[Part.FOLLOWED].sort(key=lambda rule: -_followed(rule)[0])
    rules_by_part[Part.UNSEEN].sort(key=lambda rule: -rule.tokens)
    return rules_by_part


def signals_of(rule: RuleFacts) -> list[Signal]:
    """Return the signals of a rule, the strongest first."""
    signals = (signal for signal in SIGNALS if signal.count(rule))
    return sorted(signals, key=lambda signal: (signal.group, -signal.count(rule)))


def rows_of(facts: PageFacts, today: date) -> list[Row]:
    """Return the rows to look at, the most useful first."""
    speech = Speech(facts.agent, today)
    rows = [_row(rule, speech) for rule in facts.rules if signals_of(rule)]
    rows += [repeated_row(repeated) for repeated in facts.repeated]
    return sorted(rows, key=lambda row: row.rank)


def _row(rule: RuleFacts, speech: Speech) -> Row:
    signals = signals_of(rule)
    strongest = signals[0]
    number = strongest.count(rule)
    share = number / (rule.counts.came_up or rule.counts.sessions or 1)
    evidence = [signal.words(rule, speech) for signal in signals]
    if needs_judge(rule):
        evidence.append("needs a judge")
    elif signals == [_SAID_AGAIN] and _is_followed(rule):
        evidence.append(f"followed in {followed_words(rule)}")
    rank = strongest.group, -number, -share
    return Row(rule.place, plain_words(rule.text), tuple(evidence), rank)


def quiet_rows(facts: PageFacts, today: date) -> list[Row]:
    """Return counts for a page without a rule to look at.

    They are counts of some rules, first those whose command ran least. Facts that no session named
    follow if there are enough sessions. A page without rules has all facts.
    """
    speech = Speech(facts.agent, today)
    others = (rule for rule in facts.rules if part_of(rule) is not Part.FOLLOWED)
    known = [
        Row(rule.place, plain_words(rule.text), tuple(known_words(rule, speech)))
        for rule in sorted(others, key=lambda rule: rule.counts.ran)
    ]
    rows = [row for row in known if row.evidence]
    idle = [
        heading
        for heading in facts.facts
        if heading.used is not None and not (heading.used and facts.rules)
    ]
    headings = fact_rows(idle if facts.sessions >= _FEWEST else (), facts.sessions)
    return [*rows[:_MOST_QUIET], *islice(headings, _MOST_QUIET)]


def fact_rows(headings: Iterable[HeadingFacts], sessions: int) -> Iterator[Row]:
    """Yield a row for the facts of each heading. The longest that no session named come first."""
    for heading in sorted(headings, key=lambda heading: (heading.used or 0, -heading.tokens)):
        size = f"{counted(heading.facts, 'fact')}, {heading.tokens:,} tokens"
        used = _share_words("named in", (heading.used or 0, sessions))
        evidence = () if heading.used is None else (used,)
        yield Row(heading.place, f"{heading.heading or '(no heading)'}: {size}", evidence)


def repeated_row(repeated: Repeated) -> Row:
    """Return the row of your sentences that say no rule again."""
    number = counted(repeated.sessions, "session")
    evidence = f"not in a rule; you said it in {number}"
    if repeated.topic:
        rule = f"see {repeated.rules[0]}" if repeated.rules else "no rule asks for this"
        evidence = f"you asked for {repeated.topic} in {number}; {rule}"
    quotes = tuple(f'{session[:8]}  "{words}"' for session, words in repeated.said.items())
    return Row("+", f'"{repeated.words}"', (evidence,), _REPEATED_RANK, quotes)


def followed_words(rule: RuleFacts) -> str:
    """Return how often sessions followed a rule, and how often before it existed; "" if unknown."""
    yes, number = _followed(rule)
    before_yes, before_number = _followed(rule, before=True)
    before = f"; before the rule, {before_yes} of {before_number}" if before_number else ""
    return f"{yes} of {counted(number, 'session')}{before}" if number else ""


def category_words(rule: RuleFacts) -> str:
    """Return the reason why a rule is in its part of the page; "" if its counts show the reason."""
    part = part_of(rule)
    if part is Part.JUDGE:
        why = _why_a_judge(rule)
        return f"needs a judge: {why}" if why else "no session was counted"
    if part is Part.UNSEEN:
        return f"did not come up in {counted(rule.counts.sessions, 'session')}"
    return "no session since the rule was added" if part is Part.NEW else ""


def _why_a_judge(rule: RuleFacts) -> str:
    if rule.judged_since.asked:
        return "a judge has read too few sessions"
    if not rule.counts.sessions:
        return ""
    if rule.lacks_start:
        session = rule.occasion.replace("sessions", "a session", 1)
        return f"the transcript of {session} does not contain the session's start"
    if rule.names_command:
        return "reflector cannot see when the rule applies"
    if rule.has_words:
        return "the agent can follow the rule without naming it"
    return "no command or edit shows whether the rule was followed"


def known_words(rule: RuleFacts, speech: Speech) -> Iterator[str]:
    """Yield the counts of a rule that is not among the rules to look at.

    A new rule without sessions has the counts of earlier sessions.
    """
    part = part_of(rule)
    if rule.result:
        yield f"result: {rule.result}"
    if part is Part.FOLLOWED or (part is Part.JUDGE and rule.judged_since.followed):
        yield f"followed in {followed_words(rule)}"
    elif part is Part.NEW:
        earlier = rule.earlier()
        signals = [signal.words(earlier, speech) for signal in signals_of(earlier)]
        yield from (
            f"before the rule: {words.replace('repeated this rule', 'said it')}"
            for words in signals or known_words(earlier, speech)
        )
    elif rule.counts.ran:
        yield _ran_words(rule)
    if is_followed_before(rule):
        yield "sessions also followed the advice before the rule existed"


def _ran_words(rule: RuleFacts) -> str:
    """Return how often the agent ran what a rule names, and whether the rule asks for it."""
    share = _share_words("in", (rule.counts.ran, rule.counts.sessions))
    if rule.names_command:
        return f"the agent ran {rule.ran or 'a command'}, as the rule asks, {share}"
    if rule.ran and not rule.ran.startswith("`"):
        return f"the agent {rule.ran} {share}"
    return f"a command contained {rule.ran or 'words of the rule'} {share}, which is not evidence"


def is_followed_before(rule: RuleFacts) -> bool:
    """Return whether sessions followed a rule before it existed, and still follow it."""
    return all(
        number >= _FEWEST and yes >= FOLLOWED_SHARE * number
        for yes, number in (_followed(rule), _followed(rule, before=True))
    )


def _followed(rule: RuleFacts, *, before: bool = False) -> tuple[int, int]:
    """Return the number of sessions that followed a rule, and of those that could follow it.

    The numbers are from the answers of judges if there are any, else from the commands that ran.
    """
    answers = rule.judged_before if before else rule.judged_since
    if answers.followed:
        return sum(answers.followed.values()), len(answers.followed)
    counts = rule.before if before else rule.counts
    if not (rule.has_words and (rule.names_command or _names_breach(rule))):
        return 0, 0
    return min(counts.done, counts.came_up), counts.came_up


def _is_followed(rule: RuleFacts) -> bool:
    yes, number = _followed(rule)
    return number > 0 and yes >= FOLLOWED_SHARE * number


def _never_came_up(rule: RuleFacts) -> bool:
    """Return whether no session shows a sign of a rule, although sessions could show one."""
    if rule.judged_since.asked:
        return not rule.judged_since.relevant
    counts = rule.counts
    return _calls_can_show(rule) and not (counts.came_up or counts.run or counts.written)


def _calls_can_show(rule: RuleFacts) -> bool:
    """Return whether the calls of sessions show each time that a rule applied."""
    if rule.lacks_start or not (rule.has_words and rule.counts.sessions):
        return False
    if _names_breach(rule):
        return True
    # Without an occasion, calls do not show when a command was due.
    return rule.occasion != "" if rule.names_command else not rule.may_apply


def _names_breach(rule: RuleFacts) -> bool:
    """Return whether a rule contains forbidden words, such as `npm`. Each call with such a word
    shows that the agent broke the rule.
    """
    return rule.forbids or rule.is_choice


def _broken(rule: RuleFacts) -> int:
    return _no(rule.judged_since.followed)[0] if "not followed" in rule.result else 0


def _broken_words(rule: RuleFacts, _: Speech) -> str:
    words = _share_words("broken in", _no(rule.judged_since.followed), "that a judge read")
    return words + _before_words(_no(rule.judged_before.followed))


def _harmed(rule: RuleFacts) -> int:
    return _no(rule.judged_since.helped)[0] if "harmful" in rule.result else 0


def _harmed_words(rule: RuleFacts, _: Speech) -> str:
    return _share_words("harmed in", _no(rule.judged_since.helped), "in which the rule came up")


def _no(answers: Mapping[str, bool]) -> tuple[int, int]:
    return sum(not answer for answer in answers.values()), len(answers)


def _share_words(verb: str, share: tuple[int, int], which: str = "") -> str:
    number, total = share
    return f"{verb} {number:,} of {counted(total, 'session')} {which}".rstrip()


def _before_words(share: tuple[int, int]) -> str:
    number, total = share
    return f"; before the rule, in {number:,} of {total:,}" if total else ""


def _said_words(rule: RuleFacts, speech: Speech) -> str:
    words = _share_words("you repeated this rule in", (rule.counts.said, rule.counts.sessions))
    if rule.last_said is None:
        return words
    return f"{words}, last {on_day(rule.last_said.day, speech.today)}"


def _breaches(rule: RuleFacts, counts: Counts) -> int:
    """Return the least number of sessions in which the agent broke a rule."""
    return max(counts.written, counts.run) if rule.forbids else counts.against


def _breached_words(rule: RuleFacts, speech: Speech) -> str:
    counts = rule.counts
    deed = f"{speech.agent} {_breach(rule)} in"
    words = _share_words(deed, (_breaches(rule, counts), counts.sessions))
    return words + _before_words((_breaches(rule, rule.before), rule.before.sessions))


def _breach(rule: RuleFacts) -> str:
    """Return the act of the agent against a rule. The forbidden tokens have names such as "`npm`",
    "`src/`" or "pushed with force".
    """
    name = rule.breached
    if name and not name.startswith("`"):
        return name
    if rule.forbids:
        verb = "wrote" if rule.counts.written >= rule.counts.run else "ran"
    else:
        verb = "changed files in" if name.endswith("/`") else "used"
    return f"{verb} {name or 'it'}"


def _missed(rule: RuleFacts) -> int:
    is_asked_for = rule.occasion and rule.names_command
    if rule.judged_since.followed or not is_asked_for or _is_followed(rule):
        return 0
    yes, number = _followed(rule)
    return number - yes


def _missed_words(rule: RuleFacts, _: Speech) -> str:
    counts = rule.counts
    verb = "run beforehand" if rule.is_before else "run"
    occasion = rule.occasion.removeprefix("sessions")
    words = _share_words(f"{verb} in", (counts.run, counts.came_up), occasion.lstrip())
    if counts.came_up == 1:
        words = f"not {verb} in the only session{occasion}"
    return words + _before_words((rule.before.run, rule.before.came_up))


def _doubted(rule: RuleFacts) -> int:
    no, number = _no(rule.judged_since.followed)
    return no if no * 2 > number and not rule.result else 0


def _doubted_words(rule: RuleFacts, _: Speech) -> str:
    return _share_words(
        "broken in", _no(rule.judged_since.followed), "that a judge read, too few to tell"
    )


#: The signal of your own words, which does not show whether the agent followed the rule.
_SAID_AGAIN = Signal(2, lambda rule: rule.counts.said, _said_words)
#: The kinds of evidence, the strongest first.
SIGNALS: Sequence[Signal] = (
    Signal(0, _broken, _broken_words),
    Signal(1, _harmed, _harmed_words),
    Signal(2, lambda rule: _breaches(rule, rule.counts), _breached_words),
    _SAID_AGAIN,
    Signal(2, _missed, _missed_words),
    Signal(
        4,
        lambda rule: int(bool(rule.missing)),
        lambda rule, _: f"{rule.missing} does not exist any more",
    ),
    Signal(5, _doubted, _doubted_words),
)
#: Sentences that are not in any rule come after rules that were broken or repeated.
_REPEATED_RANK = (3,)
