"""The text that the next start prints for the agent: the best part of the playbook that fits.

Invariant: the text fits. If it is longer than 10,000 characters, Claude Code gives the agent a
2,000-character preview of a file, and no model was seen to open that file. So the best bullets are
taken first while the longer of the two forms (JSON with its escapes) stays within `LIMIT`, and the
text shows the number of omitted ones. A cited name means the bullet for which its citation counts.
If the project's playbook and the user's own have the same name, it is the project's. If a
playbook.json does not decide this, or belongs to another ledger, its own ledger is read.

The text is rendered when the projection is written, and by the hook itself if a playbook or a
template changed since then. The ranking also needs facts beside the counters of each bullet, which
are kept for the hook, because it opens no ledger. They change only with the playbook, the settings
of the ranking, or the turn (of `TURN` texts). So all starts between two changes get the same bytes,
without a clock.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reflector import handover
from reflector.files import error_words, open_ours, read_ours
from reflector.judges.prompts import fill, find_template
from reflector.locate import own_folder, user_folder
from reflector.playbook.admissible import hidden_fault, same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import MAX_BYTES, load
from reflector.playbook.names import SECTIONS, USER_FIRST
from reflector.playbook.ranking import RankingFacts, choose, pinned_names
from reflector.sessions.told import TURN, ranking_facts
from reflector.text.lazy import lazy_pattern
from reflector.text.phrases import counted
from reflector.text.secrets import quote
from reflector.transcripts.tellings import Telling, telling_of
from reflector.trials.placebo import placebo_text

if TYPE_CHECKING:
    from reflector.config import Config
    from reflector.embed.lessons.book import LessonBook
    from reflector.ledger.store import Ledger
    from reflector.playbook.document import Loaded
    from reflector.playbook_files.playbook_json import Known
    from reflector.project import Project

#: The most characters of stdout, in UTF-16 code units because the agent's JavaScript counts those.
LIMIT = 9_500
#: The client's own markup, which a bullet must not imitate.
_REMINDER = lazy_pattern(r"<(?=/?system-reminder)", re.IGNORECASE)
#: The words of a file in the name of a place in it, or in a reason.
_QUOTED = lazy_pattern(r"""(['"]).*\1""")
#: The beginning of a lesson's id, as it is shown.
_LESSON_ID = lazy_pattern("[0-9a-f]{8}")
#: The section of the lessons.
LESSONS = "LESSONS"
#: The title above the rules that you wrote and the headings of your file.
YOUR_RULES = "## YOUR RULES (written by your user)"
_MOST_LESSONS = 20
#: The beginning of the section of a user's rule; its heading in the file follows.
_OWN = "own "
#: The file in the user's own folder of the project with the facts of the ranking and the lessons.
RANKS = "ranks.json"
_MAX_RANKS_BYTES = 8 << 20
_OWN_FILE = ".claude/playbook.json"


class LessonBullet(Bullet):
    """A lesson in the form of a bullet. Its successes and failures are its counters."""

    __slots__ = ()

    @property
    def line(self) -> str:
        return f"[lesson {self.name[:8]}] {' '.join(self.text.split())}"


class OwnRule(Bullet):
    """A rule that you wrote into a file before it was moved into the playbook. Its section is its
    heading in that file.
    """

    __slots__ = ()

    @property
    def line(self) -> str:
        if self.helpful or self.harmful:
            return Bullet(self.name, self.section, self.text, self.helpful, self.harmful).line
        return f"[{self.name}] :: {' '.join(self.text.split())}"


class Injection(NamedTuple):
    """The two forms of one text, both "" without bullets and troubles, and the numbers of shown and
    omitted bullets.
    """

    text: str
    json: str
    shown: int
    left_out: int

    @property
    def line(self) -> str:
        """The number of bullets, for the user; "" for an empty text."""
        count = self.shown + self.left_out
        cut = f", {self.shown} shown" if self.left_out else ""
        return f"playbook: {counted(count, 'rule')}{cut}" if self.text else ""


class Trouble(NamedTuple):
    """The reason why a playbook.json is not shown, and the advice to the agent about it."""

    reason: str
    advice: str


def _template(project: Path) -> str:
    """Return the text of the playbook's template in force.

    Raises: ValueError if it is unusable.
    """
    template = find_template("playbook.txt", project)
    if template.text.lstrip().startswith("{{"):
        raise ValueError(
            f"the template {template.path} begins with '{{', so Claude Code would read the text as "
            "JSON and refuse it; begin the template with another character"
        )
    return template.text


def render_injection(
    bullets: Iterable[Bullet],
    form: str,
    files: Sequence[str] = (_OWN_FILE,),
    troubles: Sequence[Trouble] = (),
    ranking: RankingFacts | None = None,
) -> Injection:
    """Return a template's text with the bullets that a ranking chooses, grouped by section. The
    section of the best bullet is the first.

    files     contain the bullets that do not fit
    troubles  follow the bullets

    The section titles stay, because the same words mean the opposite under MISTAKES TO AVOID. The
    user's rules have the headings of their file instead.

    Raises:
        ValueError: the template alone leaves no room for any bullet
    """
    bullets = list(bullets)
    notes = "".join(f"\n\n({trouble.reason}. {trouble.advice})" for trouble in troubles)
    notes = _REMINDER.sub("&lt;", notes)
    if not bullets:
        text = notes.lstrip("\n") + "\n" if notes else ""
        return Injection(text, text and _as_json(text), 0, 0)
    count = sum(not isinstance(bullet, LessonBullet) for bullet in bullets)
    rest = (fill(form, {"key_points": ""}), _left_out(count, files, "0" * 8), notes)
    room = LIMIT - len(_as_json("")) - sum(map(_cost, rest))
    if any(_is_own(bullet.section) for bullet in bullets):
        room -= _cost(f"{YOUR_RULES}\n\n")
    choice = choose(bullets, ranking or RankingFacts(), room, _cost_of)
    if not choice.bullets:
        raise ValueError(
            f"the playbook template is so long that no rule fits into {LIMIT:,} characters; "
            "shorten the template"
        )
    shown = sum(not isinstance(bullet, LessonBullet) for bullet in choice.bullets)
    blocks = _blocks(choice.bullets)
    points = "\n\n".join(blocks) + _left_out(count - shown, files, choice.seed) + notes
    text = fill(form, {"key_points": points}).rstrip("\n") + "\n"
    return Injection(text, _as_json(text), shown, count - shown)


def _blocks(bullets: Iterable[Bullet]) -> list[str]:
    """Return the sections with their titles. The user's rules are one block, which is the first."""
    sections: dict[str, list[str]] = {}
    for bullet in bullets:
        sections.setdefault(bullet.section, []).append(_line(bullet))
    own = [_block(section, lines) for section, lines in sections.items() if _is_own(section)]
    others = [_block(title, lines) for title, lines in sections.items() if not _is_own(title)]
    return ["\n".join([YOUR_RULES, *own]), *others] if own else others


def _cost_of(bullet: Bullet, sections: Collection[str]) -> int:
    """Return the number of characters that a bullet adds to a text with the titles of these
    sections.
    """
    heading = "" if bullet.section in sections else f"\n{_block(bullet.section, [])}"
    return _cost(f"{heading}{_line(bullet)}\n")


def _line(bullet: Bullet) -> str:
    return _REMINDER.sub("&lt;", bullet.line)


def _block(section: str, lines: Sequence[str]) -> str:
    """Return a section with its title. The user's rules without a heading need no title."""
    title = SECTIONS.get(section, LESSONS)
    marks = f"## {title}\n"
    if _is_own(section):
        heading = section.removeprefix(_OWN)
        marks = f"### {_REMINDER.sub('&lt;', heading)}\n" if heading else ""
    return marks + "\n".join(lines)


def _is_own(section: str) -> bool:
    return section.startswith(_OWN)


def _left_out(count: int, files: Sequence[str], seed: str) -> str:
    if not count:
        return ""
    points = "1 more bullet was" if count == 1 else f"{count} more bullets were"
    hold = f"{' and '.join(files)} {'hold' if len(files) > 1 else 'holds'}"
    return f"\n\n({points} left out here for length, by draw {seed}; {hold} them all.)"


def _as_json(text: str) -> str:
    answer = {"hookSpecificOutput": {"hookEventName": "SubagentStart", "additionalContext": text}}
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _cost(text: str) -> int:
    """Return the characters of `text` in the JSON form, which is never the shorter one."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-16-le")) // 2 - 2


def write_injection(
    project: str | os.PathLike[str],
    ask: Callable[[], Known | None] | None = None,
    name: str = handover.INJECTION,
    kept: Callable[[], bytes] | None = None,
) -> bytes:
    """Render the project's and the user's playbook.json for the hook; return the bytes of the file
    `name`. It is injection.txt or, during a trial, the text without the trial's rules or with its
    placebo.

    Entries that are not bullets, or have no name to cite yet, are skipped; the import shows the
    reasons. If the user's playbook cannot be opened, the project's is shown alone. If a folder
    cannot be written, the text is rendered again at the next start.

    ask   returns the ledger's answer about the playbook, if the ledger is open
    kept  returns the bytes if the ledger must be proved first, because no start waits for that

    Raises:
        OSError: there is no playbook.json
        ValueError: the template is unusable
    """
    from reflector.ledger.errors import LedgerStrange

    folder = Path(project)
    users = Path(user_folder())
    try:
        own = _read_playbook(folder, _OWN_FILE, USER_FIRST if folder == users else 0, ask)
    except LedgerStrange as error:
        if kept is None:
            raise ValueError(str(error)) from error
        return kept()
    # Taken before the user's playbook is read: if that changes meanwhile, the next start renders
    # the text again.
    stamp = handover.injection_stamp(os.fspath(project), own.state)
    bullets = list(own.bullets)
    troubles = list(own.troubles)
    files = [_OWN_FILE]
    if folder != users and (users_playbook := _users_playbook(users)) is not None:
        bullets += _only_users(users_playbook.bullets, own.bullets)
        troubles += users_playbook.troubles
        files.append(_path_of(users))
    all_ranks = list(map(_kept_ranks, dict.fromkeys((users, folder))))
    ranking, lessons = _ranking_facts_in(all_ranks)
    bullets = [*_with_headings(bullets, _headings_in(all_ranks)), *lessons]
    form = _template(folder) if bullets else ""
    render = partial(render_injection, files=files, troubles=troubles, ranking=ranking)
    whole = render(bullets, form)
    line = _start_line(whole, troubles)
    texts = {handover.INJECTION: whole}
    if trial := _trial_note(folder):
        line += " · a trial runs" if line else ""
        own_names = {bullet.name for bullet in [*own.bullets, *lessons]}
        shown = [bullet for bullet in bullets if not _is_withheld(bullet, trial.names, own_names)]
        texts[handover.WITHOUT] = render(shown, form)
        if trial.has_placebo:
            texts[handover.PLACEBO] = _with_placebo(texts, shown, form, render)
    contents = {file: _content(stamp, line, rendered) for file, rendered in texts.items()}
    for file, content in contents.items():
        _store(os.fspath(project), content, file)
    return contents.get(name, contents[handover.INJECTION])


def _with_placebo(
    texts: Mapping[str, Injection],
    shown: Sequence[Bullet],
    form: str,
    render: Callable[[Sequence[Bullet], str], Injection],
) -> Injection:
    """Return the text of the shown bullets with a placebo that is as long as the withheld ones."""
    withheld = len(texts[handover.INJECTION].text) - len(texts[handover.WITHOUT].text)
    placebo = placebo_text(withheld)
    with_placebo = render(shown, f"{form.rstrip()}\n\n{placebo}")
    return with_placebo if shown else _alone(placebo, with_placebo)


def _alone(placebo: str, notes: Injection) -> Injection:
    """Return the text of a placebo without any bullet, after the notes."""
    text = f"{notes.text}\n{placebo}\n".lstrip("\n")
    return Injection(text, _as_json(text), 0, 0)


def _content(stamp: bytes, line: str, rendered: Injection) -> bytes:
    """Return the content of the file that the hook reads. It has a line each for the stamp, the
    user, the hook's note and the JSON form, then the text.
    """
    forms = (line, _in_short(rendered.text), rendered.json, rendered.text)
    return b"\n".join((stamp, *(form.encode("utf-8", "replace") for form in forms)))


def _store(project: str, content: bytes, file: str) -> None:
    try:
        handover.write_own(project, file, content)
    except (OSError, ValueError) as error:
        if own_folder(project):  # without a home folder, `doctor` reports it
            trouble = (
                "reflector could not store the text that an agent gets when a session starts; "
                "the next session makes the text again"
            )
            handover.complain(f"{trouble}: {error_words(error)}")


def _path_of(folder: Path) -> str:
    return str(folder / _OWN_FILE)


def _users_playbook(users: Path) -> _Playbook | None:
    """Return the user's own playbook; None if it is missing or cannot be opened."""
    from reflector.ledger.errors import LedgerStrange

    try:
        return _read_playbook(users, _path_of(users), USER_FIRST)
    except FileNotFoundError:
        return None
    except (OSError, LedgerStrange) as error:
        handover.complain(f"the agent does not get your own playbook: {error_words(error)}")
        return None


def _only_users(users: Iterable[Bullet], projects: Iterable[Bullet]) -> list[Bullet]:
    """Return the user's bullets that have neither a name nor a text of the project's bullets."""
    projects = list(projects)
    names = {bullet.name for bullet in projects}
    # A text that is shown twice would have two names, and chance would divide its evidence.
    texts = {same_words(bullet.text) for bullet in projects}
    return [
        bullet
        for bullet in users
        if bullet.name not in names and same_words(bullet.text) not in texts
    ]


def _start_line(rendered: Injection, troubles: Sequence[Trouble]) -> str:
    """Return the line about the playbook for the user."""
    reasons = "; ".join(trouble.reason for trouble in troubles)
    if not reasons:
        return rendered.line
    return f"playbook: {' '.join(reasons.split())}; see `reflector doctor`"


class _TrialNote(NamedTuple):
    """The names of the bullets that a running trial withholds: "*" for all, "-" before an exempt
    one.
    """

    names: set[str]
    has_placebo: bool


def _trial_note(folder: Path) -> _TrialNote | None:
    """Return the content of a trial's note; None without a trial."""
    note = handover.read_own(os.fspath(folder), handover.TRIAL, handover.MAX_TOLD)
    words = note.decode("utf-8", "replace").split()
    return _TrialNote(set(words[3:]), "+" in words[1]) if words[3:] else None


def _is_withheld(bullet: Bullet, names: set[str], own_names: set[str]) -> bool:
    """Return whether a trial withholds a bullet; "*" means all of the project's own."""
    is_own = "*" in names and bullet.name in own_names
    return bullet.name in names or (is_own and f"-{bullet.name}" not in names)


def _in_short(text: str) -> str:
    """Return the note about a rendered text that `told_by_hook` reads: digest, seed or "-",
    names.
    """
    telling = telling_of(text)
    if telling is None:
        return ""
    return " ".join((telling.digest, telling.seed or "-", *telling.bullets, *telling.lessons))


def told_by_hook(project: Path | None, session_id: str) -> tuple[Telling, ...]:
    """Return the texts that the start hook printed for a session, from its notes, oldest first."""
    beginning = f"{session_id}\t".encode("utf-8", "replace")
    tellings = []
    for line in _notes(project, handover.TOLD):
        if line.startswith(beginning):
            note = line.removeprefix(beginning).decode("utf-8", "replace")
            digest, seed, *names = note.split(" ")
            bullets = tuple(name for name in names if not _LESSON_ID.fullmatch(name))
            lessons = tuple(name for name in names if _LESSON_ID.fullmatch(name))
            tellings.append(Telling(bullets, lessons, digest, seed.strip("-")))
    return tuple(tellings)


def is_fork(project: Path | None, session_id: str) -> bool:
    """Return whether the hook noted during a trial that a session began as a fork of another
    one.
    """
    return session_id.encode("utf-8", "replace") in _notes(project, handover.FORKS)


def _notes(project: Path | None, name: str) -> list[bytes]:
    if project is None:
        return []
    return handover.read_own(os.fspath(project), name, 2 * handover.MAX_TOLD).splitlines()


class _Playbook(NamedTuple):
    """The state of a playbook file, its bullets that can be cited, and the reasons why others are
    not shown.
    """

    state: os.stat_result
    bullets: Sequence[Bullet]
    troubles: tuple[Trouble, ...] = ()


def _read_playbook(
    folder: Path, path: str, first: int, ask: Callable[[], Known | None] | None = None
) -> _Playbook:
    """Return the playbook.json of a project: its bullets that can be cited, or the ledger's bullets
    if the file's are not shown.

    path   the name of the file for users
    first  the lowest number of a new name
    ask    reads the ledger of the file instead of `_of_ledger`

    Raises: OSError, LedgerStrange.
    """
    with open_ours(folder / _OWN_FILE) as file:
        state = os.fstat(file.fileno())
        loaded = load(file.read(MAX_BYTES + 1), first=first)
    hidden = {bullet.text for bullet in loaded.bullets if hidden_fault(bullet.text)}
    # A file that no ledger wrote cannot be another ledger's, and reading a ledger delays the start.
    is_written = loaded.last_updated is not None
    needs_ledger = is_written or loaded.problems or loaded.uncounted or hidden
    known: Known | None = None
    if needs_ledger:
        known = ask() if ask is not None else _of_ledger(folder)
    live = known.bullets if known is not None else ()
    trouble = _trouble_of(loaded, known, path) or _hidden_trouble(hidden, live, path)
    if trouble is not None:
        return _Playbook(state, live, (trouble,))
    if loaded.format == "foreign" and (known is None or known.found.kind == "foreign"):
        return _Playbook(state, live)
    removed = known.removed if known is not None else ()
    return _Playbook(state, _citable(loaded, live, removed))


def _hidden_trouble(hidden: set[str], live: Sequence[Bullet], path: str) -> Trouble | None:
    """Return the reason to report if a text with invisible characters is not in the ledger, which
    has such texts from before they were refused.
    """
    if hidden.issubset(bullet.text for bullet in live):
        return None
    return Trouble(
        f"{path} has an invisible character in a rule, so its rules are not shown",
        "Ask the user to correct the file; `reflector list` names the rule with this character.",
    )


def _trouble_of(loaded: Loaded, known: Known | None, path: str) -> Trouble | None:
    """Return the reason to report if a file's entries are not shown. Return None if they are shown,
    and for another tool's file, because such a file is not an error.
    """
    kind = known.found.kind if known is not None else loaded.format
    if loaded.format == "foreign" and kind == "foreign":
        return None
    problems = loaded.problems if loaded.format in ("unreadable", "foreign") else ()
    if known is not None and kind == "unreadable":
        problems = known.found.loaded.problems
    if problems:
        # Only the user's command shows words of the file: here they would look like our own.
        reason = f"{problems[0].position}: {problems[0].message}"
        return Trouble(
            f"{path} cannot be read: {_QUOTED.sub('…', reason)}",
            "Ask the user to correct the file, or to run `reflector rebuild` if the rules in the "
            "ledger are correct.",
        )
    if kind == "another's":
        return Trouble(
            f"{path} was written by another ledger, so its rules are not shown",
            "Tell the user to run `reflector doctor`.",
        )
    return None


def _citable(loaded: Loaded, live: Sequence[Bullet], removed: Collection[str]) -> list[Bullet]:
    """Return the bullets of a file that can be cited, with the ledger's counters.

    Some entries have no name to cite: the file lacks the name, or the name belongs to a removed
    bullet that git brought back. Such an entry is shown after a command has recorded its text under
    a name of its own, even if the file is not written yet.
    """
    live_by_text = {bullet.text: bullet for bullet in live}
    live_by_name_and_text = {(bullet.name, bullet.text): bullet for bullet in live}
    not_citable = {*loaded.named_here, *removed}
    bullets: list[Bullet] = []
    for bullet in loaded.bullets:
        if bullet.name in not_citable:
            recorded = live_by_text.get(bullet.text)
        elif bullet.name in loaded.uncounted:
            recorded = live_by_name_and_text.get((bullet.name, bullet.text), bullet)
        else:
            recorded = bullet
        if recorded is not None:
            bullets.append(recorded)
    return bullets


def _of_ledger(folder: Path) -> Known | None:
    """Return the ledger's facts about a project's playbook; None if no ledger can be opened, or if
    playbook.json is refused. None also for a ledger on a server, because the agent would wait for
    it; the next drain renders the text again.

    Raises: LedgerStrange if the ledger must be proved first.
    """
    if sys.flags.no_site:  # this is the hook, which starts without site-packages
        import site

        site.main()
    from reflector.config import ConfigError, is_server
    from reflector.ledger.errors import LedgerError, LedgerStrange
    from reflector.playbook_files.admission import PlaybookRefused
    from reflector.playbook_files.playbook_json import known
    from reflector.project import Project

    try:
        project = Project.at(folder)
        if is_server(project.config.ledger_url) or not project.has_ledger():
            return None
        with project.open_ledger(walks=False) as ledger:
            return known(ledger, project)
    except LedgerStrange:  # the hook then prints the text that was rendered before
        raise
    except PlaybookRefused:  # the next command reports the reason
        return None
    except (ConfigError, LedgerError) as error:
        handover.complain(f"the ledger was not read: {error}")
        return None


def keep_ranks(root: Path, ledger: Ledger, config: Config, book: LessonBook | None) -> None:
    """Leave the facts of the ranking, and the best lessons, for the sessions that start next.

    The file is written only if something changed that these facts depend on.
    """
    from reflector.ledger.usage import told_texts, usage_at

    best = book.best() if book else ()
    # A lesson that became a bullet is shown as this bullet.
    shown = [lesson for lesson in best if lesson.bullet is None and lesson.kind != "summary"]
    lessons = [
        [lesson.id, quote(lesson.text, 300), lesson.successes, lesson.failures]
        for lesson in shown[:_MOST_LESSONS]
    ]
    updated_at = ledger.updated_at()
    headings = headings_of(ledger)
    pinned = pinned_names(config.pinned, ledger.rows())
    basis = [list(pinned), updated_at, told_texts(ledger) // TURN, lessons]
    kept = _kept_ranks(root)
    # Without a file, the hook assumes no pinned bullet, no shown text and no lesson.
    is_same = kept.get("of", [[], updated_at, 0, []]) == basis
    if is_same and kept.get("headings", {}) == headings:
        return
    ranking = ranking_facts(usage_at(ledger), pinned)
    content = {
        "of": basis,
        "told": dict(ranking.told),
        "idle": dict(ranking.idle),
        "headings": headings,
    }
    handover.write_own(os.fspath(root), RANKS, json.dumps(content).encode())


def headings_of(ledger: Ledger) -> dict[str, str]:
    """Return the headings of the rules that came from your files, by name; "" for none."""
    from reflector.events.event import BULLET_ADDED

    return {
        str(event.facts["name"]): str(event.fact("heading") or "")
        for event in ledger.events(types=[BULLET_ADDED])
        if event.fact("watched") or "heading" in event.facts
    }


def _headings_in(all_ranks: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the headings that the last writing of each playbook left."""
    headings: dict[str, str] = {}
    for ranked in all_ranks:
        kept = ranked.get("headings", {})
        if isinstance(kept, dict):
            headings |= {str(name): str(heading) for name, heading in kept.items()}
    return headings


def _with_headings(bullets: Iterable[Bullet], headings: Mapping[str, str]) -> Iterator[Bullet]:
    """Yield the bullets; those from your files have their headings there as section."""
    for bullet in bullets:
        heading = headings.get(bullet.name)
        if heading is None:
            yield bullet
            continue
        counts = (bullet.helpful, bullet.harmful)
        yield OwnRule(bullet.name, f"{_OWN}{heading}", bullet.text, *counts)


def moved_text(project: Path, bullets: Iterable[Bullet], headings: Mapping[str, str]) -> str:
    """Return the text that the start of a session would print if it had only these bullets."""
    shown = _with_headings(bullets, headings)
    return render_injection(shown, _template(project)).text


def _ranking_facts_in(
    all_ranks: Sequence[Mapping[str, Any]],
) -> tuple[RankingFacts, list[LessonBullet]]:
    """Return the facts that the last writing of each playbook left to the ranking, and the lessons
    of the last one.
    """
    try:
        told: dict[str, int] = {}
        idle: dict[str, int] = {}
        for ranked in all_ranks:
            told |= {name: int(count) for name, count in ranked.get("told", {}).items()}
            idle |= {name: int(count) for name, count in ranked.get("idle", {}).items()}
        # The list of an older version began with a policy.
        bases = [ranked.get("of", [[], None, 0, []])[-4:] for ranked in all_ranks]
        *_, turn, rows = bases[-1]
        pinned = dict.fromkeys(str(name) for basis in bases[::-1] for name in basis[0])
        lessons = [
            LessonBullet(str(id), LESSONS, str(text), int(successes), int(failures))
            for id, text, successes, failures in rows
        ]
        return RankingFacts(tuple(pinned), told, idle, int(turn)), lessons
    except (ValueError, TypeError, AttributeError):
        return RankingFacts(), []


def _kept_ranks(root: Path) -> dict[str, Any]:
    """Return the facts that the last writing of a playbook left; {} if there are none."""
    try:
        ranked = json.loads(handover.read_own(os.fspath(root), RANKS, _MAX_RANKS_BYTES))
    except (ValueError, RecursionError):
        return {}
    return ranked if isinstance(ranked, dict) else {}


class ToldBeside(NamedTuple):
    """The number of the user's own bullets, and their names that mean others in the project."""

    bullets: int
    shared_names: list[str]


def told_beside(project: Project) -> ToldBeside | None:
    """Return the user's own bullets that the agent is shown beside a project's; None if the user
    has none.
    """
    if project.is_users:
        return None
    names = _names(Path(user_folder(), _OWN_FILE), USER_FIRST)
    if not names:
        return None
    shared = names & _names(project.playbook_json, 0)
    return ToldBeside(len(names), sorted(shared))


def _names(path: Path, first: int) -> set[str]:
    try:
        loaded = load(read_ours(path, MAX_BYTES), first=first)
    except OSError:  # missing; `status` reports other errors
        return set()
    return {bullet.name for bullet in loaded.bullets} - loaded.named_here
