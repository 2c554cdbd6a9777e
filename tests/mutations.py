"""Check whether the fast suite notices small defects: `make mutations`, or `python -m
tests.mutations [WORD…]`.

Each mutation of the table below is made in a copy of the checkout, without the others. The fast
tests that cover its module run there until the first one fails. A WORD selects the mutations that
contain it in their file, old text or new text. The command lists the unnoticed mutations, and exits
with 1 if there are any.

Processes of `reflector` that the tests start run the installed code. Therefore, a mutation must be
noticed by a test that calls the code in its own process.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

CHECKOUT = Path(__file__).parents[1]
JOBS = 2
COPIED = (
    "reflector",
    "migrations",
    "prompts",
    "tests",
    "docs",
    "examples",
    "README.md",
    "Makefile",
    "pyproject.toml",
)

FOLD = (
    "tests/events/test_fold.py",
    "tests/ledger/test_counting.py",
    "tests/changes/test_counts.py",
)
APPEND = (
    "tests/ledger/test_append.py",
    "tests/ledger/test_admission.py",
    "tests/ledger/test_redaction.py",
)
TABLES = (
    "tests/ledger/test_counting.py",
    "tests/ledger/test_append.py",
    "tests/ledger/test_rebuilding.py",
)
CACHED = ("tests/ledger/test_cached.py",)
MERGED = ("tests/changes/test_merges.py",)
MERGING = ("tests/exchange/test_merge.py",)
PAIRED = ("tests/exchange/test_two_machines.py",)
PARTED = ("tests/exchange/test_parted.py",)
GIT_NAMES = ("tests/exchange/test_git_names.py",)
HISTORIES = ("tests/exchange/test_histories.py",)
ACTS = "reflector/changes/acts.py"
TAKEBACK = "reflector/changes/takeback.py"
MERGE_TEXT = "reflector/cli/changes.py"
DRIFT = "reflector/playbook_files/drift.py"
SPOOL = ("tests/sessions/test_spool.py", "tests/hooks/test_deliveries.py")
RESUMED = ("tests/road/test_resuming.py",)
INTAKE = ("tests/sessions/test_intake.py", "tests/road/test_drain.py")
OPENED_ONCE = ("tests/road/test_statements.py",)
PIPELINE = ("tests/road/test_drain.py", "tests/cli/test_trouble.py")
GATED = tuple(
    f"tests/embed/gated/test_{name}.py" for name in ("step", "config", "writing", "measure")
)
VERIFY = ("tests/proof/test_verify.py", "tests/proof/test_tampering.py")

INSTALLED = ("tests/hooks/test_install.py",)
INSTALL_COMMAND = ("tests/hooks/test_install.py", "tests/cli/test_install.py")
CONFIGURED = ("tests/test_config.py", "tests/cli/test_config.py")
HOOK = (
    "tests/hooks/test_deliveries.py",
    "tests/hooks/test_starts.py",
    "tests/hooks/test_start_line.py",
)
SPEAKING, COPIES, ENDED = (
    ("tests/transcripts/test_speakers.py",),
    ("tests/road/test_copies.py",),
    ("tests/road/test_ends.py",),
)
READERS = ("tests/transcripts/test_claude_code.py", "tests/transcripts/test_readers.py")
EXTENDED = ("tests/test_extensions.py",)
CITED = ("tests/transcripts/test_citations.py", "tests/transcripts/test_formats.py")
TOLD = (
    "tests/hooks/test_starts.py",
    "tests/sessions/test_telling.py",
    "tests/sessions/test_user_playbook.py",
)
ERRORS = ("tests/cli/test_trouble.py", "tests/cli/test_contract.py", "tests/cli/test_changes.py")
UNDO = (
    "tests/cli/test_changes.py",
    "tests/changes/test_acts.py",
    "tests/changes/test_apply.py",
    "tests/cli/test_undo.py",
)
RULES = ("tests/judges/rules/test_rules.py", "tests/judges/rules/test_results.py")
EVIDENCE = ("tests/judges/test_evidence.py",)
MEASURED_TESTS = ("tests/judges/test_measured.py",)
SHOWN = ("tests/judges/test_excerpt.py",)
HOSTILE = ("tests/reflection/test_hostile.py::test_no_transcript_moves_a_counter_by_the_api",)
WINDOWS = ("tests/reflection/test_window.py", "tests/road/test_cuts.py")
RUNNER = ("tests/reflection/test_runner.py", "tests/reflection/test_gate.py")
MIRRORED = ("tests/playbook_files/test_mirrors.py",)
PROPOSED = ("tests/changes/test_propose.py", "tests/changes/test_apply.py")
KEPT_FILE = tuple(
    f"tests/playbook_files/test_{name}.py"
    for name in ("file_in_any_hands", "playbook_json", "sharing")
)
LESSONS = ("tests/embed/lessons/test_book.py",)
JUDGED = ("tests/judges/test_agent.py",)
MODEL_ASKED = ("tests/judges/test_model.py",)
KEPT_SESSIONS = ("tests/cli/test_history.py",)
ERASING = ("tests/cli/test_redact.py",)
ADOPTING = ("tests/cli/test_adopt.py",)
ALLOWED = ("tests/cli/test_judges.py",)
OFFERED = "reflector/judges/offers.py"
FIRST_READING = "reflector/sessions/first.py"
CUT = ("tests/reflection/test_window.py",)
READ_FIRST = ("tests/sessions/test_first.py",)
NEWEST, SHOWN_AT_START = ("tests/audit/test_checked.py",), ("tests/hooks/test_start_line.py",)
DIVIDED = ("tests/instructions/test_units.py",)
MOVED = ("tests/playbook_files/test_moving.py",)
OUTLINED = ("tests/playbook/test_outline.py",)
IN_FILES = ("tests/cli/test_rules_in_files.py",)
LINED = (
    "tests/cli/test_check.py",
    "tests/audit/test_checked.py",
    "tests/playbook_files/test_watching.py",
)
CHECK_ONLY = ("tests/cli/test_check.py",)
PAGES = ("tests/check/test_page.py", "tests/check/test_rows.py", "tests/check/test_results.py")
AT_ONCE = ("tests/sessions/test_at_once.py",)
LOCATED = ("tests/test_locate.py",)
BORN = ("tests/playbook_files/test_births.py",)
ASKED_ABOUT = ("tests/sessions/test_at_once.py",)
ANSWERED = (
    "tests/road/test_no_answer.py",
    "tests/road/test_own_template.py",
    "tests/reflection/test_earlier_answers.py",
)
PAGE = ("tests/report/test_page.py", "tests/report/test_hostile.py", "tests/report/test_lines.py")
DRAWN_BARS = ("tests/report/test_charts.py",)
JUDGE = ("tests/cli/test_review.py",)
DECIDED = ("tests/cli/test_proposals.py",)
LAB = ("tests/cli/test_trajectories.py", "tests/cli/test_reflection.py")
REPORTED = ("tests/cli/test_doctor.py",)
KEPT = ("tests/cli/test_history.py",)
PLACEBO = ("tests/trials/test_draw.py", "tests/trials/test_placebo.py")
TRIALS = (
    "tests/trials/test_trials.py",
    "tests/trials/test_statistics.py",
    "tests/trials/test_outcome.py",
)
NAMED = tuple(f"tests/cli/test_{name}.py" for name in ("changes", "json", "lessons"))


class Mutation(NamedTuple):
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def of(room: str, names: str) -> Iterator[str]:
    """Yield the paths of modules of a room."""
    return (f"reflector/{room}/{name}.py" for name in names.split())


STATE, EFFECTS, BULLETS, RENAMED = of("events", "state effects bullets renamings")
STORE, APPENDING, PROJECTION, COUNTERS = of("ledger", "store append projection counters")
AS_OF, USAGE, ANSWERS, ROWS = of("ledger", "as_of usage answers rows")
SPOOLED, TAKEN, PIPED, INJECTION = of("sessions", "spool intake drain injection")
ENDS, STORED, HISTORY, ERASED, MACHINES, ASKING = of(
    "sessions", "ends opencode_store history redaction machines checks"
)
(FOUND_TRANSCRIPTS,) = of("sessions", "found_transcripts")
PROVEN, COMPARED = of("proof", "verify tables")
RECONCILED, VERDICTS, MATCHED, SURVEYED, MERGE, SAME_BULLETS = of(
    "exchange", "agreement verdicts matching survey merge bullets"
)
STEP, GATED_SETTINGS, GATED_TURN, GATED_LOG = of("embed/gated", "__init__ settings turn log")
CONFIG, LOCATE = "reflector/config.py", "reflector/locate.py"
RANKING, RANKED = "reflector/playbook/ranking.py", ("tests/playbook/test_ranking.py",)
DATES, MOMENTS = "reflector/audit/dates.py", ("tests/audit/test_moments.py",)
BOOK, CHECKED = "reflector/embed/lessons/book.py", "reflector/audit/checked.py"
PROMPTS_OF = "reflector/judges/prompts.py"
HOOK_LIST, AGENTS, FAST = of("hooks", "install agents fast")
CLAUDE, CODEX, COPILOT, GEMINI, OPENCODE, PI = of(
    "transcripts/agents", "claude_code codex copilot gemini opencode pi"
)
BUILDING, CITATIONS, SPEAKERS, TELLINGS = of("transcripts", "building citations speakers tellings")
APP, ARGUMENTS, REPORTING, HELPING, REVIEWING = of("cli", "app options doctor help review")
JUDGING = "reflector/sessions/judging.py"
HTML = "reflector/report/html.py"
RULES_SHOWN, SECTIONS_SHOWN = of("report", "rules page")
OVERRULED, WORKED = of("audit", "overruled worked")
MODELS = "reflector/ledger/models.py"
WORKED_TESTS = ("tests/audit/test_worked.py",)
OVERRULING = ("tests/audit/test_overruled.py",)
UNDOING, PROPOSALS, PRUNING = of("changes", "undo propose pruning")
FILE_EDITS = "reflector/playbook_files/edits.py"
FILE_MERGES = "reflector/playbook/versions.py"
SHARED = ("tests/playbook_files/test_sharing.py",)
PLAYBOOK_FILE, LINES, MIRRORS = of("playbook_files", "playbook_json watching mirrors")
KINDS, SIGNS, BLOCKS = of("instructions", "kinds signs blocks")
BIRTHS, LINE_HISTORY = of("playbook_files", "births line_history")
CHECKS = "reflector/sessions/checks.py"
GIT = "reflector/git.py"
CITATION, FINDINGS, FOLLOW = of("judges/rules", "citation findings follow")
PEOPLE, STEPS, AIMS = of("judges/reading", "people steps aims")
WINDOW, STANDING, RUN, RECORDING, CONSENT = of("reflection", "window standing runner recorder gate")
GROUNDS, PARSED, EXCERPT, MEASURED = of("judges", "evidence answers excerpt measured")
CHECKING = "reflector/reflection/checking.py"
MOVING = "reflector/playbook_files/moving.py"
OUTLINE = "reflector/playbook/outline.py"
PLACES = "reflector/playbook_files/places.py"
RUNNING = "reflector/reflection/runner.py"
AGENT, AGREED, ASKED, OFFERS, VERSIONS = of(
    "judges", "agent_process consent model offers agent_clients"
)
CHECK_PLAN, CHECK_ROWS, CHECK_RESULTS, CHECK_PAGE, CHECK_CLOSING, CHECK_EVIDENCE = of(
    "check", "plan rows results page closing evidence"
)
OUTCOME, DRAWN, TRIAL, CERTAIN, TASKS = of("trials", "outcome draw trial statistics tasks")

COUNT, TOKENS, OCCASIONS, LIKENESS, CALLS, SENTENCES, SHELL, CLAUSES = of(
    "counts", "rules tokens occasions likeness calls sentences shell clauses"
)
AROUND, SCOPES, DEEDS, TOKEN, SPELLINGS, SUBJECTS, GLOBS, SOUGHT = of(
    "counts", "around scopes deeds token spellings subjects globs sought"
)
KEPT_COUNTS, FREE_COUNTS = "reflector/sessions/counted.py", "reflector/check/counting.py"
COUNTED = (
    "tests/counts/test_rules.py",
    "tests/counts/test_tokens.py",
    "tests/counts/test_bans.py",
)
COURSE, CHANGES, ORDERS = of("counts", "history changes orders")
WORDINGS = ("tests/counts/test_wordings.py", "tests/counts/test_history.py")
REPEATED = ("tests/counts/test_repeated.py",)
PATTERNS = ("tests/counts/test_globs.py",)
REQUESTED = ("tests/counts/test_sentences.py", "tests/judges/test_aims.py")
FOLDED = ("tests/sessions/test_counted.py",)
LOADED, ELSEWHERE = "reflector/sessions/loaded.py", "reflector/check/elsewhere.py"
SHOWN_IN_FILES = ("tests/sessions/test_loaded.py",)
FOUND_ELSEWHERE = ("tests/check/test_elsewhere.py",)
COUNTED_FREELY = ("tests/check/test_counting.py",)
BLAMED_LINES = ("tests/check/test_evidence.py",)

MEMORY_CALLS, MEMORY_NAMING, MEMORY_GIT, MEMORY_FILES, MEMORY_COMMANDS = of(
    "attribution", "calls naming git_changes files commands"
)
MEMORY_COMMANDED = ("tests/memory/test_commands.py",)
MEMORY_RECORDING, MEMORY_BACKFILL = of("memory", "recording backfill")
MEMORY_RESTORING, MEMORY_LINES, MEMORY_BYTES, MEMORY_CHANGES = of(
    "memory", "restoring lines bytes changes"
)
MEMORY_AUTHORS, AUTHORSHIP = "reflector/memory/authors.py", "reflector/authorship.py"
MEMORY_PLACES, MEMORY_DRAINED = "reflector/memory/places.py", ("tests/memory/test_drain.py",)
DRAINING_MEMORY, HANDED_OVER = "reflector/sessions/memory_drain.py", "reflector/handover.py"
MEMORY_WRITERS = ("tests/memory/test_writers.py",)
MEMORY_FOREIGN = ("tests/memory/test_foreign.py",)
MEMORY_UNDONE, MEMORY_KEPT = ("tests/memory/test_undo.py",), ("tests/memory/test_bytes.py",)
MEMORY_TOLD, MEMORY_LINED = ("tests/memory/test_tell.py",), ("tests/memory/test_lines.py",)
MEMORY_NAMED, MEMORY_FILLED = (
    ("tests/attribution/test_naming.py",),
    ("tests/memory/test_backfill.py",),
)

HOSTED = ("tests/ledger/test_hosts.py",)
LEFT_BEHIND = ("tests/playbook_files/test_left_behind.py",)
FOUND_BY_CHECKS = ("tests/audit/test_checked.py",)
JSON_ANSWERS = ("tests/cli/test_json.py",)
VOTING = ("tests/audit/test_questions.py", "tests/playbook/test_evidence.py")
HOSTS, ENGINES = of("ledger", "hosts engines")
EVIDENCE_SHARE = "reflector/playbook/evidence.py"
USE_OF_RULES = "reflector/audit/citations.py"

MUTATIONS = [
    # A question opens the ledger once.
    Mutation(
        "reflector/sessions/drain.py",
        "if ledger is None or not project.is_in_place(ledger):",
        "if ledger is None:",
        OPENED_ONCE,
    ),
    Mutation(
        "reflector/sessions/drain.py",
        "wait=False, write=False, opened=ledger)",
        "wait=False, write=False)",
        OPENED_ONCE,
    ),
    # The log of memory files.
    Mutation(MEMORY_NAMING, "        if active:\n", "        if False:\n", MEMORY_NAMED),
    Mutation(
        MEMORY_CALLS,
        'if not result.is_error and message.origin != "refusal":',
        "if True:",
        MEMORY_NAMED,
    ),
    Mutation(MEMORY_CALLS, "if re.search(_WRITERS, part):", "if True:", MEMORY_NAMED),
    Mutation(
        MEMORY_NAMING,
        "if call.time >= until or call.key in done",
        "if call.key in done",
        MEMORY_FILLED,
    ),
    Mutation(
        MEMORY_RECORDING,
        "    looks.events = _events_of(",
        "    _events_of(",
        MEMORY_NAMED,
    ),
    Mutation(
        MEMORY_NAMING,
        "call.starts_at(contents.get(call.file, UNSEEN_CONTENT))",
        "contents.get(call.file, UNSEEN_CONTENT)",
        MEMORY_FILLED,
    ),
    Mutation(MEMORY_BACKFILL, "in all_calls if not call.is_shell]", "in all_calls]", MEMORY_FILLED),
    Mutation(
        MEMORY_COMMANDS, "latest = change.time - 1 if", "latest = change.time if", MEMORY_COMMANDED
    ),
    Mutation(
        MEMORY_COMMANDS, "is_long and command.wrote(line)", "command.wrote(line)", MEMORY_COMMANDED
    ),
    Mutation(
        MEMORY_COMMANDS,
        "parts[command.began > _end_of(step)]",
        "parts[False]",
        MEMORY_COMMANDED,
    ),
    Mutation(MEMORY_COMMANDS, "if len(sessions) == 1 else _NONE", "", MEMORY_COMMANDED),
    Mutation(
        MEMORY_CALLS, "for call in calls if call.is_shell]", "for call in calls]", MEMORY_NAMED
    ),
    Mutation(MEMORY_BACKFILL, "if cut(text) in known", "if True", MEMORY_FILLED),
    Mutation(
        MEMORY_BACKFILL,
        " if table.is_inside(commit.file)]",
        "]",
        MEMORY_FILLED,
    ),
    Mutation(
        "reflector/check/evidence.py",
        ".added_at(line, added_at)",
        "",
        ("tests/memory/test_questions.py",),
    ),
    Mutation(
        MEMORY_AUTHORS,
        "first=same_line and (same_line.first or same_line.written)",
        "None",
        MEMORY_WRITERS,
    ),
    Mutation(MEMORY_AUTHORS, 'removal.fact("by") == STASH', "False", MEMORY_WRITERS),
    Mutation(MEMORY_AUTHORS, "commit.second < change.second", "True", MEMORY_WRITERS),
    Mutation(MEMORY_AUTHORS, "commit.is_gits and _is_older", "False and _is_older", MEMORY_WRITERS),
    Mutation(MEMORY_AUTHORS, "line.writers is None and moved[line.text]", "False", MEMORY_WRITERS),
    Mutation(MEMORY_PLACES, "changed_at + _RACY_NS < began * 1e9", "True", MEMORY_DRAINED),
    Mutation(MEMORY_PLACES, "os.utime(_path(project), (now, now))", "pass", MEMORY_DRAINED),
    Mutation(HANDED_OVER, " or (scopes and scopes != watched)", "", MEMORY_DRAINED),
    Mutation(MEMORY_FILES, "            self._folders.append(folder)\n", "", MEMORY_DRAINED),
    Mutation(DRAINING_MEMORY, "            is_whole = False\n", "", MEMORY_DRAINED),
    Mutation(MEMORY_FILES, "below.isprintable() and ", "", MEMORY_FILLED),
    Mutation(
        MEMORY_NAMING,
        "            if call.starts_at(content) == content:\n",
        "            if True:\n",
        MEMORY_NAMED,
    ),
    Mutation(MEMORY_GIT, "if 0 <= entry.time - stash.time <= 1:", "if False:", MEMORY_NAMED),
    Mutation(MEMORY_GIT, "here.get(_unix(content), content)", "content", MEMORY_NAMED),
    Mutation(MEMORY_GIT, " and not is_committed", "", MEMORY_NAMED),
    Mutation(MEMORY_GIT, 'entry.subject.startswith("reset") and ', "", MEMORY_NAMED),
    Mutation(MEMORY_RESTORING, "                looks.events.append(event)\n", "", MEMORY_UNDONE),
    Mutation(
        "reflector/memory/looks.py",
        "            looks.files[file] = Look(UNSEEN, time.time())\n",
        "            pass\n",
        ("tests/memory/test_edges.py",),
    ),
    Mutation(
        MEMORY_AUTHORS,
        "same_line is not None and (is_restored or _brings_back(change, removal, same_line))",
        "False",
        ("tests/memory/test_writers.py",),
    ),
    Mutation(MEMORY_NAMING, "<= until <= call.time + _CLOCK_S", "<= until", MEMORY_NAMED),
    Mutation(MEMORY_NAMING, "call.began - _TICK_S <= until", "until", MEMORY_NAMED),
    Mutation(
        MEMORY_CALLS, "return is_last or re.search(_REMOVERS", "return re.search(''", MEMORY_NAMED
    ),
    Mutation(
        MEMORY_CALLS,
        "return is_last and not has_added_line",
        "return is_last or has_added_line",
        MEMORY_NAMED,
    ),
    Mutation(MEMORY_NAMING, 'text=f"{last.text}\\n{call.text}"', "text=call.text", MEMORY_NAMED),
    Mutation(
        MEMORY_RESTORING,
        "        for version in written:\n",
        "        for version in ():\n",
        MEMORY_UNDONE,
    ),
    Mutation(
        MEMORY_BYTES,
        "return content if plain_digest(content) == plain else None",
        "return content",
        MEMORY_KEPT,
    ),
    Mutation(
        MEMORY_LINES, "if not size or len(numbers) != size or", "if not starts or", MEMORY_LINED
    ),
    Mutation(MEMORY_LINES, "or (hunk.removed and not is_together):", ":", MEMORY_LINED),
    Mutation(MEMORY_LINES, '"[redacted" in line or ', "", MEMORY_UNDONE),
    Mutation(MEMORY_LINES, "len(line) > _MAX_LINE or ", "", MEMORY_UNDONE),
    Mutation(MEMORY_LINES, "line if as_seen in shown else", "line if line else", MEMORY_UNDONE),
    Mutation(MEMORY_LINES, 'redact("\\n".join(seen))', 'redact("\\n".join(lines))', MEMORY_UNDONE),
    Mutation(
        MEMORY_CHANGES,
        "return watched if watched is not None and watched.file == file else None",
        "return watched",
        MEMORY_FOREIGN,
    ),
    Mutation(
        MEMORY_RESTORING,
        "if not all(map(Versions(project).has, (now.digest, then.digest))):",
        "if False:",
        MEMORY_UNDONE,
    ),
    Mutation(
        MEMORY_RESTORING,
        "if is_after and not is_exact:",
        "if False:",
        MEMORY_UNDONE,
    ),
    Mutation(
        MEMORY_RESTORING,
        "new_mode = 0o644 if version.is_tracked else 0o600",
        "new_mode = 0o644",
        MEMORY_UNDONE,
    ),
    Mutation(MEMORY_RESTORING, "    if change.undone_at:\n", "    if False:\n", MEMORY_UNDONE),
    Mutation(
        MEMORY_BYTES,
        "return [plain, self._keyed(plain)]",
        "return [plain]",
        MEMORY_UNDONE,
    ),
    Mutation(
        MEMORY_CALLS,
        "if time is not None and written(time) > until:",
        "if False:",
        ("tests/memory/test_first_day.py",),
    ),
    Mutation("reflector/files.py", 'if name in (".", ".."):', "if False:", MEMORY_FOREIGN),
    Mutation(
        "reflector/memory/answers.py",
        "        and change.event.event_id not in kept\n",
        "",
        MEMORY_TOLD,
    ),
    Mutation(AUTHORSHIP, "is_own_command and MERGED", "MERGED", ("tests/memory/test_machines.py",)),
    Mutation(AUTHORSHIP, "and MERGED not in event.meta", "", ("tests/memory/test_machines.py",)),
    Mutation(
        "reflector/curator/listening.py",
        "proposed, in_files())",
        "in_files())",
        ("tests/curator/test_proposing.py",),
    ),
    # The free counts of rules.
    Mutation(SENTENCES, ".findall(text)) % 2 == 1", ".findall(text)) > 0", REPEATED),
    Mutation(SENTENCES, "if is_reminder(sentence) or not _forbids", "if not _forbids", REPEATED),
    Mutation(SENTENCES, " or _REPORTS.match(sentence):", ":", REPEATED),
    Mutation(SENTENCES, ' and not expression("at-hand").search(plain)', "", REPEATED),
    Mutation(SENTENCES, "instructs(sentence) and not", "instructs(sentence) or not", REQUESTED),
    Mutation(AIMS, '*["joint"] * is_wished', '"joint"', REQUESTED),
    Mutation(COUNT, "            if not message.chain:", "            if True:", COUNTED),
    Mutation(SOUGHT, "return number - number_before", "return number", COUNTED),
    Mutation(COUNT, "if sought.is_added_by(act) and self", "if self", COUNTED),
    Mutation(COUNT, "or place <= occasion_at)", "or True)", COUNTED),
    Mutation(SOUGHT, "if runs_at(command", "if True or runs_at(command", COUNTED),
    Mutation(SOUGHT, "(token.negated and token.is_plain):", "False:", COUNTED),
    Mutation(COUNT, "run & counting.named != counting.named:", "False:", COUNTED),
    Mutation(COUNT, 'or any(token.scope == "part" for token in tokens):', ":", COUNTED),
    Mutation(COUNT, "if is_of_files or", "if", COUNTED),
    Mutation(OCCASIONS, "is_unknown = _is_deed_of(occasion, tokens) or", "is_unknown =", COUNTED),
    Mutation(OCCASIONS, " or re.search(is_at_place, text, re.I)", "", COUNTED),
    Mutation(OCCASIONS, "        return _TESTS.files\n", "        return ''\n", COUNTED),
    Mutation(
        CALLS, """lambda words: f'{words["option"]}"…"')""", "lambda words: words[0])", COUNTED
    ),
    Mutation(CALLS, "_HEREDOC.sub(_with_first_line, command)", "command", BLAMED_LINES),
    Mutation(CHECK_EVIDENCE, "words = words or [", "words = words and [", BLAMED_LINES),
    Mutation(CHECK_EVIDENCE, "each.deed not in _TO_LOOK_AT", "False", BLAMED_LINES),
    Mutation(CHECK_EVIDENCE, 'or [("", ShownLine())]', "", BLAMED_LINES),
    Mutation(
        CHECK_EVIDENCE, "alone.occasion and alone.names_command", "alone.occasion", BLAMED_LINES
    ),
    Mutation(COUNT, "LATE if counts.is_whole else UNKNOWN", "LATE", COUNTED_FREELY),
    Mutation(CHANGES, "if passes_on else ()", "", WORDINGS),
    Mutation(CHANGES, "if not _SCRATCH.match(each.file))", ")", WORDINGS),
    Mutation(CHANGES, "not sources or _is_restored(sources, target)", "not sources", WORDINGS),
    Mutation(ORDERS, "            if not _is_general(", "            if False and (", WORDINGS),
    Mutation(COURSE, "self._knows_all = not is_whole", "self._knows_all = False", WORDINGS),
    Mutation(COURSE, "self._old is not None or", "", WORDINGS),
    Mutation(COURSE, "is_alone and 0 < number", "0 < number", WORDINGS),
    Mutation(COURSE, "if former and not act.is_new else", "if former else", WORDINGS),
    Mutation(COURSE, "self._added.clear()", "pass", WORDINGS),
    Mutation(CALLS, "self.is_failed and self.call.name in _EDITORS", "False", WORDINGS),
    Mutation("reflector/sessions/intake.py", "not reading.earlier_windows\n", "True\n", FOLDED),
    Mutation(FREE_COUNTS, "            self.lacks_start = True\n", "", COUNTED_FREELY),
    Mutation("reflector/sessions/intake.py", "is_whole(source.path)", "True", FOLDED),
    Mutation(CHECK_ROWS, "if rule.lacks_start or not (rule", "if not (rule", PAGES),
    Mutation(SCOPES, "or (around.is_choice() and _is_run(token))", "", COUNTED),
    Mutation(SCOPES, "return not is_of_each_use or", "return", COUNTED),
    Mutation(SCOPES, "or is_some_run or", "or", COUNTED),
    Mutation(DEEDS, "or _BRANCH_BEFORE.search(around.text[: around.start])", "", COUNTED),
    Mutation(DEEDS, "in earlier):\n        return False", "in earlier):\n        pass", COUNTED),
    Mutation(TOKENS, 'form="" if is_command else DEED', "form=DEED", COUNTED),
    Mutation(TOKEN, "            and self.form != SCRIPT\n", "", COUNTED),
    Mutation(SHELL, r'"(?:^|/)test_|[._-]', r'"(?!)[._-]', COUNTED),
    Mutation(SHELL, "or _IS_RUN.match(after)", "", COUNTED),
    Mutation(SHELL, r"(?<!\\\n)^", "^", COUNTED),
    Mutation(SHELL, "|-check", "", COUNTED),
    Mutation(SHELL, "if folder else at_begin", "if False else at_begin", COUNTED),
    Mutation(SHELL, "(?:-with-lease", "(?:-no-lease", COUNTED),
    Mutation(SHELL, "{BEGIN}git{OPTIONS} +push", "git{OPTIONS} +push", COUNTED),
    Mutation(CLAUSES, "plain[max(start, clauses[-1].end) :", "plain[start :", COUNTED),
    Mutation(OCCASIONS, "        runs_tests or any", "        any", COUNTED),
    Mutation(SCOPES, "(around.asks_you() or", "(", COUNTED),
    Mutation(COUNT, "(token.negated and is_capitals)", "False", COUNTED),
    Mutation(USAGE, "if not _is_of_file(telling):", "if True:", SHOWN_IN_FILES),
    Mutation(
        USAGE, "(data IS NULL OR data NOT LIKE ?)", "(data IS NULL OR data <> ?)", SHOWN_IN_FILES
    ),
    Mutation(LOADED, "and agent in self.agents.get(line.file, ())", "", SHOWN_IN_FILES),
    Mutation(LOADED, "is LineState.SINCE", "is not LineState.BEFORE", SHOWN_IN_FILES),
    Mutation(LOADED, "if name not in known", "if True", SHOWN_IN_FILES),
    Mutation(LOADED, "if file not in advice.scopes", "if True", SHOWN_IN_FILES),
    Mutation(LOADED, "if counts.steps and", "if", SHOWN_IN_FILES),
    Mutation(MOVING, "pairs if line is not first]", "pairs if False]", MOVED),
    Mutation(ELSEWHERE, "if folder.name == root.name:", "if True:", FOUND_ELSEWHERE),
    Mutation(ELSEWHERE, "if why == _RENAMED and", "if False and", FOUND_ELSEWHERE),
    Mutation(COUNT, "order = self.came_up & _ORDER or", "order =", COUNTED),
    Mutation(COUNT, "if token.scope or (token.is_pattern", "if (token.is_pattern", COUNTED),
    Mutation(CALLS, "if not asked.is_refused:", "if True:", COUNTED),
    Mutation(OCCASIONS, "if not all(kinds.values()):", "if False:", COUNTED),
    Mutation(COUNT, 'message.origin in ("human", "refusal")', 'message.role == "user"', COUNTED),
    Mutation(COUNT, "instructs(sentence) or is_reminder(sentence)", "instructs(sentence)", COUNTED),
    Mutation(COUNT, "        if may_repeat(sentence):", "        if True:", COUNTED),
    Mutation(AROUND, 'return cue.lastgroup or "", before', 'return "", before', COUNTED),
    Mutation(SCOPES, "lambda _, around: around.is_in_condition()", "lambda _, __: False", COUNTED),
    Mutation(SCOPES, "if is_example(around.before) and", "if False and", COUNTED),
    Mutation(SCOPES, "if not token.negated or token.form == NAME", "if True", COUNTED),
    Mutation(SOUGHT, "words += [_FILE] if", "words += [] if", COUNTED),
    Mutation(OCCASIONS, "is None or restricts(clause, occasion.named)", "is None", COUNTED),
    Mutation(OCCASIONS, "if occasion.needs:", "if False:", COUNTED),
    Mutation(OCCASIONS, "_PLAIN_ORDER.match(text) is None", "False", COUNTED),
    Mutation(OCCASIONS, "own is not None and own.commands", "False", COUNTED),
    Mutation(SPELLINGS, '_{options.valued}]" if options.valued else', '_]" if True else', COUNTED),
    Mutation(SUBJECTS, ' and "$" not in subject', "", COUNTED),
    Mutation(FREE_COUNTS, "if rule.is_loaded(marks):", "if True:", COUNTED_FREELY),
    Mutation(FREE_COUNTS, "(acts | marks.came_up & MENTIONED) > 0", "False", COUNTED_FREELY),
    Mutation(FREE_COUNTS, "came_up and has_occasion", "came_up", COUNTED_FREELY),
    Mutation(
        OCCASIONS, "token.is_command and not token.needs_branch", "token.is_command", COUNTED_FREELY
    ),
    Mutation(OCCASIONS, "{_TEST_CODE}|{_IN_TESTS}", "{_TEST_CODE}", COUNTED_FREELY),
    Mutation(CHECK_ROWS, "strongest.group, -number, -share", "strongest.group, 0, 0", PAGES),
    Mutation(
        LIKENESS,
        "        if any(own[word] != features[word] for word in shared):",
        "        if False:",
        COUNTED,
    ),
    Mutation(GLOBS, 'name: str = "[^/]"', 'name: str = "."', COUNTED),
    Mutation(GLOBS, 'pattern == "**" or ', "", PATTERNS),
    Mutation(CALLS, 'line.startswith("+")', 'line.startswith(("+", "-"))', COUNTED),
    Mutation(
        KEPT_COUNTS, "            if self._book.active(window_id):", "            if True:", FOLDED
    ),
    Mutation(KEPT_COUNTS, "window.event_id, rules.digest)", "rules.digest)", FOLDED),
    Mutation(KEPT_COUNTS, 'if kept["state"] == state:', "if True:", FOLDED),
    Mutation(FREE_COUNTS, "known is None or known", "known is None or not known", COUNTED_FREELY),
    Mutation(FREE_COUNTS, "if project.has_ledger() and kept", "if kept", COUNTED_FREELY),
    Mutation(FREE_COUNTS, "if session.steps else ()", "", COUNTED_FREELY),
    Mutation(RUNNING, "and not is_by_hand and _is_too_early", "and _is_too_early", CUT),
    Mutation(WINDOW, "if has_begun and message.calls:", "if False:", CUT),
    Mutation(WINDOW, "if (is_reading or is_early) and", "if is_reading and", CUT),
    # The first reading of old sessions.
    Mutation(OFFERED, "users_config().backend != chosen", "False", ALLOWED),
    Mutation(OFFERED, 'yours.layer("daily_requests") == "default"', "False", ALLOWED),
    Mutation(OFFERED, "masked_address(kind.address(config)", "masked_address('x'", ALLOWED),
    Mutation(CONSENT, "if fault := self._address_fault():", "if fault := None:", RUNNER),
    Mutation(
        "reflector/judges/consent.py",
        "(name == choice.judge and address == agreed)",
        "address == agreed",
        ("tests/reflection/test_gate.py",),
    ),
    Mutation(CONSENT, "min(filter(None, (limit, yours)), default=0)", "limit", RUNNER),
    Mutation(CONSENT, "folders = [self.project, *(", "folders = [self.project] and [*(", RUNNER),
    Mutation(CONSENT, "if is_model and self._is_unread(recorded)", "if False", RUNNER),
    Mutation(CONSENT, "price, limit * _M", "0, limit * _M", RUNNER),
    Mutation(CONSENT, "(cost(kind.prices, model, usage) or 0) * _MILLION", "0", RUNNER),
    Mutation(OFFERED, 'is_new or key == "daily_requests"', "is_new", ALLOWED),
    Mutation(FIRST_READING, '"the playbook" if rule.file == PLAYBOOK else ', "", READ_FIRST),
    Mutation(FIRST_READING, "[*advice.rules, *in_playbook]", "advice.rules", READ_FIRST),
    Mutation(CHECKED, "for event in reversed(self.proven):", "for event in self.proven:", NEWEST),
    Mutation(CHECKED, "if quote and (verdict", "if (verdict", NEWEST),
    Mutation(FAST, ' or name.startswith("rollout-")', "", SHOWN_AT_START),
    Mutation(FAST, "text = as_json  # Gemini", "pass  # Gemini", SHOWN_AT_START),
    Mutation(AGENT, 'return "forbidden"', 'return ""', JUDGED),
    Mutation(AGENT, "if client.name in consent.askable_clients():", "if True:", JUDGED),
    Mutation(AGREED, "choice.id and by_environment", "choice.id", RUNNER),
    Mutation(AGREED, "and choice.id and by_environment", "and by_environment", RUNNER),
    Mutation(
        "reflector/judges/agent_clients.py",
        "JUDGES[judge].at_once if judge in JUDGES else 1",
        "1",
        ALLOWED,
    ),
    # The report.
    # A host's transaction, votes of sessions, and a file that a killed command left behind.
    Mutation(HOSTS, "if not checks_keys:", "if False:", HOSTED),
    Mutation(HOSTS, "with self._host.begin_nested():", "if True:", HOSTED),
    Mutation(ENGINES, "self._module = host.dialect.loaded_dbapi", "pass", HOSTED),
    Mutation(USE_OF_RULES, "if past.is_counted_from_its_beginning(row.name) and", "if", VOTING),
    # Actions of sessions with a rule.
    Mutation(USE_OF_RULES, "    if then.retracted:", "    if False:", VOTING),
    Mutation(USE_OF_RULES, "and step.position not in past.covered", "", VOTING),
    Mutation(USE_OF_RULES, "signs[-_RECENT:]", "signs[:_RECENT]", VOTING),
    Mutation(USE_OF_RULES, "session = step.session_id or ", "session = ", VOTING),
    Mutation(USAGE, "tag.sign or tag.is_neutral", "True", VOTING),
    Mutation(USAGE, "is_verdict or tag.is_refused", "is_verdict", VOTING),
    Mutation(USAGE, 'and ("judged", bullet, session) not in deeds', "", VOTING),
    Mutation(USAGE, "if past.is_active(window.event_id) and", "if", VOTING),
    Mutation(USAGE, '("cited", "carried") if window', '("cited",) if window', VOTING),
    Mutation(USAGE, 'sums["followed", bullet] -= 1', "pass", VOTING),
    Mutation("reflector/cli/figures.py", "or has_few else", "else", ("tests/cli/test_json.py",)),
    Mutation(
        "reflector/sessions/former_shares.py",
        "(project.state_dir / _SHOWN).touch()",
        "pass",
        ("tests/cli/test_status.py",),
    ),
    Mutation(
        "reflector/sessions/former_shares.py",
        " < _SINCE",
        "",
        ("tests/cli/test_status.py",),
    ),
    Mutation(COUNTERS, "coalesce(session_id, reflection_id", "coalesce(reflection_id", VOTING),
    Mutation(EVIDENCE_SHARE, "if helpful else 0.0", "if True else 0.0", VOTING),
    Mutation(EVIDENCE_SHARE, "self.helpful + self.undecided, self", "self.helpful, self", VOTING),
    Mutation(EVIDENCE_SHARE, "share / self.helpful", "share * self.helpful", VOTING),
    Mutation(EVIDENCE_SHARE, "return self.helpful / (self", "return self.harmful / (self", VOTING),
    Mutation(CHECKED, "len(relevant) - len(helps), rates", "0, rates", FOUND_BY_CHECKS),
    Mutation(DRIFT, "name not in in_file and replace", "replace", JSON_ANSWERS),
    Mutation(DRIFT, "_COUNTERS if name in found.uncounted else ()", "()", JSON_ANSWERS),
    Mutation(PLAYBOOK_FILE, "lacks_rules and in_git(", "lacks_rules or in_git(", LEFT_BEHIND),
    Mutation(PLAYBOOK_FILE, "or self._read_by_question is not None:", "or False:", LEFT_BEHIND),
    Mutation(HTML, "quoted = quote(text, limit)", "quoted = text[:limit]", PAGE),
    Mutation(HTML, "finalize=shown,", "", PAGE),
    Mutation(HTML, "autoescape=True,", "autoescape=False,", PAGE),
    Mutation(HTML, 'quoted = _ID.sub("[id]", _PATH.sub("[path]", quoted))', "pass", PAGE),
    Mutation(HTML, "default-src 'none'; style", "default-src 'self'; style", PAGE),
    Mutation(RULES_SHOWN, "self.steps[-MOST_STEPS:][::-1]", "self.steps[:MOST_STEPS]", PAGE),
    Mutation(OVERRULED, "not is_own and your_tag != step.tag", "not is_own", OVERRULING),
    Mutation(OVERRULED, "return not is_own and", "return is_own and", OVERRULING),
    Mutation(WORKED, "if entry.status in _RULES", "", WORKED_TESTS),
    Mutation(WORKED, "if not earlier_sessions or", "if", WORKED_TESTS),
    Mutation(WORKED, "if self._past.is_active(id)", "", WORKED_TESTS),
    Mutation(
        WORKED, "while start and sessions[start - 1]", "while start and sessions[0]", WORKED_TESTS
    ),
    Mutation(
        WORKED, "self._readings.get(vote.session, vote.session)", "vote.session", WORKED_TESTS
    ),
    Mutation(
        MODELS, "window.session_id or window.event_id,", 'window.session_id or "",', WORKED_TESTS
    ),
    Mutation(WORKED, "session.agent == last.agent", "True", WORKED_TESTS),
    Mutation(MODELS, "or every", "", WORKED_TESTS),
    Mutation(MODELS, "if not window.of_subagent", "", WORKED_TESTS),
    Mutation(MODELS, "(counts[name], name)", "counts[name]", WORKED_TESTS),
    Mutation(RULES_SHOWN, "self.votes.total < FEWEST", "False", PAGE),
    Mutation(SECTIONS_SHOWN, " and not rule.is_ban", "", PAGE),
    Mutation(SECTIONS_SHOWN, "0 < after <= rule.row.told_sessions", "True", PAGE),
    Mutation("reflector/report/summary.py", "if v.position > first}", "if v}", PAGE),
    Mutation(
        "reflector/report/charts.py", "            bottom += tall", "            pass", DRAWN_BARS
    ),
    Mutation(
        "reflector/audit/stats.py", "or standing.why_uncounted(verdict) is not None", "", PAGE
    ),
    Mutation("reflector/audit/stats.py", 'event.fact("corrections", 0)', "0", PAGE),
    Mutation(STANDING, " and event.event_id not in self.retracted:", ":", JUDGE),
    # The queue of your decisions.
    Mutation(STANDING, "    return [window, *later]\n", "    return [window]\n", JUDGE),
    Mutation(
        STANDING,
        "    return is_of_session and is_same_agent and",
        "    return is_of_session and",
        ("tests/reflection/test_window.py",),
    ),
    Mutation(STANDING, "if any(window.state not in _OVER for window in citing)", "if False", JUDGE),
    Mutation(REVIEWING, "    return decided.pop().number\n", "    return number\n", JUDGE),
    Mutation(
        REVIEWING, "is_by_key = sys.stdin.isatty() and not place.as_json", "is_by_key = True", JUDGE
    ),
    Mutation(REVIEWING, 'if proposal.state != "waiting":', "if False:", DECIDED),
    Mutation(REVIEWING, 'keep=key == "k"', "keep=False", DECIDED),
    Mutation(PRUNING, "if is_new and len(waiting) >=", "if False and len(waiting) >=", DECIDED),
    Mutation(PRUNING, "any(pair.names & names for names in pruned.merges)", "False", DECIDED),
    Mutation(JUDGING, 'if window.state != "completed"]', "]", LAB),
    Mutation(
        APP,
        "found = Project.of_dataset(self.folder(), self.dataset, flags=flags)",
        "found = Project.at(self.folder(), flags=flags)",
        LAB,
    ),
    # Trials.
    Mutation(OUTCOME, "_CORRECTS.intersection(remark.signs)", "{*remark.signs}", TRIALS),
    Mutation(OUTCOME, 'signs <= {"starts-with-no"} and', "False and", TRIALS),
    Mutation(OUTCOME, "is_short and not is_task and", "is_short and", TRIALS),
    Mutation(OUTCOME, "if not self._answered or not text.strip()", "if not text.strip()", TRIALS),
    Mutation(OUTCOME, 'text = _NAME.sub(" ", message.text)', "text = message.text", TRIALS),
    Mutation(DRAWN, 'root, b"") * MILLION <', 'root, b"") * MILLION >', PLACEBO),
    Mutation(DRAWN, "_PLACEBO) * MILLION <", "_PLACEBO) * MILLION >", PLACEBO),
    Mutation(DRAWN, 'b"placebo"', 'b""', PLACEBO),
    Mutation(TRIAL, "(1 - placebo) * (1 - self.share)", "(1 - self.share)", PLACEBO),
    Mutation(TRIAL, '!= "placebo" for root', '== "told" and False for root', PLACEBO),
    Mutation(TRIAL, "if is_ours and (not is_timely or", "if is_ours and (", TRIALS),
    Mutation(
        TRIAL, "if not trial.origin and trial.data", "if not opened.meta and trial.data", TRIALS
    ),
    Mutation(TRIAL, "        at = at or datetime.now(UTC)\n", "", TRIALS),
    Mutation(FAST, "if PLACEBO_HEADING.encode() in begin:", "if False:", PLACEBO),
    Mutation(TELLINGS, "text[max(0, begin) :]", "text", PLACEBO),
    Mutation(TRIAL, "if not session.is_hooked or not", "if not", TRIALS),
    Mutation(
        TRIAL,
        "for event in events if _moment(event) <= first + SETTLES]",
        "for event in events]",
        TRIALS,
    ),
    Mutation(
        TRIAL, "self.began <= session.began < self.until", "session.began < self.until", TRIALS
    ),
    Mutation(CERTAIN, "log(1 / ALPHA)", "log(1 / ALPHA) / 2", TRIALS),
    Mutation(CERTAIN, "0.5 + difference / (2 * _most(share))", "0.5 + difference / 2", TRIALS),
    Mutation(TRIAL, 'and trial.data["key"] != _key_before(ledger, opened)', "and False", TRIALS),
    Mutation(FAST, 'if payload.get("source") == "fork":', "if False:", TRIALS),
    Mutation(INJECTION, '(is_own and f"-{bullet.name}" not in names)', "is_own", TRIALS),
    Mutation(TASKS, "(True, False, False, True):", "(True, False, True, False):", TRIALS),
    # Questions about lines that no session cites, and their results.
    Mutation(CHECKING, 'if ground.words == "playbook":', "if not tag.quote:", LINED),
    Mutation(CHECKING, "if not ground.words:", "if tag.quote is None:", LINED),
    Mutation(CHECKING, "if name not in answers.names)", "if name)", LINED),
    Mutation(CHECKING, " and ground.words in _SHOW", "", ("tests/reflection/test_hostile.py",)),
    Mutation(CHECKING, "frozenset(counting - judged)", "frozenset(counting)", LINED),
    Mutation(
        CHECKING,
        "if answer.reflection_id in refused:",
        "if True:",
        ANSWERED,
    ),
    Mutation(LINES, "< _LEAST_LIKENESS", "<= 1", LINED),
    Mutation(MIRRORS, " or _is_remembered(ledger, project, name, marked.body)", "", MIRRORED),
    Mutation(
        LINES,
        'return {"watched": True, "origin": line.file if line else ""}',
        "return {}",
        LINED,
    ),
    Mutation(MOVING, "    if is_undone and all(cut", "    if all(cut", MOVED),
    Mutation(MOVING, 'if content_digest(now) != move.facts["after"]:', "if False:", MOVED),
    Mutation(MOVING, "if not same.issubset(", "if same.isdisjoint(", MOVED),
    Mutation(MOVING, "if not _is_clean(outline, without_mark, movable):", "if False:", MOVED),
    Mutation(MOVING, "if [cut.before for cut in move.cuts] != [", "if False and [", MOVED),
    Mutation(OUTLINE, "and all(each.number in gone for each in nested)", "and False", OUTLINED),
    Mutation(OUTLINE, "        if is_cut and not any(", "        if not any(", OUTLINED),
    Mutation(PLACES, 'if row.status == "watched"}', "}", IN_FILES),
    Mutation(
        CHECKING,
        'countable &= {name for name, row in rows.items() if row.status == "watched"}',
        "countable = frozenset()",
        CHECK_ONLY,
    ),
    Mutation(
        RUNNING,
        'statuses = ("live",) if cited else ("live", "watched")',
        'statuses = ("live",)',
        IN_FILES,
    ),
    Mutation(
        CHECKED,
        "self.then.is_active(reading.event_id) and is_sound_reading(answer, reading)",
        "is_sound_reading(answer, reading)",
        LINED,
    ),
    Mutation(
        CHECKED,
        "self.then.is_active(reading.event_id) and is_sound_reading(answer, reading)",
        "self.then.is_active(reading.event_id)",
        ANSWERED,
    ),
    Mutation(CHECKING, "return len(own) < MOST_QUESTIONS", "return True", ANSWERED),
    Mutation(CHECKING, "elif not is_sound_reading(answer, reading):", "elif False:", ANSWERED),
    Mutation(CHECKING, ', "beside": True}', "}", ANSWERED),
    Mutation(
        CHECKING,
        "if fault := self._fault(answer, parsed):",
        "if fault := parsed.fault:",
        ANSWERED,
    ),
    Mutation(CHECKED, "self.evidence < HARMS", "self.evidence < 10", LINED),
    Mutation(LINES, "allowed if wanted.importer else [project]", "allowed", LINED),
    Mutation(LINES, "if line.is_rule)", "if line.text)", LINED),
    Mutation(LINES, "                if replacement:", "                if False:", LINED),
    Mutation(KINDS, "not text.binds and any(map(_is", "any(map(_is", DIVIDED),
    Mutation(KINDS, "any(map(_is_of_hints, piece.headings))", "False", DIVIDED),
    Mutation(KINDS, "_OF_OUTER * sum(map(_title_above, piece.headings[:-1]))", "0.0", DIVIDED),
    Mutation(KINDS, "0.0 if is_of_file else max", "max", DIVIDED),
    Mutation(KINDS, "_GLOSSES * (text.glosses and not text.limits)", "_GLOSSES", DIVIDED),
    Mutation(KINDS, " or _introduction(piece.lead_in) >= _AFTER_RULE", "", DIVIDED),
    Mutation(SIGNS, "return is_for_all or bool(is_for_some)", "return False", DIVIDED),
    Mutation(SIGNS, "is_request and not is_explained and", "is_request and", DIVIDED),
    Mutation(SIGNS, "if is_formal or words", "if words", DIVIDED),
    Mutation(SIGNS, "(?<!\\bzu) ", " ", DIVIDED),
    Mutation(SIGNS, 'before == "to"', "False", DIVIDED),
    Mutation(SIGNS, 'before != "" and is_third_person', "False", DIVIDED),
    Mutation(BLOCKS, 'item[1] in (None, "1")', "True", DIVIDED),
    Mutation(
        BLOCKS,
        "            self._leave(indent)\n            self._current",
        "            self._current",
        DIVIDED,
    ),
    Mutation(CHECKED, "if followed.is_high and before.is_high:", "if followed.is_high:", LINED),
    Mutation(BIRTHS, "births.added_at(line, time_of(line.added_at))", "births", BORN),
    Mutation(BIRTHS, "not has_line and past.is_coming(time)", "False", BORN),
    Mutation(BIRTHS, "elif is_uncommitted and", "elif False and", BORN),
    Mutation(LINE_HISTORY, 'before not in (b"", last) and heads', "False", BORN),
    Mutation(LINE_HISTORY, "possible |= heads.pop().commits", "heads.pop()", BORN),
    Mutation(LINE_HISTORY, "_Head(until, {*latest, after})", "_Head(until, {after})", BORN),
    Mutation(LINE_HISTORY, "if is_moved or not self.parents", "if not self.parents", BORN),
    Mutation(LINE_HISTORY, "if is_moved or not self.parents", "if is_moved", BORN),
    Mutation(LINE_HISTORY, "and families[text].isdisjoint(blobs[earlier])", "", BORN),
    Mutation(LINE_HISTORY, "and not _is_opposite(text, member)", "", BORN),
    Mutation(LINE_HISTORY, "if self._head not in heads[-1].commits:", "if False:", BORN),
    Mutation(CHECKS, 'message.origin == "model"', 'message.role == "assistant"', ASKED_ABOUT),
    Mutation(CHECKS, "and left[name] > 0", "", ASKED_ABOUT),
    Mutation(GIT, "if question in _DIFFERENCES else ()", "if False else ()", LOCATED),
    Mutation(GIT, 'or os.path.lexists(f"{real}/HEAD")', "", LOCATED),
    Mutation(GIT, "real = os.path.realpath(folder)", "real = str(folder)", LOCATED),
    Mutation(LINE_HISTORY, "[1 - _MOST_ANSWERS :]", "[:0]", BORN),
    Mutation(CHECKING, 'not in ("", "playbook")', "is not None", LINED),
    # The text for an issue, and the search in the help.
    Mutation(
        REPORTING,
        ('entry.root: "ANOTHER" for entry in entries.entries()'),
        '"": "" for entry in ()',
        REPORTED,
    ),
    Mutation(
        REPORTING,
        'f" = {value}" if isinstance(value, int) else ""',
        'f" = {value}"',
        REPORTED,
    ),
    Mutation(
        REPORTING,
        "        if isinstance(value, str) and len(value) > _SHORTEST_CHOICE\n    }",
        "        if False\n    }",
        REPORTED,
    ),
    Mutation(REPORTING, '({home: "~"} if', "({} if", REPORTED),
    Mutation(REPORTING, r"""r"'[^'\n]*'|""", r"""r"'[^'\n]*!|""", REPORTED),
    Mutation(REPORTING, r'r"\b[a-z+]+://\S+"', r'r"\b[a-z+]+!//\S+"', REPORTED),
    Mutation(REPORTING, 'error.partition(":")[0].split()[:_MOST_WORDS]', "error.split()", REPORTED),
    Mutation(HELPING, "wanted) == most]", "wanted)]", ERRORS),
    Mutation(HELPING, "key=lambda part: -_count(", "key=lambda part: _count(", ERRORS),
    # The agent as judge.
    Mutation(LOCATE, "return bool(folder) and _kind(", "return bool(word) or _kind(", JUDGED),
    Mutation(
        AGREED, "dict.fromkeys((*_COMMON, *client.variables_of(os.environ)))", "environ", JUDGED
    ),
    Mutation(
        AGENT, "env={**start.ours.environ,", "env={**os.environ, **start.ours.environ,", JUDGED
    ),
    Mutation(CONFIG, 'values.get("backend") == "agent"', "False", JUDGED),
    Mutation(CONFIG, '"base_url",\n    "judge_client",', '"base_url",', JUDGED),
    Mutation(AGENT, "> MOST_ANSWER:", "> 2 * MOST_ANSWER:", JUDGED),
    Mutation(AGENT, "os.killpg(process.pid, signal.SIGKILL)", "process.kill()", JUDGED),
    Mutation(AGENT, "start_new_session=True", "start_new_session=False", JUDGED),
    Mutation(AGENT, "if state.proved != proof:", "if False:", JUDGED),
    Mutation(AGENT, "    if output.forbidden:\n", "    if False:\n", JUDGED),
    Mutation(OFFERS, "{**consent.agreed_clients(), **named}", "named", ALLOWED),
    Mutation(OFFERS, "and not consent.agreed_clients()", "", ALLOWED),
    Mutation(AGENT, "if fault := client.version_fault(version):", "if False:", JUDGED),
    Mutation(VERSIONS, "if _numbers(version) < _numbers(since):", "if False:", JUDGED),
    Mutation(CHECK_PLAN, "judge not in agreed and not plan.lacks:", "False:", CHECK_ONLY),
    Mutation(CHECK_ROWS, "Part.LOOK if signals_of(rule) else", "", PAGES),
    Mutation(CHECK_ROWS, "no * 2 > number and not rule.result", "no and not rule.result", PAGES),
    Mutation(CHECK_ROWS, "counts.came_up or counts.run", "counts.run", PAGES),
    Mutation(CHECK_ROWS, "if rule.forbids else counts.against", "", PAGES),
    Mutation(CHECK_RESULTS, "began.at - first >= TASK", "False", PAGES),
    Mutation(CHECK_RESULTS, "value * FALSE_SHARE * rank", "value * FALSE_SHARE", PAGES),
    Mutation(CHECK_RESULTS, "log((1 - _STRONG_WEIGHT) / _STEPS)", "log(1 / _STEPS)", PAGES),
    Mutation(CHECK_PAGE, "reserve = 1 if index", "reserve = 0 if index", PAGES),
    Mutation(CHECK_PAGE, "if width(line) <= WIDTH:", "if True:", PAGES),
    Mutation(CHECK_CLOSING, "typed.judge or only", "typed.judge", CHECK_ONLY),
    Mutation(
        CHECK_PLAN,
        'words = ["check", *(quote(str(path)) for path in self.files)]',
        'words = ["check"]',
        CHECK_ONLY,
    ),
    Mutation(ASKING, "and not _has_step(file)", "and False", CHECK_ONLY),
    Mutation(ASKING, "if judge not in self.away:", "if error.stage:", AT_ONCE),
    Mutation(
        CONSENT,
        "others = sum(self._reserved.values()) - tokens",
        "others = 0",
        ("tests/reflection/test_gate.py",),
    ),
    Mutation(AGENT, "if state.limits > 1:", "if state.limits > 2:", JUDGED),
    Mutation(
        AGENT, "(lock for lock in locks if files.lock(lock, wait=False))", "iter(locks)", JUDGED
    ),
    Mutation(AGENT, "Usage() if is_free else usage", "Usage()", JUDGED),
    Mutation(CONSENT, "if spent < limit + one_more:", "if True:", JUDGED),
    Mutation(PIPED, "away.add(judge)", "away.update(map(runner.who, pending))", JUDGED),
    Mutation(ASKED, "client.admit()", "pass", MODEL_ASKED),
    Mutation(RANKING, "if heir is not None and heir not in names:", "if False:", RANKED),
    # The fold.
    Mutation(STATE, "if tag[0] > entry.recounted_at]", "if tag[0] > entry.recounted_at + 1]", FOLD),
    Mutation(STATE, "tags[0][0] <= entry.recounted_at", "tags[0][0] < 0", FOLD),
    Mutation(STATE, "% 2 == 0", "== 0", FOLD),
    Mutation(STATE, "return window_counts and self.active", "return self.active", FOLD),
    Mutation(STATE, "<= completion.position + MAX_TAGS", "<= completion.position + 1", FOLD),
    Mutation(STATE, "            if name not in self.entries:\n", "            if True:\n", FOLD),
    Mutation(STATE, 'if entry.status == "live")', "if entry.name)", FOLD),
    Mutation(STATE, "counting or self.adopted", "self.adopted", FOLD),
    Mutation(STATE, 'if data.get("disposition") != "counted":', "if False:", FOLD),
    Mutation(EFFECTS, "book.updated_at = event.recorded_at", "book.updated_at = ''", FOLD),
    Mutation(EFFECTS, "recounted_at=min(since, event.position)", "recounted_at=since + 1", FOLD),
    Mutation(PROJECTION, "for name in undone:", "for name in ():", ("tests/cli/test_changes.py",)),
    Mutation(
        UNDOING,
        '{"since": since, "baseline',
        '{"baseline',
        ("tests/cli/test_changes.py",),
    ),
    Mutation(BULLETS, '"removed_into": data.get("into")', '"removed_into": None', FOLD),
    # The append: the store, its admission, and the tables.
    Mutation(
        APPENDING, "later_than(writing.recorded_at)", ("writing.recorded_at[:-1] + '0Z'"), APPEND
    ),
    Mutation(APPENDING, "if data_hash == sound.data_hash:", "if True:", APPEND),
    Mutation(APPENDING, "known[event.event_id] = (position, sound.data_hash)", "pass", APPEND),
    Mutation(APPENDING, "event.occurred_at or recorded_at", "recorded_at", APPEND),
    Mutation(APPENDING, "taken[name] = event.position", "pass", APPEND),
    Mutation(
        APPENDING,
        "        self.chain = chain\n        self.recorded_at = recorded_at\n",
        "",
        APPEND,
    ),
    Mutation(STORE, "                fill_tables(writing.sql)\n", "                pass\n", APPEND),
    Mutation(APPENDING, "if needs_target and event.target_id is None:", "if False:", APPEND),
    Mutation(
        APPENDING,
        "if not 0 < len(value) <= _MAX_FIELD",
        "if not 0 <= len(value) <= _MAX_FIELD",
        APPEND,
    ),
    Mutation(APPENDING, "event.reflection_id is None or event.event_id != own_id", "False", APPEND),
    Mutation(APPENDING, "foreign or event_type.checked", "foreign", APPEND),
    Mutation(APPENDING, "else event_type.unreadable(facts)", "else None", APPEND),
    Mutation(
        ROWS,
        'fault = one.unreadable(data) or ""',
        'fault = ""',
        ("tests/proof/test_forged_answers.py",),
    ),
    Mutation(PROJECTION, "start < event.position <= start + MAX_TAGS", "False", TABLES),
    Mutation(PROJECTION, " AND state <> 'completed'", "", TABLES),
    Mutation(COUNTERS, 'if self.counting() != "as_applied":', "if False:", TABLES),
    Mutation(PROJECTION, "active = 1 - active", "active = 0", TABLES),
    Mutation(PROJECTION, "int(position > recounted_at", "int(position >= 0", TABLES),
    Mutation(PROJECTION, "                self._uncount(name)\n", "                pass\n", TABLES),
    Mutation(PROJECTION, "        self._covers.clear()\n", "", TABLES),
    # Bullets merged by reference.
    Mutation(EFFECTS, 'if source and source.status == "live"]', "if source]", MERGED),
    Mutation(STATE, "if self.entries[name].recounted_at > after", "if True", MERGED),
    Mutation(STATE, "                if position > after:\n", "                if True:\n", MERGED),
    Mutation(
        COUNTERS,
        "            for one in (name, *families.heirs(name)",
        "            for one in (name,",
        MERGED,
    ),
    Mutation(
        COUNTERS,
        "{one for name in names for one in (name, *book.heirs(name))}",
        "set(names)",
        MERGED,
    ),
    Mutation(PROJECTION, "(name, old.heir)", "(name,)", MERGED),
    # Answers over the whole history, counted from one row.
    Mutation(USAGE, " and head // 2 < position <= head", " and position <= head", CACHED),
    Mutation(
        USAGE,
        "if not 0 < position <= head:\n        return False",
        "if 0 < position <= head:\n        return True",
        CACHED,
    ),
    Mutation(USAGE, "deeds.keys() - earlier.keys()", "deeds.keys()", CACHED),
    Mutation(USAGE, "in helped and deeds[deed] <= used.helped:", "in helped:", CACHED),
    Mutation(ANSWERS, "len(sessions) - known_sessions", "len(sessions)", CACHED),
    Mutation(ANSWERS, "if home.is_answered}", "}", CACHED),
    Mutation(
        "reflector/audit/difference.py",
        'earlier.counting == later.counting == "as_applied"',
        "True",
        ("tests/audit/test_questions.py",),
    ),
    Mutation(PROJECTION, '(*REBUILDABLE, "cached_usage")', "REBUILDABLE", CACHED),
    Mutation(
        STORE,
        (' self.digest in EARLIER and engine.dialect == "sqlite"'),
        " False",
        ("tests/ledger/test_migrations.py",),
    ),
    Mutation(AS_OF, "max(at, self.entries[name].recounted_at)", "at", MERGED),
    Mutation(
        RECONCILED,
        "restated |= dict.fromkeys((name, *heirs[name]))",
        "restated[name] = None",
        MERGED,
    ),
    Mutation(
        VERDICTS,
        "if reflection.reflection_id not in checks:",
        "if reflection.reflection_id:",
        MERGING,
    ),
    Mutation(
        VERDICTS,
        "        for tag in tags:\n            is_verdict",
        "        retractions = []\n        for tag in tags:\n            is_verdict",
        PAIRED,
    ),
    Mutation(VERDICTS, "reason, last_verdict.reflection_id)", "reason)", PAIRED),
    Mutation(RECONCILED, "if _differs(row, entry, fields):", "if False:", PAIRED),
    Mutation(
        MATCHED,
        "ours.birth == theirs.birth and ours.points_to(target_id)",
        "ours.birth == theirs.birth",
        PARTED,
    ),
    Mutation(MATCHED, 'return identity(type_, "beside", *birth)', "return birth.event_id", PARTED),
    Mutation(RENAMED, "position = self._ends[tx]", "position = min(later)[0]", GIT_NAMES),
    Mutation(
        SURVEYED, "for name, later in later_names.items()}", "for name, later in ()}", GIT_NAMES
    ),
    Mutation(MERGE, "if is_renaming(event.type, event.actor, facts):", "if False:", GIT_NAMES),
    Mutation(FILE_EDITS, "self._arrived = arriving", "self._arrived = {}", GIT_NAMES),
    Mutation(
        SAME_BULLETS,
        "matched.joined |= dict.fromkeys(rule.ours - {our_name}, our_name)",
        "pass",
        HISTORIES,
    ),
    Mutation(FILE_EDITS, "if not self._history.is_back(entry):", "if False:", HISTORIES),
    Mutation(SURVEYED, "checked if own else until_now(checked)", "checked", PAIRED),
    Mutation(SAME_BULLETS, "            self._with_its_text(their_bullets),\n", "", PAIRED),
    Mutation(
        VERDICTS, "            if tag.is_check\n", "            if not tag.is_check\n", MERGING
    ),
    Mutation(MERGE, "*([] if is_birth else [event.event_id])", "event.event_id", MERGING),
    Mutation(RECONCILED, 'removed["follows"] = entry.heir is not None', "pass", MERGED),
    # The intake: the spool, the recorded parts of a transcript, the pipeline.
    Mutation(SPOOLED, " or stop.received_at_ns >= delivery.received_at_ns", "", SPOOL),
    Mutation(
        SPOOLED,
        "key=lambda delivery: delivery.received_at_ns)\n\n\ndef ",
        "key=lambda _: 0)\n\n\ndef ",
        SPOOL,
    ),
    Mutation(SPOOLED, "_failure(target).attempts + 1", "1", SPOOL),
    Mutation(SPOOLED, "claimed.received_at_ns == stop.received_at_ns", "True", SPOOL),
    Mutation(SPOOLED, "[:-MOST_SILENT]", "[: -MOST_SILENT * 2]", SPOOL),
    Mutation(SPOOLED, "type(version) is int and version > 1", "False", SPOOL),
    Mutation(
        SPOOLED,
        ('if event == "SubagentStop" else "transcript_path"'),
        "if False else 'transcript_path'",
        SPOOL,
    ),
    Mutation(
        TAKEN,
        "known = seen | copies.keys",
        "known = copies.keys",
        INTAKE,
    ),
    Mutation(TAKEN, "known = seen | copies.keys", "known = seen", COPIES),
    Mutation(TAKEN, "if len(known) < _FEWEST_COPIES:", "if not known:", COPIES),
    Mutation(TAKEN, "lambda pair: pair[1] in known, fresh", "lambda pair: True, fresh", COPIES),
    Mutation(TAKEN, "or original_id == session_id:", "or False:", COPIES),
    Mutation(TAKEN, "return [key for key in keys if key not in repeating]", "return keys", ENDED),
    Mutation(ENDS, "return not cited.issuperset(cited_names(answer))", "return True", ENDED),
    Mutation(ENDS, "if session_id in busy or", "if", ENDED),
    Mutation(ENDS, "max(began_ns, path.stat().st_mtime_ns)", "0", ENDED),
    Mutation(
        STORED,
        ("return write_export(session_id) if is_over else None"),
        "return write_export(session_id)",
        ENDED,
    ),
    Mutation(TAKEN, "if is_end else delivery.transcript_bytes", "if is_end else None", INTAKE),
    Mutation(
        TAKEN,
        'reading.session_id, reading.agent_id or "", mode)',
        "reading.session_id, mode)",
        INTAKE,
    ),
    Mutation(
        TAKEN,
        "in reading.scan.cited if key in new_keys)",
        "in reading.scan.cited)",
        INTAKE,
    ),
    Mutation(
        TAKEN, "for name in names if name in known]", "for name in names if name in ()]", INTAKE
    ),
    Mutation(
        TAKEN,
        "if key in reading.new_keys:\n            reasons |=",
        "if key:\n            reasons |=",
        INTAKE,
    ),
    Mutation(TAKEN, "if resumed.places[:1] == [place._replace(passed=0)]:", "if True:", RESUMED),
    Mutation(
        TAKEN, "if record.place >= self._end - FOLLOWED)", "if record.place == self._end)", RESUMED
    ),
    Mutation(FOLLOW, "self.at - citation.at > FOLLOWED", "self.at < citation.at", RESUMED),
    Mutation(FOLLOW, "cited = {*names, *message.beside}", "cited = {*names}", RESUMED),
    Mutation(TAKEN, '"cited" if is_citable else "retired"', '"cited"', INTAKE),
    Mutation(
        PIPED,
        "spool.fail(delivery.path, delivery.path.parent, error)",
        "spool.settle_delivery(delivery)",
        PIPELINE,
    ),
    Mutation(PIPED, "all(delivery.path in recorded for delivery in pending)", "True", PIPELINE),
    Mutation(
        PIPED,
        "            taken = _take(pipeline, source)\n            is_new",
        "            spool.settle_delivery(delivery)\n"
        "            taken = _take(pipeline, source)\n            is_new",
        PIPELINE,
    ),
    Mutation(ENDS, "if delivery.transcript_bytes is not None:\n", "if False:\n", PIPELINE),
    Mutation(
        PIPED,
        "if not oldest < stop.received_at_ns <= now",
        "if oldest < stop.received_at_ns <= now",
        PIPELINE,
    ),
    Mutation(PIPED, " or ends.is_gone(stop):", ":", ENDED),
    Mutation(
        "reflector/sessions/ends.py",
        "return spool.keep_unanswered",
        "return spool.settle_delivery",
        ENDED,
    ),
    Mutation(ENDS, "session_id is None or spool.stop_of(delivery)", "session_id is None", PIPELINE),
    # Verify.
    Mutation(PROVEN, "if digest_of(event.data) == event.data_hash:", "if True:", VERIFY),
    Mutation(PROVEN, "if has_empty_field or f", "if f", VERIFY),
    Mutation(
        PROVEN, "if event.recorded_at >= before or", "if True or", ("tests/ledger/test_forged.py",)
    ),
    Mutation(
        PROVEN, "if self.position != head.position:", "if self.position < head.position:", VERIFY
    ),
    Mutation(PROVEN, "self.position and self._recorded_at != head.recorded_at", "False", VERIFY),
    Mutation(
        PROVEN, "if anchor not in self._passed:", "if anchor.position > self.position:", VERIFY
    ),
    Mutation(
        PROVEN,
        "        if not is_redacted:\n            message",
        "        if False:\n            message",
        VERIFY,
    ),
    Mutation(COMPARED, '"tag", "session_id", "reflection_id"', '"tag", "session_id"', VERIFY),
    Mutation(COMPARED, '"reflection_id", "active")', '"reflection_id")', VERIFY),
    Mutation(COMPARED, 'yield position, f"{name} is missing from the table"', "pass", VERIFY),
    Mutation(COMPARED, '"state", "attempts", "changed_at"', '"state", "changed_at"', VERIFY),
    Mutation(
        COMPARED,
        ('yield position, f"{name} is in the table but not in the events"'),
        "pass",
        VERIFY,
    ),
    Mutation(COMPARED, "if got == wanted:", "if got and wanted and got[0] == wanted[0]:", VERIFY),
    Mutation(COMPARED, "if tuple(row) == wanted:", "if True:", VERIFY),
    Mutation(PROJECTION, "int(position > recounted_at and", "int(position > 0 and", TABLES),
    Mutation(PROJECTION, "retraction_id is not None or is_covered_too", "is_covered_too", TABLES),
    Mutation(PROVEN, '                if line != "ok":', "                if False:", VERIFY),
    # The text that a model gets.
    Mutation(
        EXCERPT, "= 0.0 if citing else self._since + 1", "= 0.0 if citing else self._since", SHOWN
    ),
    Mutation(
        EXCERPT, ("    if message.origin in _PEOPLE:"), '    if message.origin == "human":', SHOWN
    ),
    Mutation(EXCERPT, "elif message.origin in _PEOPLE and", "elif False and", SHOWN),
    Mutation(EXCERPT, "or result.call_id in runs", "", SHOWN),
    Mutation(EXCERPT, "self.worths[place] = _Worth(_BEST, 0, -(place + 1))", "pass", SHOWN),
    Mutation(EXCERPT, "cost <= room and", "cost <= 2 * room and", SHOWN),
    Mutation(EXCERPT, "lambda: map(_redacted, messages())", "messages", SHOWN),
    # The evidence of a model's verdict.
    Mutation(GROUNDS, "LEAST_QUOTE = 12", "LEAST_QUOTE = 11", EVIDENCE),
    Mutation(GROUNDS, "LEAST_QUOTE = 12", "LEAST_QUOTE = 13", EVIDENCE),
    Mutation(
        GROUNDS,
        "holding = [text for text in turn.texts if quote in text.text]",
        "holding = [t for t in turn.texts if quote.casefold() in t.text.casefold()]",
        EVIDENCE,
    ),
    Mutation(
        GROUNDS,
        'return " ".join(redact(visible(text)).split())',
        "return redact(visible(text))",
        EVIDENCE,
    ),
    Mutation(GROUNDS, "enumerate(messages, start=1)", "enumerate(messages)", EVIDENCE),
    Mutation(GROUNDS, "turn.number <= cited.number", "turn.number < cited.number", EVIDENCE),
    Mutation(GROUNDS, '"too_early": is_early', '"too_early": False', EVIDENCE),
    Mutation(GROUNDS, "call is None or not is_run(call)", "call is None", EVIDENCE),
    Mutation(GROUNDS, "and quote not in text.command", "", HOSTILE),
    Mutation(GROUNDS, "if tag.tag in text.proves and", "if text.proves and", EVIDENCE),
    Mutation(
        GROUNDS, '"ran": ("helpful",)', ('"ran": ("helpful",), "silent": ("helpful",)'), HOSTILE
    ),
    Mutation(GROUNDS, "if asked and tag.name not in asked", "if False", EVIDENCE),
    Mutation(GROUNDS, "tag.sure not in trusted", "tag.sure is None", EVIDENCE),
    Mutation(MEASURED, "if not is_ours:", "if False:", MEASURED_TESTS),
    Mutation(MEASURED, "pattern.fullmatch(name)", "pattern.match(name)", MEASURED_TESTS),
    Mutation(MEASURED, "_measured_right(answer) or _UNMEASURED", "_UNMEASURED", MEASURED_TESTS),
    Mutation(
        GROUNDS,
        "return any(quote in other or other in quote for other in of_others)",
        "return False",
        EVIDENCE,
    ),
    Mutation(GROUNDS, "if any(quote in text for text in advice)", "if False", EVIDENCE),
    Mutation(GROUNDS, "turn.chain != cited.chain", "False", EVIDENCE),
    Mutation(GROUNDS, 'not tag.relevant or tag.followed == "no"', "not tag.relevant", EVIDENCE),
    Mutation(PARSED, 'if "asked" in data and', "if", EVIDENCE),
    Mutation(
        STANDING, '    if "asked" not in data:\n        return Grounded({}, {})\n', "", EVIDENCE
    ),
    Mutation(RUN, "        if is_quoting:\n", "        if False:\n", EVIDENCE),
    # The gated step.
    Mutation(GATED_TURN, "config.allow_reflection and not dry_run", "not dry_run", GATED),
    Mutation(
        GATED_TURN, ("config.allow_reflection and not dry_run"), "config.allow_reflection", GATED
    ),
    Mutation(GATED_TURN, 'or asks(state, "_planner_reflection_flag")', "", GATED),
    Mutation(STEP, 'prompt.replace("\\r\\n", "\\n")', "prompt", GATED),
    Mutation(STEP, "redact(str(text)).split()", "str(text).split()", GATED),
    Mutation(GATED_SETTINGS, "if near[0] <= 2 else", "if near[0] <= 1 else", GATED),
    Mutation(GATED_SETTINGS, "math.floor(", "int(", GATED),
    Mutation(
        STEP, "if ms > config.time_ms_reflection", "if ms >= config.time_ms_reflection", GATED
    ),
    Mutation(STEP, "if report.reason and not result.reason:", "if False:", GATED),
    Mutation(STEP, "ops_written=report.written", "ops_written=len(result.memory_entries)", GATED),
    Mutation(STEP, "entries[:ops_cap]", "entries", GATED),
    Mutation(
        STEP,
        "the first record stands\n        return False",
        "the first record stands\n        raise",
        GATED,
    ),
    Mutation(STEP, 'redact(entry.get("text", ""))', 'entry.get("text", "")', GATED),
    Mutation(
        GATED_LOG,
        "NUL in the path\n            self.lost += 1",
        "NUL in the path\n            pass",
        GATED,
    ),
    Mutation(GATED_LOG, "sorted(self._staged)", "self._staged", GATED),
    Mutation(GATED_LOG, "os.O_CREAT | NO_WAIT", "os.O_CREAT", GATED),
    Mutation(GATED_TURN, '("_dry_run", "_dry_run_until_t4")', '("_dry_run_until_t4",)', GATED),
    Mutation(GATED_LOG, '.lower() == "true"', "", GATED),
    # Install: each of our hooks once in a settings file, without changes to other hooks.
    Mutation(HOOK_LIST, "[python, '-I', '-S', script]", "[python, '-S', script]", INSTALLED),
    Mutation(HOOK_LIST, "if _OURSELVES.fullmatch(program):", "if True:", INSTALLED),
    Mutation(
        HOOK_LIST,
        "        _remove_status_line(settings)\n        return text",
        "        return text",
        INSTALL_COMMAND,
    ),
    Mutation(HOOK_LIST, "and is_status_line(_command(line)):", ":", INSTALL_COMMAND),
    Mutation(HOOK_LIST, "if is_free_of_us and", "if", INSTALL_COMMAND),
    Mutation(HOOK_LIST, "missing.pop(event, None)", "missing.pop(event, 0)", INSTALLED),
    Mutation(HOOK_LIST, "missing.pop(event, None)", "missing.get(event)", INSTALLED),
    Mutation(HOOK_LIST, "    handler.update(renewed)\n", "", INSTALLED),
    Mutation(HOOK_LIST, "        renewed |= handler\n", "        pass\n", INSTALLED),
    Mutation(
        HOOK_LIST,
        "lambda _, handler: is_own",
        "lambda _, handler: _ != 'Stop' and is_own",
        INSTALLED,
    ),
    Mutation(HOOK_LIST, ' and group.keys() <= {"matcher", "hooks"}', " and False", INSTALLED),
    Mutation(HOOK_LIST, "if not isinstance(value, kind):", "if False:", INSTALLED),
    Mutation(
        AGENTS,
        " is self.off",
        " is True",
        ("tests/cli/test_doctor.py", "tests/cli/test_install.py"),
    ),
    # Sessions that are not in a ledger yet: counted, and named with their command.
    Mutation("reflector/hooks/doctor.py", "if kept and not recorded", "if kept", KEPT),
    Mutation("reflector/hooks/doctor.py", "recorded = len({", "recorded = 0 * len({", KEPT),
    Mutation("reflector/cli/report.py", "not ledger.window_states()", "True", KEPT),
    # Settings files: the complete old file or the complete new one, with its mode and its link.
    # After uninstall, the file has its earlier bytes.
    Mutation(HOOK_LIST, "is_made_by_us or backup.exists():", "is_made_by_us:", INSTALL_COMMAND),
    Mutation("reflector/files.py", "if now != read:", "if False:", INSTALL_COMMAND),
    Mutation(HOOK_LIST, "stat.S_IMODE(path.stat().st_mode)", "0o600", INSTALL_COMMAND),
    Mutation(HOOK_LIST, "target = Path(os.path.realpath(path))", "target = path", INSTALL_COMMAND),
    Mutation(
        HOOK_LIST,
        (' None if after.strip() in ("", "{}") else after.encode()'),
        " after.encode()",
        INSTALL_COMMAND,
    ),
    Mutation(
        HOOK_LIST,
        "            return backup\n",
        "            return after.encode()\n",
        INSTALL_COMMAND,
    ),
    # Our settings: a project's own file may lower budgets, but cannot set the values that only its
    # user may set.
    Mutation(
        CONFIG,
        "not 0 < projects_limit <= users_limit:",
        "not projects_limit <= users_limit:",
        CONFIGURED,
    ),
    Mutation(
        CONFIG,
        "    for key in USERS_OWN:\n        if key in values:\n",
        "    for key in USERS_OWN:\n        if False:\n",
        CONFIGURED,
    ),
    Mutation(CONFIG, "not least <= value <= most:", "value > most:", CONFIGURED),
    # The fast hook: its output, its files, and when a drain starts.
    Mutation(FAST, "if not locate.exists(project) or locate", "if locate", HOOK),
    Mutation(
        FAST,
        ('event in handover.STOPS and "parent_agent_id" in payload'),
        "False",
        ("tests/cli/test_install.py",),
    ),
    Mutation(
        FAST,
        "is_drain_due = event not in handover.STOPS",
        "is_drain_due = False",
        ("tests/hooks/test_drain_start.py",),
    ),
    Mutation(FAST, 'start = locate.environment("CLAUDE_PROJECT_DIR")\n', 'start = ""\n', HOOK),
    Mutation(FAST, 'content.startswith(stamp + b"\\n") and', "", HOOK),
    Mutation(FAST, ' or payload.get("source") == "compact":', ":", HOOK),
    Mutation(FAST, "return keep_elsewhere(payload, data)", "raise first", HOOK),
    # The spool: a delivery is in one place, is tried again after a growing pause, and survives a
    # killed hook.
    Mutation(
        SPOOLED, 'path.name).with_suffix(".error").unlink(missing_ok=True)', "path.name)", SPOOL
    ),
    Mutation(SPOOLED, "attempts < MOST_ATTEMPTS and not", "not", ("tests/cli/test_trouble.py",)),
    Mutation(SPOOLED, "if path.lstat().st_mtime > oldest:", "if False:", SPOOL),
    Mutation(
        SPOOLED,
        ('if folder in (spool_dir, spool_dir / "waiting") and _is_whole(path):'),
        "if False:",
        SPOOL,
    ),
    Mutation(SPOOLED, "if is_of(project, delivery.project)]", "]", SPOOL),
    Mutation(
        SPOOLED,
        " in _NEEDED if key in ",
        " in ",
        ("tests/sessions/test_spool.py", "tests/cli/test_redact.py"),
    ),
    # Readers: the speaker of each record, each message once, and how a call ended.
    Mutation(CLAUDE, "if answer.startswith(_CUT_OUTPUT) and", "if False and", READERS[:1]),
    Mutation(
        CLAUDE,
        'return speaker != "human" if speaker else place.chain != ""',
        'return place.chain != ""',
        READERS[:1],
    ),
    Mutation(
        CLAUDE, 'synthetic=record.get("isApiErrorMessage") is True or ', "synthetic=", READERS[:1]
    ),
    Mutation(CLAUDE, "yield message if is_typed else", "yield message if True else", SPEAKING),
    Mutation(CLAUDE, 'message._replace(origin="unknown") for', "message for", READERS[:1]),
    Mutation(CLAUDE, "if is_typed or not text:", "if True:", SPEAKING),
    Mutation(CODEX, "if is_copy or self._is_subagent or origin", "if origin", READERS[1:]),
    Mutation(
        CODEX,
        "self._root = parent_id or own_id or self._root",
        "self._root = own_id or self._root",
        COPIES,
    ),
    Mutation(
        CODEX,
        "is_in_copies = self._is_fork or not self._is_subagent",
        "is_in_copies = not self._is_subagent",
        COPIES,
    ),
    Mutation(
        SPEAKERS,
        'Speech("unknown", text) if tag_around(typed) else Speech("human", typed)',
        'Speech("human", typed)',
        SPEAKING,
    ),
    Mutation(
        SPEAKERS, "typed = without(typed, patterns.any).strip()", "typed = typed.strip()", SPEAKING
    ),
    Mutation(CODEX, 'return uuid if times == 1 else f"{uuid}#{times}"', "return uuid", READERS[1:]),
    Mutation(CODEX, " and ordinal < self._first_own_ordinal:", " and False:", READERS[1:]),
    Mutation(COPILOT, "if call.id not in self._requested_calls:", "if True:", READERS[1:]),
    Mutation(COPILOT, "refused = self._denied.pop(call_id, None)", "refused = None", READERS[1:]),
    Mutation(GEMINI, 'if text_in(fields_of_call, "status") in _FINAL:', "if True:", READERS[1:]),
    Mutation(
        OPENCODE,
        'if is_ended or "end" in object_in(part, "time"):',
        "if True:",
        READERS[1:],
    ),
    Mutation(
        OPENCODE,
        'refused = text[feedback.end() :].strip() if feedback else ""',
        'refused = ""',
        READERS[1:],
    ),
    Mutation(PI, 'if message.get("stopReason") == "aborted":', "if False:", READERS[1:]),
    Mutation(PI, "*spoken(text))", '"human", text)', READERS[1:]),
    Mutation(BUILDING, "    if exit_code:\n", "    if False:\n", READERS),
    Mutation(
        CLAUDE,
        "    if is_interrupted:\n        return",
        "    if False:\n        return",
        READERS[:1],
    ),
    Mutation(
        CITATIONS,
        "if _BULLET_LINE.match(without_reasons) or _is_link_target(without_reasons):",
        "if _is_link_target(without_reasons):",
        CITED,
    ),
    Mutation(CITATIONS, "            fence = mark[1]\n", "            pass\n", CITED),
    Mutation(CITATIONS, 'if message.origin == "model":', "if True:", CITED),
    # The settings of one API, including its key, do not reach another one.
    Mutation(
        "reflector/judges/api.py",
        "own if own and api.name == _api_of_files() else",
        "own if own else",
        ("tests/judges/test_http_api.py",),
    ),
    Mutation(
        "reflector/judges/http_api.py",
        'text.replace(key, "[redacted:key]")',
        "text",
        ("tests/judges/test_http_api.py",),
    ),
    # Extensions that a user lists are loaded, but not those of a project.
    Mutation(
        "reflector/extensions.py",
        "for path in (location, *map(os.path.realpath, files)):",
        "for path in (location,):",
        EXTENDED,
    ),
    Mutation(
        "reflector/extensions.py",
        "_projects.add(str(project))",
        "pass",
        EXTENDED,
    ),
    Mutation(
        "reflector/judges/extensions.py",
        "if consent.kept_object(_FILE).get(name) != _identity(extension):",
        "if False:",
        EXTENDED,
    ),
    Mutation(
        "reflector/transcripts/reading.py",
        "if recognised is None and listed_readers():",
        "if listed_readers():",
        EXTENDED,
    ),
    Mutation(CONFIG, 'if values.get("backend") in users.judges:', "if False:", EXTENDED),
    # The text at a start: it fits, it cannot imitate the client, and a name in it means one bullet
    # of this ledger.
    Mutation(INJECTION, '_REMINDER.sub("&lt;", bullet.line)', "bullet.line", TOLD),
    Mutation(INJECTION, "if bullet.name not in names and", "if True or", TOLD),
    Mutation(
        FILE_EDITS,
        "is_gone = (row.section, row.text) not in self._their_words",
        "is_gone = False",
        HISTORIES,
    ),
    Mutation(
        FILE_EDITS,
        "return entry in self._history.removed and not is_reworded",
        "return False",
        HISTORIES,
    ),
    Mutation(
        FILE_EDITS,
        "self._names_in_file = {name: old for old, name in names.items()}",
        "self._names_in_file = dict[str, str]()",
        SHARED,
    ),
    Mutation(
        FILE_EDITS,
        "return not is_known and not self._is_of_branch(row)",
        "return False",
        SHARED,
    ),
    Mutation(
        FILE_EDITS,
        "isdisjoint({erased, *self._history.changed})",
        "isdisjoint({erased})",
        SHARED,
    ),
    Mutation(
        FILE_MERGES,
        "same.pop(0) if same else bullet.name",
        "bullet.name",
        ("tests/playbook/test_edits.py",),
    ),
    Mutation(
        FILE_MERGES,
        "if remaining is None or remaining.text == base_bullet.text:",
        "if remaining is None or _advice(remaining) == _advice(base_bullet):",
        ("tests/playbook/test_edits.py",),
    ),
    Mutation(
        FILE_MERGES,
        "if not (is_theirs or self._was_removed(bullet, self._theirs)):",
        "if not is_theirs:",
        ("tests/playbook/test_edits.py",),
    ),
    Mutation(
        FILE_EDITS,
        'if removed.status == "removed" and wordings & replaced:',
        'if removed.status == "removed" and wordings:',
        HISTORIES,
    ),
    Mutation(
        FILE_EDITS,
        "if self._history.has_lost(row.bullet):",
        "if not self._history.has_lost(row.bullet):",
        HISTORIES,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "return is_nearer_to_git and has_blob(",
        "return has_blob(",
        SHARED,
    ),
    Mutation(
        FILE_EDITS,
        "is_known = entry in wordings",
        "is_known = entry == entry_in_file(removed.bullet)",
        SHARED,
    ),
    Mutation(
        FILE_MERGES,
        "name for name in self._theirs.by_name if self._theirs.names.get(name) != name",
        "name for name in self._theirs.by_name if name not in self._base",
        ("tests/playbook/test_edits.py",),
    ),
    Mutation(
        FILE_MERGES,
        "names_of_base = {*self.names.values()}",
        "names_of_base = self.names",
        ("tests/playbook/test_edits.py",),
    ),
    Mutation(
        FILE_MERGES,
        "(self.displaced if is_taken else self.merged).extend(pairs)",
        "self.merged.extend(pairs)",
        ("tests/playbook/test_edits.py",),
    ),
    Mutation(
        INJECTION,
        "elif bullet.name in loaded.uncounted:",
        "elif False:",
        ("tests/playbook_files/test_sharing.py", *TOLD),
    ),
    Mutation(
        INJECTION,
        ", *removed}",
        "}",
        ("tests/playbook_files/test_sharing.py", *TOLD),
    ),
    Mutation(
        INJECTION,
        'len(json.dumps(text, ensure_ascii=False).encode("utf-16-le")) // 2 - 2',
        "len(text)",
        TOLD,
    ),
    Mutation(INJECTION, 'if template.text.lstrip().startswith("{{"):', "if False:", TOLD),
    # The end of a command: its exit code, and an error that names the problem and the remedy
    # without showing a secret.
    Mutation(APP, "return error.exit_code, str(error)", "return 1, str(error)", ERRORS),
    Mutation(APP, ", commands=dict.fromkeys(names)", "", ERRORS),
    Mutation(APP, 'typed = path.removeprefix("reflector ")', "typed = path", ERRORS),
    Mutation(APP, "note(redact(safe(text)))", "print(text, file=sys.stderr)", ERRORS),
    Mutation(APP, "if isinstance(error, OSError):", "if False:", ERRORS),
    Mutation(
        APP,
        "if user and project is not None:",
        "if False:",
        ("tests/sessions/test_user_playbook.py", *ERRORS),
    ),
    Mutation(APP, "if not root.is_dir():", "if False:", ERRORS),
    Mutation(
        APP,
        "if not self.user and self.dataset is None\n            else _COMMAND",
        "if True\n            else _COMMAND",
        ERRORS,
    ),
    Mutation(ARGUMENTS, 'value.strip("[] ").removeprefix("lesson ")', "value", NAMED),
    Mutation(
        ARGUMENTS, 'f"{typed[1]}-{typed[2]}" if typed is not None else plain', "plain", ERRORS
    ),
    Mutation(ARGUMENTS, "alike[0] if len(alike) == 1 else None", "None", ERRORS),
    # A time in words means the whole period.
    Mutation(DATES, "                days = 7\n", "                pass\n", MOMENTS),
    Mutation(DATES, "if is_ahead else day", "if False else day", MOMENTS),
    Mutation(DATES, "min(last, first + timedelta(days=now.day - 1))", "last", MOMENTS),
    Mutation(DATES, ".replace(fold=1)", "", MOMENTS),
    # Undo: it undoes the complete last change, restores the earlier state, and never overwrites a
    # later one.
    Mutation(UNDOING, "        if makes_a_change:", "        if True:", UNDO),
    Mutation(TAKEBACK, "        if not evidence:\n            raise", "        raise", UNDO),
    Mutation(TAKEBACK, 'if change.kind == "remove"', 'if change.kind == "add"', UNDO),
    Mutation(MERGE_TEXT, "if not all(alike(text, rule)", "if not any(alike(text, rule)", UNDO),
    Mutation(DRIFT, 'kind in ("missing", "written")', 'kind == "missing"', ERRORS),
    Mutation(AUTHORSHIP, " and MERGED not in event.meta", "", UNDO),
    Mutation(AUTHORSHIP, "is_own(tx) if tx is not None else", "", UNDO),
    Mutation(
        ACTS,
        "if event.event_id in undone_at or _tag_id(event) in undone_at:",
        "if event.event_id in undone_at:",
        UNDO,
    ),
    Mutation(
        ACTS, "if last.type in _FINAL or acts.is_import(last):", "if last.type in _FINAL:", UNDO
    ),
    Mutation(
        ACTS,
        "return _command(event) in self.imports",
        "return event.type in _IMPORTS or event.actor == ev.IMPORT",
        UNDO,
    ),
    Mutation(ACTS, "first = (merges or command)[0].position", "first = act.position", UNDO),
    Mutation(
        HISTORY,
        "if file.started_at >= since and is_in_project(project.root, file)",
        "if file.started_at >= since",
        KEPT_SESSIONS,
    ),
    Mutation(
        FOUND_TRANSCRIPTS,
        "return transcript.cwd == project_hash(root) or _is_folder_of(transcript.cwd, root)",
        "return _is_folder_of(transcript.cwd, root)",
        KEPT_SESSIONS,
    ),
    Mutation(
        HISTORY,
        "            yield fresh\n",
        "            if fresh:\n                yield fresh\n",
        KEPT_SESSIONS,
    ),
    Mutation(ERASED, "if path in plan.removable]", "]", ERASING),
    Mutation(ERASED, "    _each(plan.waiting, drop_words)\n", "", ERASING),
    Mutation(MACHINES, "        deque(checked, maxlen=0)\n", "", ADOPTING),
    Mutation(ACTS, "if _command(event) != _command(last):", "if event is not last:", UNDO),
    Mutation(UNDOING, "if not _is_unchanged(ledger, bullet, bullet_changes):", "if False:", UNDO),
    Mutation(UNDOING, "former[index] + now[index] - then[index]", "former[index]", UNDO),
    Mutation(UNDOING, "if any(change.text == REDACTED for change in changes):", "if False:", UNDO),
    Mutation(UNDOING, "*others], key=_undo_order)", "*others], key=lambda _: 0)", UNDO),
    Mutation(UNDOING, '"merge" if change.name is None else change.kind', "change.kind", UNDO),
    Mutation(
        UNDOING,
        "if not change.is_so(after)",
        'if change.kind != "move" and not change.is_so(after)',
        UNDO,
    ),
    # Rules: a verdict needs evidence for its own citation, otherwise it is neutral.
    Mutation(CITATION, '(self.replies or remark.kind != "agrees")', "True", RULES),
    Mutation(FINDINGS, "    if citation.declined:\n", "    if False:\n", RULES),
    Mutation(
        FINDINGS,
        ('not citation.wrong or judged.tag == "harmful":'),
        "not citation.wrong:",
        RULES,
    ),
    Mutation(
        FOLLOW,
        "if citation.name in wrong:\n            citation.wrong = wrong[citation.name][:200]",
        "if wrong:\n            citation.wrong = next(iter(wrong.values()))",
        RULES,
    ),
    Mutation(FINDINGS, '"harmful" if wrong_counts else "neutral"', "judged.tag", RULES),
    Mutation(
        FINDINGS,
        "if citation.replies and repeats(citation, citation.replies[0].remark):",
        "if False:",
        RULES,
    ),
    Mutation(FINDINGS, "    if len(sides) != 1:\n", "    if not sides:\n", RULES),
    Mutation(FINDINGS, " or not citation.is_alone:", ":", RULES),
    Mutation(FINDINGS, "    if citation.forbids:\n        return None\n", "", RULES),
    Mutation(
        FINDINGS, 'if "objects" in kinds or "unread" in kinds:', 'if "objects" in kinds:', RULES
    ),
    Mutation(
        FINDINGS, "not mended or _IDLE.issuperset(citation.step_kinds) or", "not mended or", RULES
    ),
    Mutation(FINDINGS, "    if len(decided) == 2:\n", "    if False:\n", RULES),
    Mutation(STEPS, "step.kind not in _TELLING or step.is_mcp", "step.is_mcp", RULES),
    Mutation(STEPS, '("look", "tidy", "admin"):', '("look", "tidy", "admin") and False:', RULES),
    Mutation(PEOPLE, "not (len(line) > 12 and pasted.match(line))", "True", RULES),
    Mutation(
        PEOPLE,
        "    if opening and not is_short and not is_english(opening):",
        "    if False:",
        RULES,
    ),
    Mutation(
        PEOPLE, ('reported = expression("supposed").sub(" ", opening)'), "reported = opening", RULES
    ),
    Mutation(PEOPLE, ('if expression("twofold").search(clause, end):'), "if False:", RULES),
    Mutation(STEPS, "for kind in _KINDS if kind in", "for kind in _KINDS[::-1] if kind in", RULES),
    # Windows and final verdicts: the places of a session's cuts change no verdict, and the user's
    # word stays.
    Mutation(
        WINDOW, ("return is_anothers or self.completed.data"), "return self.completed.data", WINDOWS
    ),
    Mutation(
        WINDOW, ("return is_anothers or self.completed.data is None"), "return is_anothers", WINDOWS
    ),
    Mutation(WINDOW, " if event.event_id not in self.retracted]", "]", WINDOWS),
    Mutation(
        WINDOW,
        "if name in judged or name not in live:",
        "if True:",
        WINDOWS,
    ),
    Mutation(
        WINDOW,
        ('for name in carried if last.get(name) == "neutral")'),
        "for name in carried)",
        WINDOWS,
    ),
    Mutation(STANDING, "        if tag.name in judged_later:\n", "        if False:\n", WINDOWS),
    Mutation(STANDING, " and last.is_broken == is_broken", "", WINDOWS),
    Mutation(
        STANDING, '"neutral") and bool(_is_in_count(ledger, judgement))', '"neutral")', WINDOWS
    ),
    Mutation(
        STANDING,
        'if event.actor not in (judgement.tag.actor, "reparse"):',
        "if False:",
        WINDOWS,
    ),
    # The runner and its gate: every result of a backend becomes an event, and a model is only asked
    # if the user chose this.
    Mutation(
        RUN,
        "not trouble.is_over(self.max_attempts) and _pause_is_over(trouble",
        "_pause_is_over(trouble",
        RUNNER,
    ),
    Mutation(RUN, "asks_again = self.backend.quotes and any(", "asks_again = any(", RUNNER),
    Mutation(
        RUN,
        "if not self.backend.quotes and self._failure_of_another(window):",
        "if False:",
        ANSWERED,
    ),
    Mutation(
        STANDING,
        'answer_fault(answer, parsed, data["asked"] or live, live)',
        "parsed.fault",
        ANSWERED,
    ),
    Mutation(STANDING, "(old is None and fault_in(ledger, answer, parsed))", "False", ANSWERED),
    Mutation(PROMPTS_OF, "not self.asks_for_quotes and (", "(", ANSWERED),
    Mutation(PROMPTS_OF, "self.is_users or self.sha256 in allowed", "True", ANSWERED),
    Mutation(
        RECORDING,
        "except Exception as error:  # noqa: BLE001  ",
        "except ArithmeticError as error:  # ",
        RUNNER,
    ),
    Mutation(
        RUN,
        (' declined to answer", final=True)'),
        ' declined to answer")',
        ("tests/judges/test_model.py",),
    ),
    Mutation(
        CONSENT,
        "if not cited and not (is_model and self.config.uncited):",
        "if not cited:",
        RUNNER,
    ),
    Mutation(CONSENT, "        if forced:\n            return None\n", "", RUNNER),
    Mutation(CONSENT, 'if self.config.layer("backend") == "project":', "if False:", RUNNER),
    Mutation(CONSENT, "return max(taken, own) + sum(", "return own + sum(", RUNNER),
    Mutation(CONSENT, "if remaining >= LEAST_ALLOWANCE:", "if remaining > 0:", RUNNER),
    # Proposals: none is shown twice, one that no longer fits is dropped, and an agent cannot
    # decide.
    Mutation(
        PROPOSALS,
        '_ANSWERING_STATES = ("waiting", "rejected", "kept")',
        '_ANSWERING_STATES = ("waiting",)',
        PROPOSED,
    ),
    Mutation(
        PROPOSALS,
        "max(trusts, key=TRUSTS.index)",
        "trust",
        PROPOSED,
    ),
    Mutation(PROPOSALS, "= _staleness(ledger.rows(), proposal)", "= None", PROPOSED),
    Mutation(PROPOSALS, "if len(rejections) >= _MAX_REJECTIONS:", "if False:", PROPOSED),
    Mutation(PROPOSALS, "if frozenset((first, second)) in apart:", "if False:", PROPOSED),
    Mutation(PROPOSALS, ">= MOST_PROPOSED:", "< 0:", PROPOSED),
    Mutation(
        PROPOSALS, ("waiting[: max(0, len(waiting) + 1 - MOST_WAITING)]"), "waiting[:0]", PROPOSED
    ),
    # playbook.json: it is never overwritten while it has changes that are not in the ledger. Only
    # the user's words count as the user's.
    Mutation(
        PLAYBOOK_FILE,
        "if digest == content_digest(raw) or raw == self.rendered():",
        "if raw == self.rendered():",
        KEPT_FILE,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "is_timed and rows and not _is_adopted(self._ledger, content_digest(raw))",
        "False",
        KEPT_FILE,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "return _Taken(of_another=keep_copy(self._project, state.raw, ANOTHERS))",
        "pass",
        KEPT_FILE,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "return min((at for at in positions if at is not None), key=difference)",
        "return self._written.position",
        KEPT_FILE,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "if copy is not None and self._was_left_by_git(copy)",
        "if False",
        KEPT_FILE,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "if has_news and is_left and not later",
        "if False",
        KEPT_FILE,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "next(self._ledger.events(after=position, types=_ADVICE), None) is None",
        "True",
        KEPT_FILE,
    ),
    Mutation(
        PLAYBOOK_FILE,
        "adopted.position if adopted.digest == content_digest(last_updated) else None",
        "None",
        KEPT_FILE,
    ),
    Mutation(
        SIGNS,
        "(?: ?[/,&] ?§)*",
        "",
        DIVIDED,
    ),
    Mutation(
        "reflector/check/adapter.py",
        "names_case(line.heading) and",
        "False and",
        ("tests/check/test_evidence.py",),
    ),
    Mutation(
        "reflector/sessions/checks.py",
        "if session_id in counted:",
        "if False:",
        ("tests/cli/test_check.py::test_session_in_two_files_is_priced_once",),
    ),
    Mutation(
        "reflector/playbook_files/watching.py",
        "types=[ev.BULLET_ADDED, ev.BULLET_RESTORED]",
        "types=[ev.BULLET_ADDED]",
        ("tests/playbook_files/test_watching.py",),
    ),
    Mutation(
        "reflector/text/phrases.py",
        ' and noun[-2] not in "aeiou"',
        "",
        ("tests/text/test_phrases.py",),
    ),
    # Counts of a page without a rule to show.
    Mutation(
        "reflector/check/rows.py",
        "idle if facts.sessions >= _FEWEST else ()",
        "idle",
        PAGES,
    ),
    Mutation(
        "reflector/check/rows.py",
        "(heading.used or 0, -heading.tokens)",
        "-heading.tokens",
        PAGES,
    ),
    Mutation(CHECK_ROWS, "key=lambda rule: rule.counts.ran", "key=lambda rule: 0", PAGES),
    Mutation(FREE_COUNTS, "is_run and counting.named > 0", "is_run", COUNTED_FREELY),
    Mutation(
        FREE_COUNTS,
        "if key not in by_rule and counting.named",
        "if key not in by_rule",
        COUNTED_FREELY,
    ),
    Mutation("reflector/check/facts.py", "since=self.before,", "since=self.since,", PAGES),
    Mutation("reflector/check/facts.py", "self.since.plus(self.unknown)", "self.since", PAGES),
    # Lessons: a fold in the order of events, without retracted ones.
    Mutation(
        BOOK,
        "=lambda event: (event.occurred_at, event.arrived)",
        "=lambda event: event.position",
        LESSONS,
    ),
    Mutation(
        BOOK,
        "        if not self._active(event.event_id, window):\n",
        "        if False:\n",
        LESSONS,
    ),
    Mutation(BOOK, "float(POLARITY[kind] > 0)", "1.0", LESSONS),
    Mutation(
        BOOK,
        (".failures if is_reflection else _failures_since_success(self.signals)"),
        ".failures",
        LESSONS,
    ),
    Mutation(BOOK, "== 2:\n", "== 3:\n", LESSONS),
    Mutation(BOOK, "len(bank) == policy.bank_size", "len(bank) > policy.bank_size", LESSONS),
    Mutation(BOOK, " or lesson.proposal is not None:", ":", LESSONS),
    Mutation(
        BOOK,
        "(recorded.event_id, reflection, recorded.target_id)",
        "(recorded.event_id)",
        LESSONS,
    ),
    Mutation(BOOK, "        if is_reflection:\n", "        if False:\n", LESSONS),
]


def main(words: list[str]) -> int:
    chosen = [
        m for m in MUTATIONS if not words or any(word in text for word in words for text in m[:3])
    ]
    if wrong := misplaced(chosen):
        sys.exit("\n".join(wrong))
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(JOBS):
            copies.put(copied(Path(folder) / str(number)))
        clean = copies.get()
        for tests in dict.fromkeys(m.tests for m in chosen):
            if (code := run(clean, tests)) != 0:
                sys.exit(
                    f"{' '.join(tests)} fail without any mutation (exit code {code}); mend "
                    "them first"
                )
        copies.put(clean)
        with ThreadPoolExecutor(JOBS) as pool:
            noticed = list(
                pool.map(lambda numbered: tried(*numbered, copies), enumerate(chosen, 1))
            )
    print(f"{sum(noticed)} of {len(chosen)} mutations were noticed")
    return 0 if all(noticed) else 1


def misplaced(mutations: Sequence[Mutation]) -> list[str]:
    """Return the errors of the table. The old text of a mutation must be in its file exactly
    once.
    """
    found = [(m, (CHECKOUT / m.file).read_text("utf-8").count(m.old)) for m in mutations]
    return [
        f"{m.file} holds {m.old!r} {times} times; a mutation's old text is there once"
        for m, times in found
        if times != 1
    ]


def copied(folder: Path) -> Path:
    """Copy the parts of the checkout that the tests need, and return the folder."""
    folder.mkdir()
    for name in COPIED:
        path = CHECKOUT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder / name)
    return folder


def tried(number: int, mutation: Mutation, copies: SimpleQueue[Path]) -> bool:
    """Print and return whether a test fails on the mutation."""
    copy = copies.get()
    path = copy / mutation.file
    whole = path.read_text("utf-8")
    changed = int(path.stat().st_mtime)
    begun = time.monotonic()
    try:
        path.write_text(whole.replace(mutation.old, mutation.new), "utf-8")
        # Compiled code is identified by the second of its source. Each mutation gets another
        # second, and the original gets its own back.
        os.utime(path, (changed + number, changed + number))
        code = run(copy, mutation.tests)
    finally:
        path.write_text(whole, "utf-8")
        os.utime(path, (changed, changed))
        copies.put(copy)
    if code not in (0, 1):
        sys.exit(
            f"the tests did not run with {mutation.new!r} in {mutation.file} (exit code {code})"
        )
    said = "noticed " if code else "SURVIVED"
    print(
        f"{said} {time.monotonic() - begun:4.0f} s  {mutation.file}: {mutation.new.strip()!r}",
        flush=True,
    )
    return code == 1


def run(copy: Path, tests: tuple[str, ...]) -> int:
    """Return the exit code of the fast tests in some modules. They stop at the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0"]
    command += [
        "-m",
        "not slow and not client and not scale and not browser and not postgres",
        *tests,
    ]
    # With the same examples each time, as in CI.
    env = {**os.environ, "CI": "true", "PYTHONPATH": str(copy)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(command, cwd=copy, env=env, stdout=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
