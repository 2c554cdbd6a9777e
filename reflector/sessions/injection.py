"""What the next start prints: for the agent the best of the playbook, within what it will read; for
the person what the last session brought, and what waits for them.

Invariant: what is printed fits. Over 10,000 characters Claude Code hands the agent a
2,000-character preview instead, and no model was seen to open the file it points to. So the bullets
are taken best first while the longer of the two forms (JSON, escapes included) stays within
`LIMIT`, and the text says how many were left out. A name that the agent cites means the bullet that
its citation counts for: where the project's playbook and the user's own give out the same name, the
project's; and what a playbook.json does not say, or says of another ledger, is asked of its own.

The text is rendered when the projection is written, and by the hook itself where a playbook or a
template changed since. What a ranking knows of each bullet besides its counters is kept for the
hook, which opens no ledger. It changes only when the playbook, the settings of the ranking, or the
turn (of `TURN` texts) does, so that all starts between two changes get the same bytes, and no clock
is asked. The words about the last session are of one session, be it recorded in one window or in
many. Leaving them fails no drain.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from reflector import handover
from reflector.files import error_words, open_ours, read_ours, write_durably
from reflector.judges.prompts import fill, find_template
from reflector.locate import own_folder, user_folder
from reflector.playbook.admissible import same_words
from reflector.playbook.bullet import Bullet
from reflector.playbook.document import MAX_BYTES, load
from reflector.playbook.names import SECTIONS, USER_FIRST
from reflector.playbook.ranking import Standing, choose
from reflector.text.bounds import clean
from reflector.text.secrets import quote
from reflector.transcripts.citations import Telling, telling_of

if TYPE_CHECKING:
    from reflector.config import Config
    from reflector.embed.lessons.book import LessonBook
    from reflector.ledger.store import Ledger
    from reflector.ledger.usage import Usage
    from reflector.playbook_files.playbook_json import Known
    from reflector.project import Project
    from reflector.reflection.recorder import Reflected

#: Characters of stdout, counted as the agent's JavaScript counts them (UTF-16 code units).
LIMIT = 9_500
#: The client's own markup: a bullet must not pose as it.
_REMINDER = re.compile(r"<(?=/?system-reminder)", re.IGNORECASE)
#: What a place in a file has of the file's own words.
_QUOTED = re.compile(r"""(['"]).*\1""")
#: The beginning of a lesson's id, as it is told.
_ID = re.compile("[0-9a-f]{8}")
#: The section of the lessons.
LESSONS: Final = "LESSONS"
_MOST_LESSONS: Final = 20
#: In a person's own folder of the project: what the ranking knows, and the lessons to tell.
RANKS: Final = "ranks.json"
#: Texts that were told, after which others have their turn.
TURN: Final = 10
_MOST_RANKS: Final = 8 << 20
_MOST_SAID = 100
#: So many undecided bullets are counted, fewer are named.
_MANY = 3
_UNDECIDED = " cited, undecided: reflector judge"
_VERDICT = re.compile(r"(\S+) (?:helpful|harmful|neutral)\b.*")
#: What is said where no verdict counts, what says most first.
_ELSE = {
    "completed": "nothing decided",
    "waiting": "not judged yet",
    "failed": "judging it failed, see `reflector status`",
    "skipped": "not judged: ",
}


@dataclass(frozen=True, slots=True)
class Told(Bullet):
    """A lesson as it is told and ranked: its successes and failures are its counters."""

    @property
    def line(self) -> str:
        return f"[lesson {self.name[:8]}] {' '.join(self.text.split())}"


class Injection(NamedTuple):
    """The two forms of one text, both "" where there is nothing to say, and how many bullets
    they hold.
    """

    text: str
    json: str
    shown: int
    left_out: int

    @property
    def line(self) -> str:
        """How many bullets there are, for a person; "" where there is nothing to say."""
        count = self.shown + self.left_out
        cut = f", {self.shown} shown" if self.left_out else ""
        return f"playbook: {count} bullet{'' if count == 1 else 's'}{cut}" if self.text else ""


def _template(project: Path) -> str:
    """Return the text of the playbook's template in force. Raises ValueError where it cannot be
    used.
    """
    found = find_template("playbook.txt", project)
    if found.text.lstrip().startswith("{{"):
        raise ValueError(
            f"{found.path}: begins with '{{'; Claude Code would take the text for "
            "JSON and refuse it"
        )
    return found.text


def render(
    bullets: Iterable[Bullet],
    form: str,
    files: Sequence[str] = (".claude/playbook.json",),
    troubles: Sequence[tuple[str, str]] = (),
    standing: Standing | None = None,
) -> Injection:
    """Fill a template's text with the bullets that a ranking chooses, grouped by section, the best
    one's section first.

    `files` hold those that do not fit; `troubles` follow them: what keeps a playbook.json from
    being told, and what the agent is to say to its user. The section titles stay because under
    MISTAKES TO AVOID the same words mean the opposite. Raises ValueError where the template alone
    leaves no room for any bullet.
    """
    bullets = list(bullets)
    told = _REMINDER.sub("&lt;", "".join(f"\n\n({what}. {advice})" for what, advice in troubles))
    if not bullets:
        text = told.lstrip("\n") and told.lstrip("\n") + "\n"
        return Injection(text, text and _as_json(text), 0, 0)
    all_bullets = sum(not isinstance(bullet, Told) for bullet in bullets)
    rest = (fill(form, {"key_points": ""}), _left_out(all_bullets, files, "0" * 8), told)
    choice = choose(
        bullets, standing or Standing(), LIMIT - len(_as_json("")) - sum(map(_cost, rest)), _cost_of
    )
    if not choice.bullets:
        raise ValueError(
            f"the playbook template leaves no room for a bullet within {LIMIT} "
            "characters: shorten it"
        )
    sections: dict[str, list[str]] = {}
    for bullet in choice.bullets:
        sections.setdefault(bullet.section, []).append(_line(bullet))
    shown = sum(len(lines) for section, lines in sections.items() if section != LESSONS)
    blocks = [f"## {_title(section)}\n" + "\n".join(lines) for section, lines in sections.items()]
    points = "\n\n".join(blocks) + _left_out(all_bullets - shown, files, choice.seed) + told
    text = fill(form, {"key_points": points}).rstrip("\n") + "\n"
    return Injection(text, _as_json(text), shown, all_bullets - shown)


def _cost_of(bullet: Bullet, sections: Collection[str]) -> int:
    """Return the characters that a bullet takes where some sections have their title already."""
    heading = "" if bullet.section in sections else f"\n## {_title(bullet.section)}\n"
    return _cost(f"{heading}{_line(bullet)}\n")


def _line(bullet: Bullet) -> str:
    return _REMINDER.sub("&lt;", bullet.line)


def _title(section: str) -> str:
    return SECTIONS.get(section, LESSONS)


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
    """Characters of `text` in the JSON form, which is never the shorter one."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-16-le")) // 2 - 2


def write_injection(
    project: str | os.PathLike[str],
    ask: Callable[[], Known | None] | None = None,
    name: str = handover.INJECTION,
    kept: Callable[[], bytes] | None = None,
) -> bytes:
    """Render the project's and the user's playbook.json to where the hook looks for it; returns the
    bytes of the file `name`: injection.txt or, while a trial runs, that for the sessions that go
    without.

    `ask` says what the project's ledger knows, where it is open; `kept` gives the bytes where the
    ledger must be proved first, for which no start waits. Entries that are no bullets, or have no
    name yet that could be cited, are passed over: the import says why. A playbook of the user's
    that cannot be opened does not keep the project's from being shown. Raises OSError where there
    is no playbook.json, ValueError where the template is unusable. A folder that cannot be written
    is not an error: the text is rendered again at the next start.
    """
    from reflector.ledger.errors import LedgerStrange

    folder = Path(project)
    users = Path(user_folder())
    try:
        told = _told(folder, ".claude/playbook.json", USER_FIRST if folder == users else 0, ask)
    except LedgerStrange as error:
        if kept is None:
            raise ValueError(str(error)) from error
        return kept()
    # Before the user's is read: where it changes meanwhile, the text is rendered again at the next
    # start.
    stamp = handover.injection_stamp(os.fspath(project), told.state)
    bullets, files, troubles = list(told.bullets), [".claude/playbook.json"], list(told.troubles)
    names = {bullet.name for bullet in bullets}
    texts_told = {same_words(bullet.text) for bullet in bullets}
    try:
        if folder != users:
            path = str(users / ".claude" / "playbook.json")
            beside = _told(users, path, USER_FIRST)
            # Told twice, a text would have two names, and its evidence would be divided by chance.
            others = (
                bullet for bullet in beside.bullets if same_words(bullet.text) not in texts_told
            )
            bullets += [bullet for bullet in others if bullet.name not in names]
            troubles += beside.troubles
            files.append(path)
    except FileNotFoundError:
        pass
    except (OSError, LedgerStrange) as error:
        handover.complain(f"the user's playbook is not shown: {error_words(error)}")
    standing, lessons = kept_standing(folder, users)
    bullets += lessons
    form = _template(folder) if bullets else ""
    texts = {handover.INJECTION: render(bullets, form, files, troubles, standing)}
    line = "; ".join(what for what, _ in troubles)
    line = (
        f"playbook: {' '.join(line.split())}; see `reflector doctor`"
        if line
        else texts[handover.INJECTION].line
    )
    if withheld := _withheld(folder):
        line += " · a trial runs" if line else ""
        left = [
            one for one in bullets if not withheld(one, one.name in names or isinstance(one, Told))
        ]
        texts[handover.WITHOUT] = render(left, form, files, troubles, standing)
    contents = {}
    for file, rendered in texts.items():
        forms = (line, _in_short(rendered.text), rendered.json, rendered.text)
        contents[file] = b"\n".join((stamp, *(form.encode("utf-8", "replace") for form in forms)))
        try:
            write_durably(handover.open_own(os.fspath(project)), contents[file], file)
        except (OSError, ValueError) as error:
            if own_folder(os.fspath(project)):  # `doctor` says what a person without a home lacks
                said = "the rendered playbook was not stored; the next start renders it again"
                handover.complain(f"{said}: {error_words(error)}")
    return contents.get(name, contents[handover.INJECTION])


def _withheld(folder: Path) -> Callable[[Bullet, bool], bool] | None:
    """Return whether the trial that runs withholds a bullet, which is the project's own or not;
    None without one.
    """
    note = (
        handover.read_own(os.fspath(folder), handover.TRIAL, handover.MAX_TOLD)
        .decode("utf-8", "replace")
        .split()
    )
    names = set(note[3:])
    if not note:
        return None
    return lambda bullet, is_own: (
        bullet.name in names or ("*" in names and is_own and f"-{bullet.name}" not in names)
    )


def _in_short(text: str) -> str:
    """Return a rendered text as the hook notes it: digest, seed or "-", names; `told_by_hook`
    reads it.
    """
    telling = telling_of(text)
    return (
        " ".join((telling.digest, telling.seed or "-", *telling.bullets, *telling.lessons))
        if telling
        else ""
    )


def told_by_hook(project: Path | None, session_id: str) -> tuple[Telling, ...]:
    """Return what the start hook told a session, by its own record, oldest first; () where it
    has none.
    """
    beginning = f"{session_id}\t".encode("utf-8", "replace")
    found = []
    for line in _noted(project, handover.TOLD):
        if line.startswith(beginning):
            digest, seed, *names = line[len(beginning) :].decode("utf-8", "replace").split(" ")
            bullets, lessons = (
                [n for n in names if not _ID.fullmatch(n)],
                [n for n in names if _ID.fullmatch(n)],
            )
            found.append(Telling(tuple(bullets), tuple(lessons), digest, seed.strip("-")))
    return tuple(found)


def is_fork(project: Path | None, session_id: str) -> bool:
    """Return whether the hook saw a session begin as a fork of another one, while a trial ran."""
    return session_id.encode("utf-8", "replace") in _noted(project, handover.FORKS)


def _noted(project: Path | None, name: str) -> list[bytes]:
    return (
        handover.read_own(os.fspath(project), name, 2 * handover.MAX_TOLD).splitlines()
        if project
        else []
    )


class _Playbook(NamedTuple):
    """A playbook file's state, its bullets that can be cited, and what keeps it from being read,
    with advice.
    """

    state: os.stat_result
    bullets: Sequence[Bullet]
    troubles: tuple[tuple[str, str], ...] = ()


def _told(
    folder: Path, shown: str, first: int, ask: Callable[[], Known | None] | None = None
) -> _Playbook:
    """Return what a project's playbook.json, which is called `shown`, has to tell. Raises
    OSError.
    """
    with open_ours(folder / ".claude" / "playbook.json") as file:
        state = os.fstat(file.fileno())
        loaded = load(file.read(MAX_BYTES + 1), first=first)
    # What no ledger ever wrote cannot be another one's, and asking costs the agent's start.
    is_plain = loaded.last_updated is None and not loaded.problems and not loaded.uncounted
    known = None if is_plain else (ask or partial(_of_ledger, folder))()
    if loaded.format == "foreign" and (known is None or known.found.kind == "foreign"):
        return _Playbook(state, known.bullets if known is not None else ())
    problems = loaded.problems if loaded.format in ("unreadable", "foreign") else ()
    if known is not None and known.found.kind == "unreadable":
        problems = known.found.loaded.problems
    if problems:
        # The file's own words are for a person's command: here they would be told in our voice.
        what = (
            f"{shown} cannot be read: {_QUOTED.sub('…', str(problems[0].position))}: "
            f"{problems[0].message}"
        )
        advice = (
            "Ask the user to correct it, or run `reflector rebuild` where the ledger is to "
            "be believed."
        )
        return _Playbook(state, known.bullets if known is not None else (), ((what, advice),))
    if known is not None and known.found.kind == "another's":
        what = f"{shown} was written by another ledger, and these are not its bullets"
        return _Playbook(
            state, known.bullets, ((what, ("Tell the user to run `reflector doctor`.")),)
        )
    live = known.bullets if known is not None else ()
    named = {bullet.text: bullet for bullet in live}
    counted = {(bullet.name, bullet.text): bullet for bullet in live}
    # A name means one bullet forever: one that git brought back is shown once it has its own. An
    # entry without a name was given one when a command took it in, and the file is written later.
    nameless = {*loaded.named_here, *(known.removed if known is not None else ())}
    bullets = (
        named.get(one.text)
        if one.name in nameless
        else counted.get((one.name, one.text), one)
        if one.name in loaded.uncounted
        else one
        for one in loaded.bullets
    )
    return _Playbook(state, [one for one in bullets if one is not None])


def _of_ledger(folder: Path) -> Known | None:
    """Return what a project's ledger knows; None where there is none that can be opened, and for
    one on a server: the agent would wait for it. The next drain asks it and renders the text again.
    """
    if sys.flags.no_site:  # the hook, which starts without SQLAlchemy and the like
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
    except LedgerStrange:  # the hook then prints what was rendered before
        raise
    except PlaybookRefused:  # the next command says why
        return None
    except (ConfigError, LedgerError) as error:
        handover.complain(f"the ledger is not read: {error}")
        return None


def ranks(known: Usage, config: Config) -> Standing:
    """Return what sessions so far let a ranking know."""
    return Standing(config.pinned, known.told, known.idle, known.texts // TURN)


def keep_ranks(root: Path, ledger: Ledger, config: Config, book: LessonBook | None) -> None:
    """Leave what the ranking knows, and the best lessons, to the sessions that start from now
    on.
    """
    from reflector.ledger.usage import told_texts, usage_at

    best = [
        one for one in (book.best() if book else ()) if one.bullet is None and one.kind != "summary"
    ]
    lessons = [
        [one.id, quote(one.text, 300), one.successes, one.failures] for one in best[:_MOST_LESSONS]
    ]
    of = [list(config.pinned), ledger.updated_at(), told_texts(ledger) // TURN, lessons]
    if _kept_ranks(root).get("of", [[], ledger.updated_at(), 0, []]) == of:
        return
    found = ranks(usage_at(ledger), config)
    content = {"of": of, "told": dict(found.told), "idle": dict(found.idle)}
    write_durably(handover.open_own(os.fspath(root)), json.dumps(content).encode(), RANKS)


def kept_standing(root: Path, users: Path) -> tuple[Standing, list[Told]]:
    """Return what the last writing of the playbook left to the ranking, with that of the user's own
    playbook beside, and the lessons that it left to be told.
    """
    own = _kept_ranks(root)
    found = [_kept_ranks(users), own] if users != root else [own]
    try:
        told, idle = (
            {n: int(k) for one in found for n, k in one.get(key, {}).items()}
            for key in ("told", "idle")
        )
        # an older one began with a policy
        pinned, _, turn, rows = own.get("of", [[], None, 0, []])[-4:]
        lessons = [
            Told(str(id), LESSONS, str(text), int(good), int(bad)) for id, text, good, bad in rows
        ]
        return Standing(tuple(map(str, pinned)), told, idle, int(turn)), lessons
    except (ValueError, TypeError, AttributeError):
        return Standing(), []


def _kept_ranks(root: Path) -> dict[str, Any]:
    try:
        found = json.loads(handover.read_own(os.fspath(root), RANKS, _MOST_RANKS))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def told_text(project: Path) -> str:
    """Return the text that the next session is told; "" where none is rendered."""
    rendered = handover.read_own(os.fspath(project), "injection.txt", 1 << 20)
    return rendered.decode("utf-8", "replace").split("\n", 4)[-1]


def told_names(text: str) -> set[str]:
    """Return the names of the bullets in a text that sessions are told."""
    return set(re.findall(r"^\[([a-z_]+-?\d+)\] helpful=", text, re.MULTILINE))


def told_beside(project: Project) -> tuple[int, list[str]] | None:
    """Return how many bullets of the user's own the agent gets beside a project's, and the names
    that the project gave to others; None where there are none of the user's own.
    """
    own = (
        set()
        if project.is_users
        else _names(Path(user_folder()) / ".claude" / "playbook.json", USER_FIRST)
    )
    return (len(own), sorted(own & _names(project.playbook_json, 0))) if own else None


def _names(path: Path, first: int) -> set[str]:
    try:
        loaded = load(read_ours(path, MAX_BYTES), first=first)
    except OSError:  # missing; of other trouble `status` tells
        return set()
    return {bullet.name for bullet in loaded.bullets} - loaded.named_here


def leave_last_session(
    project: Path, reflected: Sequence[Reflected], *, only: bool = False
) -> None:
    """Leave what came of the session that was processed last, with what its earlier windows
    brought; with `only`, where it is the one that the words are about.
    """
    from reflector.reflection.gate import CITES_NOTHING

    session = next(
        (one.session_id for one in reversed(reflected) if one.session_id is not None), None
    )
    if session is None:
        return
    windows = [one for one in reflected if one.session_id == session]
    left = handover.read_own(str(project), handover.LAST_SESSION, 1000).decode("utf-8", "replace")
    before, _, left_of = left.partition("\n")
    is_its = left_of.strip() == session
    last = min(windows, key=lambda one: list(_ELSE).index(one.outcome))
    if (last.outcome == "skipped") if is_its else only:
        return
    judged = [one.detail for one in windows if one.outcome == "completed"]
    parts = ", ".join([before if is_its else "", *judged]).split(", ")
    verdicts = {found[1]: found[0] for part in parts if (found := _VERDICT.match(part))}
    said = clean(", ".join(verdicts.values()), _MOST_SAID) or _ELSE[last.outcome]
    cited = list(dict.fromkeys(name for one in windows for name in one.undecided))
    if said == _ELSE["completed"] and cited:
        said = (" and ".join(cited) if len(cited) < _MANY else f"{len(cited)} bullets") + _UNDECIDED
    elif said == _ELSE["completed"] and is_its and before.endswith(_UNDECIDED):
        said = before
    if said == _ELSE["skipped"]:
        said = (
            "nothing cited"
            if last.detail == CITES_NOTHING
            else said + clean(last.detail, _MOST_SAID)
        )
    with suppress(OSError):
        content = f"{said}\n{session}\n".encode("utf-8", "replace")
        write_durably(handover.open_own(str(project)), content, handover.LAST_SESSION)


def leave_waiting(project: Path, count: int, *, is_users: bool) -> None:
    """Leave how many proposals wait for a person; nothing where none does."""
    what = "1 proposal waits" if count == 1 else f"{count} proposals wait"
    said = (
        (f"{what}: reflector {'--user ' if is_users else ''}proposals\n").encode() if count else b""
    )
    with suppress(OSError, ValueError):
        if not said:
            Path(own_folder(str(project)), handover.WAITING).unlink(missing_ok=True)
        elif said != handover.read_own(str(project), handover.WAITING, 1000):
            write_durably(handover.open_own(str(project)), said, handover.WAITING)
