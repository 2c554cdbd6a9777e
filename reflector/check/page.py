"""The page of `check` in lines for a terminal: the files, the rules to look at, the others as
counts, and the next command at the end.

Invariant: the page has at most `HEIGHT` lines of at most `WIDTH` columns, measured as a terminal
shows them. Each row to look at has its evidence below it. A command to copy is never cut or broken.
With `whole`, the page has every rule in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date

from reflector.check.facts import FileFacts, PageFacts, RuleFacts, Step
from reflector.check.rows import (
    Part,
    Row,
    Speech,
    fact_rows,
    followed_words,
    known_words,
    needs_judge,
    part_of,
    parts,
    quiet_rows,
    rows_of,
)
from reflector.text.bounds import clean
from reflector.text.phrases import counted, plain_words
from reflector.text.width import broken, cut, width

WIDTH = 80
HEIGHT = 22
_MOST_FILES = 3
_INDENT = 6
_ALL = "check --all"
#: The most characters of a path.
_MAX_NAME = 1_000


def page_lines(facts: PageFacts, today: date, *, whole: bool = False) -> list[str]:
    """Return the lines of the page. With `whole`, the page contains every rule in full."""
    rules_by_part = parts(facts.rules)
    head = [*_head(facts)]
    steps = [*_steps(facts.closing)]
    if whole:
        lines = [*head, *_whole_rows(facts, today)]
        lines += _whole_parts(rules_by_part, Speech(facts.agent, today))
        lines += _whole_facts(facts)
        return [*lines, *steps]
    tail = [*_tail(facts, rules_by_part)]
    room = HEIGHT - len(head) - len(tail) - len(steps) - 1
    return [*(cut(line, WIDTH) for line in [*head, *_look(facts, today, room), *tail]), *steps]


def _head(facts: PageFacts) -> Iterator[str]:
    if len(facts.files) > _MOST_FILES:
        yield _files_line(facts.files)
    else:
        yield from map(_file_line, facts.files)
    yield _sessions_line(facts)
    if unknown := max((rule.unknown.sessions for rule in facts.rules), default=0):
        older = counted(unknown, "session")
        yield f"The counts include up to {older} that may be older than a rule."


def _file_line(file: FileFacts) -> str:
    name = clean(file.name, _MAX_NAME)
    if file.imports and not file.rules + file.facts:
        return f"{name}: imports {clean(', '.join(file.imports), _MAX_NAME)}"
    when = f"only for {', '.join(file.scope)}" if file.scope else "per session"
    return f"{name}: {_sizes(file.rules, file.facts, file.tokens)} {when}"


def _files_line(files: Sequence[FileFacts]) -> str:
    rules = sum(file.rules for file in files)
    number_of_facts = sum(file.facts for file in files)
    tokens = sum(file.tokens for file in files if not file.scope)
    return f"{len(files)} files: {_sizes(rules, number_of_facts, tokens)} per session"


def _sizes(rules: int, number_of_facts: int, tokens: int) -> str:
    return f"{counted(rules, 'rule')}, {counted(number_of_facts, 'fact')}, {tokens:,} tokens"


def _sessions_line(facts: PageFacts) -> str:
    sent = "" if facts.was_sent else " Nothing was sent anywhere."
    if facts.first is None:
        return f"reflector found no session of this folder.{sent}"
    words = f"{counted(facts.sessions, 'session')} since {facts.first.day} {facts.first:%b}"
    if facts.since_edit is not None:
        number = "all" if facts.since_edit == facts.sessions else facts.since_edit or "none"
        words += f", {number} since the last edit"
    return f"{words}.{sent}"


def _look(facts: PageFacts, today: date, room: int) -> Iterator[str]:
    """Yield as many rows to look at as the room allows. If there are none, yield other counts.

    room  the most lines below the heading
    """
    if rows := rows_of(facts, today):
        yield "LOOK AT THESE"
        yield from _rows_in(room, rows, facts)
        return
    yield _nothing_words(facts)
    if rows := quiet_rows(facts, today):
        yield "OTHER COUNTS"
        yield from _rows_in(room - 1, rows, facts)


def _rows_in(room: int, rows: Sequence[Row], facts: PageFacts) -> Iterator[str]:
    """Yield as many rows as the room allows, and then the number of the other rows."""
    label_width = _label_width(rows, len(facts.files))
    used = 0
    for index, row in enumerate(rows):
        is_alike = index > 0 and row.evidence == rows[index - 1].evidence
        row_lines = [*_row_lines(row, label_width, is_alike=is_alike)]
        reserve = 1 if index + 1 < len(rows) else 0
        used += len(row_lines)
        if used + reserve > room:
            yield f"{' ' * label_width}  and {len(rows) - index:,} more: {_ALL}"
            return
        yield from row_lines


def _nothing_words(facts: PageFacts) -> str:
    """Return the reason why there is nothing to look at."""
    if not facts.rules:
        return "These files do not contain a rule that a session could follow or break."
    if any(rule.counts.sessions or rule.judged_since.asked for rule in facts.rules):
        checked = sum(part_of(rule) is not Part.JUDGE for rule in facts.rules)
        return (
            f"LOOK AT THESE: none. Without a judge, reflector can check {checked} of "
            f"{counted(len(facts.rules), 'rule')}."
        )
    is_older = any(rule.before.sessions for rule in facts.rules)
    reason = "every session is older than these rules" if is_older else "no session was counted"
    return f"LOOK AT THESE: none, because {reason}."


def _row_lines(row: Row, label_width: int, *, is_alike: bool) -> Iterator[str]:
    """Yield a row in one line if it fits or is alike, else with its evidence below it.

    is_alike  whether its evidence equals the evidence of the row above
    """
    evidence = "; ".join(row.evidence)
    label = f"{_label(row.label, label_width):>{label_width}}"
    room = WIDTH - label_width - 2
    text = row.text
    if is_alike and room - width(text) - width(evidence) < 2:
        evidence = "as above"
        text = cut(text, room - width(evidence) - 2)
    spare = room - width(text) - width(evidence)
    if spare >= 2:
        yield f"{label}  {text}{' ' * spare}{evidence}"
        return
    yield f"{label}  {cut(row.text, room)}"
    shown = row.evidence[0]
    for more in row.evidence[1:]:
        if width(f"{shown}; {more}") <= room:
            shown = f"{shown}; {more}"
    yield from (f"{' ' * (label_width + 2)}{line}" for line in broken(shown, room))


def _label(place: str, label_width: int) -> str:
    """Return a place in the given width: only the line number in a narrow column, else its end."""
    place = clean(place, _MAX_NAME)
    if label_width < _INDENT:
        return place.rpartition(":")[2]
    return place if len(place) <= label_width else f"…{place[1 - label_width :]}"


def _label_width(rows: Sequence[Row], number_of_files: int) -> int:
    """Return the width of the labels. If there is only one file, the labels are line numbers."""
    if number_of_files < 2:
        return max(4, *(len(row.label.rpartition(":")[2]) for row in rows))
    return min(24, max(_INDENT, *(len(row.label) for row in rows)))


def _tail(facts: PageFacts, rules_by_part: Mapping[Part, list[RuleFacts]]) -> Iterator[str]:
    """Yield the lines below the rows: the number of rules that need no look, by the reason."""
    if followed := rules_by_part[Part.FOLLOWED]:
        first = followed[0]
        share = followed_words(first).partition(";")[0]
        frame = f'FOLLOWED: {counted(len(followed), "rule")}, such as "" ({share})'
        text = cut(plain_words(first.text), max(12, WIDTH - width(frame)))
        yield frame.replace('""', f'"{text}"')
    others = (Part.UNSEEN, Part.NEW, Part.JUDGE)
    shown = [*filter(None, (_heading(part, rules_by_part) for part in others))]
    if facts.rules:
        more = ", and the sessions of a row marked +" if facts.repeated else ""
        shown.append(f"To see every rule{more}: {_ALL}")
    lines: list[str] = []
    for words in shown:
        if lines and width(f"{lines[-1]}   {words}") <= WIDTH:
            lines[-1] += f"   {words}"
        else:
            lines.append(words)
    yield from lines


def _heading(part: Part, rules_by_part: Mapping[Part, list[RuleFacts]]) -> str:
    """Return the name of a part with the number of its rules; "" for a part without rules. Rules
    that you repeated may need a judge, too.
    """
    rules = rules_by_part[part]
    above = sum(map(needs_judge, rules_by_part[Part.LOOK])) if part is Part.JUDGE else 0
    words = f"{part.upper()}: {counted(len(rules) + above, 'rule')}"
    if part is Part.UNSEEN:
        words += f" ({sum(rule.tokens for rule in rules):,} tokens)"
    if above:
        words += f", {above} of them above"
    return words if rules or above else ""


def _steps(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the next commands, each with its reason. A long command has a line of its own."""
    for reason, command in steps:
        line = f"{reason}: {command}" if command else reason
        if width(line) <= WIDTH:
            yield line
        else:
            yield from broken(f"{reason}:", WIDTH)
            yield command


def _whole_rows(facts: PageFacts, today: date) -> Iterator[str]:
    rows = rows_of(facts, today)
    if not rows:
        yield _nothing_words(facts)
        return
    yield f"LOOK AT THESE: {len(rows)}"
    label_width = _label_width(rows, len(facts.files))
    for row in rows:
        yield from _labelled(row.label, label_width, [row.text, *row.evidence, *row.quotes])


def _whole_parts(rules_by_part: Mapping[Part, list[RuleFacts]], speech: Speech) -> Iterator[str]:
    for part, rules in rules_by_part.items():
        if part is Part.LOOK or not rules:
            continue
        yield _heading(part, rules_by_part)
        for rule in rules:
            yield from _labelled(
                rule.place, len(rule.place), [plain_words(rule.text), *known_words(rule, speech)]
            )


def _whole_facts(facts: PageFacts) -> Iterator[str]:
    if facts.facts:
        yield f"FACTS: {sum(heading.facts for heading in facts.facts)}"
    for row in fact_rows(facts.facts, facts.sessions):
        yield from _labelled(row.label, len(row.label), [", ".join([row.text, *row.evidence])])


def _labelled(label: str, label_width: int, texts: Sequence[str]) -> Iterator[str]:
    """Yield texts beside a label, each broken into lines."""
    shown = f"{_label(label, label_width):>{label_width}}"
    for text in texts:
        for line in broken(text, max(20, WIDTH - label_width - 2)):
            yield f"{shown}  {line}"
            shown = " " * label_width
