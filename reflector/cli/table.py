"""The commands of `reflector`: the module and the function of each, its group and examples of it.

Invariant: importing this imports no command. A test holds each example to what the command accepts,
and the hidden names to the command lines that stand in people's files.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command: its module in reflector/cli, its function there, its line on the first screen,
    and what may follow its name.
    """

    module: str
    function: str
    summary: str
    examples: tuple[str, ...] = ("",)


#: The first screen.
GROUPS: Final[dict[str, dict[str, Entry]]] = {
    "Start": {
        "check": Entry(
            "check",
            "check",
            "Find rules your agent breaks",
            ("", "CLAUDE.md --sessions 20", "--judge claude --learn", "--dry-run"),
        ),
        "install": Entry(
            "install",
            "install",
            "Connect your agent",
            ("", "--agent codex", "--git", "--mirror AGENTS.md"),
        ),
        "status": Entry("start", "status", "Show what is recorded"),
        "doctor": Entry("doctor", "doctor", "Diagnose the setup", ("", "--fix", "--report")),
        "config": Entry(
            "config",
            "config",
            "Show or change settings",
            ("", "set idle_minutes 30", "set --global backend anthropic"),
        ),
    },
    "Playbook": {
        "list": Entry(
            "playbook",
            "list_",
            "List rules and their counts",
            ("", "--search 'flaky tests'", "--counting once_per_session"),
        ),
        "show": Entry(
            "questions", "show", "Show a rule or a session", ("pat-001", "5f2a91c0", "41")
        ),
        "blame": Entry(
            "questions",
            "blame",
            "Explain the counts of a rule",
            ("pat-001", "pat-001 --as-of 2026-11-01"),
        ),
        "add": Entry("changes", "add", "Add a rule", ("pat 'Run the tests before you commit'",)),
        "edit": Entry("changes", "edit", "Change rules"),
        "remove": Entry(
            "changes",
            "remove",
            "Remove rules",
            ("pat-001", "pat-001 pat-002 --why 'the linter checks it'"),
        ),
        "undo": Entry(
            "changes",
            "undo",
            "Undo your last change",
            ("", "pat-001", "41 --dry-run", "5f2a91c0 --why 'a test run'"),
        ),
        "revise": Entry(
            "changes",
            "revise",
            "Change one rule",
            ("pat-001 'Run the tests, then the linter'", "pat-001 --section ctx"),
        ),
        "proposals": Entry(
            "proposals", "proposals", "Decide on proposals", ("", "decide", "approve 3fa2c1d0")
        ),
    },
    "Sessions": {
        "import-history": Entry(
            "sessions",
            "import_history",
            "Record earlier sessions",
            ("--dry-run", "--since 2026-11-01", "--agent codex"),
        ),
        "reflect": Entry(
            "judging",
            "reflect",
            "Judge recorded sessions",
            ("", "5f2a91c0", "--backend anthropic --dry-run 5f2a91c0", "--reparse --dry-run"),
        ),
        "judge": Entry(
            "judging",
            "judge",
            "Judge citations yourself",
            ("", "5f2a91c0 pat-001 helpful --why 'it found it'"),
        ),
    },
    "Look": {
        "log": Entry("questions", "log", "List events", ("-n 10", "--bullet pat-001")),
        "stats": Entry("figures", "stats", "Show tokens and cost"),
        "report": Entry(
            "report",
            "report",
            "Write an HTML page",
            ("--open", "--since 2026-11-01 --share --out playbook.html"),
        ),
        "trial": Entry(
            "trials",
            "trial",
            "Measure the effect",
            ("plan", "start --bullet pat-001", "status", "stop"),
        ),
        "double-counts": Entry(
            "figures", "double_counts", "Explain double counts", ("", "pat-001")
        ),
    },
    "Keep": {
        "import": Entry(
            "transfer",
            "import_",
            "Bring in a ledger",
            ("playbook.json", "--dry-run CLAUDE.md", "ledger.ndjson"),
        ),
        "export": Entry(
            "transfer",
            "export",
            "Print playbook or ledger",
            ("--format ndjson > ledger.ndjson", "--as-of 2026-11-01"),
        ),
        "verify": Entry("ledger", "verify", "Prove the history", ("", "--anchor heads.txt")),
        "rebuild": Entry("ledger", "rebuild", "Recompute the counts", ("", "--check")),
        "redact": Entry(
            "transfer",
            "redact",
            "Erase text",
            ("42 --why 'a customer is named'", "--where 'Jane Doe' --why GDPR"),
        ),
    },
}

#: The rest of what people type: `reflector help --all`.
MORE: Final[dict[str, Entry]] = {
    "demo": Entry("demo", "demo", "See it on sample sessions", ("", "--keep shop")),
    "merge": Entry("changes", "merge", "Merge rules into one", ("pat-001 pat-004 --dry-run",)),
    "diff": Entry("figures", "diff", "Compare two moments", ("2026-11-01..", "10..42")),
    "sql": Entry("figures", "sql", "Query the ledger", ("'SELECT name, helpful FROM bullets'", "")),
    "ledger": Entry(
        "ledger",
        "ledger",
        "Copy, back up, set policies",
        ("head >> heads.txt", "backup ledger.backup", "policy"),
    ),
    "lessons": Entry("lessons", "lessons", "List and recall lessons", ("", "recall 'flaky tests'")),
    "ingest": Entry(
        "sessions",
        "ingest",
        "Record a transcript",
        ("session.jsonl", "--window whole session.jsonl"),
    ),
    "lab": Entry(
        "lab", "lab", "Tools for developers", ("trajectory --dataset sums trajectories.jsonl",)
    ),
    "uninstall": Entry(
        "install", "uninstall", "Disconnect your agent", ("", "--agent codex", "--mirror AGENTS.md")
    ),
    "mcp": Entry("mcp", "mcp", "Serve an agent over MCP"),
    "completion": Entry("start", "completion", "Complete words in a shell", ("bash",)),
    "help": Entry("start", "help_", "Search help and pages", ("", "redact a customer")),
}

#: What agents, shells and cron call.
HIDDEN: Final[dict[str, Entry]] = {
    "hook": Entry("start", "hook", "Called by agents", ("< event.json",)),
    "drain": Entry("sessions", "drain", "Record what hooks left", ("", "--retry-failed")),
    "statusline": Entry("start", "statusline", "Called by a status line"),
    "head": Entry("ledger", "head", "Print the head", (">> heads.txt",)),
    "session": Entry("questions", "show", "Show a session", ("5f2a91c0",)),
    "outcome": Entry(
        "lessons", "outcome", "Record an outcome", ("3fa2c1d0 good --why 'the tests pass'",)
    ),
}

COMMANDS: Final = {
    name: entry for group in (*GROUPS.values(), MORE, HIDDEN) for name, entry in group.items()
}

#: What is typed now instead of a command or an option of the time before the first release.
FORMER: Final[dict[str, str]] = {}

#: Words that people try, and the command that they mean.
SYNONYMS: Final = {
    "delete": "remove",
    "history-import": "history",
    "ls": "list",
    "rm": "remove",
    "search": "list",
    "sessions": "log",
    "why": "blame",
}
