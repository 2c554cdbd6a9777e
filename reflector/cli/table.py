"""The commands of `reflector`: the module and the function of each, its group and examples of it.

Invariant: importing this imports no command. A test holds each example to what the command accepts,
and the hidden names to the command lines that stand in people's files.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command: its module in reflector/cli, its function there, and what may follow its name."""

    module: str
    function: str
    examples: tuple[str, ...] = ("",)

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring. To import a command only for that would take
        long.
        """
        return _summaries(self.module)[self.function]


@cache
def _summaries(module: str) -> dict[str, str]:
    import ast

    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
    found = (
        (one.name, ast.get_docstring(one) or "")
        for one in tree.body
        if isinstance(one, ast.FunctionDef)
    )
    return {name: " ".join(text.partition("\n\n")[0].split()) for name, text in found}


GROUPS: Final[dict[str, dict[str, Entry]]] = {
    "Start": {
        "check": Entry(
            "check", "check", ("", "CLAUDE.md --sessions 20", "--judge claude --learn", "--dry-run")
        ),
        "demo": Entry("demo", "demo", ("", "--keep shop")),
        "install": Entry(
            "install", "install", ("", "--agent codex", "--git", "--mirror AGENTS.md")
        ),
        "uninstall": Entry("install", "uninstall", ("", "--agent codex", "--mirror AGENTS.md")),
        "status": Entry("start", "status"),
        "doctor": Entry("doctor", "doctor", ("", "--fix", "--report")),
        "config": Entry(
            "config", "config", ("", "set idle_minutes 30", ("set --global backend anthropic"))
        ),
    },
    "Playbook": {
        "list": Entry(
            "playbook", "list_", ("", "--search 'flaky tests'", "--counting once_per_session")
        ),
        "show": Entry("questions", "show", ("pat-001", "5f2a91c0", "41")),
        "blame": Entry("questions", "blame", ("pat-001", "pat-001 --as-of 2026-11-01")),
        "add": Entry("changes", "add", ("pat 'Run the tests before you commit'",)),
        "revise": Entry(
            "changes",
            "revise",
            (("pat-001 'Run the tests, then the linter'"), "pat-001 --section ctx"),
        ),
        "remove": Entry(
            "changes", "remove", ("pat-001", ("pat-001 pat-002 --why 'the linter checks it'"))
        ),
        "merge": Entry("changes", "merge", ("pat-001 pat-004 --dry-run",)),
        "edit": Entry("changes", "edit"),
        "undo": Entry(
            "changes", "undo", ("", "pat-001", "41 --dry-run", "5f2a91c0 --why 'a test run'")
        ),
        "proposals": Entry("proposals", "proposals", ("", "decide", "approve 3fa2c1d0")),
    },
    "Sessions": {
        "import-history": Entry(
            "sessions", "import_history", ("--dry-run", "--since 2026-11-01", "--agent codex")
        ),
        "ingest": Entry("sessions", "ingest", ("session.jsonl", "--window whole session.jsonl")),
        "reflect": Entry(
            "judging",
            "reflect",
            ("", "5f2a91c0", ("--backend anthropic --dry-run 5f2a91c0"), "--reparse --dry-run"),
        ),
        "judge": Entry("judging", "judge", ("", "5f2a91c0 pat-001 helpful --why 'it found it'")),
    },
    "Questions": {
        "log": Entry("questions", "log", ("-n 10", "--bullet pat-001")),
        "stats": Entry("figures", "stats"),
        "double-counts": Entry("figures", "double_counts", ("", "pat-001")),
        "diff": Entry("figures", "diff", ("2026-11-01..", "10..42")),
        "trial": Entry("trials", "trial", ("plan", "start --bullet pat-001", "status", "stop")),
        "sql": Entry("figures", "sql", ("'SELECT name, helpful FROM bullets'", "")),
        "report": Entry(
            "playbook", "report", ("--open", ("--since 2026-11-01 --share --out playbook.html"))
        ),
    },
    "Ledger": {
        "redact": Entry(
            "transfer",
            "redact",
            (("42 --why 'a customer is named'"), "--where 'Jane Doe' --why GDPR"),
        ),
        "import": Entry(
            "transfer", "import_", ("playbook.json", "--dry-run CLAUDE.md", "ledger.ndjson")
        ),
        "export": Entry(
            "transfer", "export", (("--format ndjson > ledger.ndjson"), "--as-of 2026-11-01")
        ),
        "verify": Entry("ledger", "verify", ("", "--anchor heads.txt")),
        "rebuild": Entry("ledger", "rebuild", ("", "--check")),
        "ledger": Entry(
            "ledger", "ledger", ("head >> heads.txt", "backup ledger.backup", "policy")
        ),
        "lessons": Entry("lessons", "lessons", ("", "recall 'flaky tests'")),
    },
}

#: What agents, shells, git and cron call, what the plugin's pages name, what only developers need,
#: and the way to all.
HIDDEN: Final[dict[str, Entry]] = {
    "help": Entry("start", "help_", ("", "redact a customer")),
    "hook": Entry("start", "hook", ("< event.json",)),
    "statusline": Entry("start", "statusline"),
    "completion": Entry("start", "completion", ("bash",)),
    "mcp": Entry("mcp", "mcp"),
    "drain": Entry("sessions", "drain", ("", "--retry-failed")),
    "head": Entry("ledger", "head", (">> heads.txt",)),
    "session": Entry("questions", "show", ("5f2a91c0",)),
    "outcome": Entry("lessons", "outcome", ("3fa2c1d0 good --why 'the tests pass'",)),
    "lab": Entry("lab", "lab", ("trajectory --dataset sums trajectories.jsonl",)),
}

COMMANDS: Final = {
    name: entry for group in (*GROUPS.values(), HIDDEN) for name, entry in group.items()
}

#: What is typed now instead of a command or an option of earlier versions.
FORMER: Final = {
    "assert": "ledger assert NAME HELPFUL/HARMFUL",
    "backup": "ledger backup FILE",
    "bench-reflection": "lab bench",
    "bisect": "blame NAME",
    "citations": "list --sort used",
    "compare": "stats",
    "copy": "ledger copy URL",
    "duplicates": "proposals find",
    "export --head": "ledger head",
    "failures": "status",
    "gate": "log --type reflection.skipped",
    "give-up": "reflect --give-up SESSION --why REASON",
    "grants": "ledger grants",
    "import --merge": "import FILE",
    "keygen": "ledger head",
    "ledgers": "status --all",
    "lesson": "show LESSON",
    "mirror": "install --mirror FILE",
    "move": "revise NAME --section SECTION",
    "orphans": "list --stale DAYS",
    "policy": "ledger policy",
    "promote": "--user add SECTION TEXT",
    "prune": "proposals find",
    "recall": "lessons recall QUERY",
    "reflect-trajectory": "lab trajectory FILE",
    "rehearse": "proposals decide",
    "remove --reason": "remove NAME --why REASON",
    "reparse": "reflect --reparse",
    "replay": "list --counting POLICY",
    "restore": "undo NAME",
    "retract": "undo SESSION --why REASON",
    "review": "proposals decide",
    "search": "list --search WORDS",
    "sql --views": "sql",
    "verify --mend-triggers": "rebuild --mend",
}
