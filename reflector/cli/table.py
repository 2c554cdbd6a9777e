"""The commands of `reflector`: the module of each, its group and its examples.

Invariant: importing this module imports no command. A test compares each example with the options
that the command accepts, and the hidden names with the command lines in users' files.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command: its module in reflector/cli, and its summary in the help.

    Its function in the module has its name, with a `_` at the end for a name of Python.

    examples  texts that may follow its name
    """

    module: str
    summary: str
    examples: tuple[str, ...] = ("",)


#: The commands on the first screen.
GROUPS: Final[dict[str, dict[str, Entry]]] = {
    "Start": {
        "check": Entry(
            "check",
            "Find rules your agent breaks",
            ("", "CLAUDE.md -n 20", "--judge claude --learn", "--dry-run"),
        ),
        "install": Entry(
            "install",
            "Connect your agent",
            ("", "--agent codex", "--scope project --dry-run"),
        ),
        "status": Entry("status", "Show recorded sessions"),
        "doctor": Entry("doctor", "Diagnose the setup", ("", "--fix", "--report")),
        "config": Entry(
            "config",
            "Show or change settings",
            (
                "",
                "list",
                "get idle_minutes",
                "set idle_minutes 30",
                "set --global backend anthropic",
                "unset idle_minutes",
            ),
        ),
    },
    "Playbook": {
        "list": Entry(
            "playbook",
            "List rules and their counts",
            ("", "flaky tests", "--since '60 days ago'", "--by model"),
        ),
        "show": Entry("questions", "Show a rule or a session", ("pat-001", "5f2a91c0", "41")),
        "blame": Entry(
            "questions",
            "Explain the counts of a rule",
            ("pat-001", "pat-001 --as-of '2 weeks ago'"),
        ),
        "add": Entry("changes", "Add a rule", ("pat 'Run the tests before you commit'",)),
        "edit": Entry(
            "changes",
            "Change one rule, or all rules",
            ("", "pat-001", "pat-001 'Run the tests, then the linter'", "pat-001 --section ctx"),
        ),
        "remove": Entry(
            "changes",
            "Remove rules",
            ("pat-001", "pat-001 pat-002 --why 'the linter checks it'"),
        ),
        "undo": Entry(
            "undo",
            "Undo your last change",
            ("", "pat-001", "41 --dry-run", "5f2a91c0 --why 'a test run'"),
        ),
        "review": Entry(
            "review",
            "Give verdicts, approve changes",
            (
                "",
                "list",
                "pat-001 helpful --session 5f2a91c0",
                "approve 3fa2c1d0",
                "edit 3fa2c1d0 'Run the linter before each push'",
                "reject 3fa2c1d0 --why 'too slow here'",
                "keep 3fa2c1d0",
                "find --dry-run",
                "give-up 5f2a91c0 --why 'its transcript is gone'",
            ),
        ),
    },
    "Sessions": {
        "history": Entry(
            "sessions",
            "Record earlier sessions",
            ("--dry-run", "--since 2026-11-01", "--agent codex"),
        ),
        "reflect": Entry(
            "reflect",
            "Judge recorded sessions",
            ("", "5f2a91c0", "5f2a91c0 --judge anthropic --dry-run"),
        ),
    },
    "Look": {
        "log": Entry(
            "questions",
            "List events",
            ("-n 10", "pat-001", "5f2a91c0", "yesterday", "'last week..' --type bullet.added"),
        ),
        "stats": Entry("figures", "Show tokens and cost", ("", "--doubles pat-001")),
        "report": Entry(
            "report",
            "Write an HTML page",
            ("--open", "--since 2026-11-01 --share --out playbook.html"),
        ),
        "trial": Entry(
            "trials",
            "Measure the effect of rules",
            (
                "plan pat-001",
                "start",
                "start pat-001 pat-002",
                "status",
                "stop",
                "run tasks 'claude -p' pat-001",
            ),
        ),
    },
    "Keep": {
        "adopt": Entry(
            "transfer",
            "Give names to CLAUDE.md rules",
            ("CLAUDE.md", "--move CLAUDE.md", "--dry-run CLAUDE.md", "--rename playbook.json"),
        ),
        "import": Entry("transfer", "Add another machine's ledger", ("ledger.ndjson",)),
        "export": Entry(
            "transfer",
            "Print playbook or ledger",
            ("--format ndjson > ledger.ndjson", "--as-of 2026-11-01"),
        ),
        "verify": Entry("ledger", "Verify the ledger", ("", "--anchor heads.txt")),
        "rebuild": Entry("ledger", "Recompute the counts", ("", "--check")),
        "redact": Entry(
            "transfer",
            "Erase text permanently",
            ("42 --why 'a customer is named'", "--where 'Jane Doe' --why GDPR"),
        ),
    },
}

#: The other commands that users type, in `reflector help --all`.
MORE: Final[dict[str, Entry]] = {
    "demo": Entry("demo", "Try reflector on sample sessions", ("", "shop")),
    "merge": Entry(
        "changes",
        "Merge rules into one rule",
        ("pat-001 pat-004 --dry-run --text 'Test first'",),
    ),
    "diff": Entry(
        "figures",
        "Compare the playbook at two moments",
        ("2026-11-01..", "'last week..'", "10..42"),
    ),
    "sql": Entry(
        "figures",
        "Query the ledger",
        (
            "'SELECT name, helpful FROM bullets'",
            "--format csv 'SELECT * FROM tags' > tags.csv",
            "",
        ),
    ),
    "team": Entry("sharing", "Share rules through git", ("", "--dry-run", "--off")),
    "mirror": Entry("sharing", "Keep rules in AGENTS.md", ("AGENTS.md", "", "--off AGENTS.md")),
    "ledger": Entry(
        "ledger",
        "Copy and back up the ledger",
        (
            "head >> heads.txt",
            "policy once_per_session --why 'sessions are long'",
            "assert pat-001 7/2",
            "backup ledger.backup",
            "restore ledger.backup",
            "copy postgresql://db.example.com/reflector",
            "grants reader",
            "take",
            "forget ../old-shop",
            "revisions",
            "upgrade --dry-run > upgrade.sql",
        ),
    ),
    "lessons": Entry(
        "lessons",
        "List and recall lessons",
        (
            "",
            "recall 'flaky tests'",
            "promote 3fa2c1d0 --section mis",
            "outcome 3fa2c1d0 good --why 'the tests pass'",
        ),
    ),
    "judge": Entry(
        "judge",
        "Choose who may judge your sessions",
        ("", "allow claude", "allow", "forbid"),
    ),
    "ingest": Entry(
        "sessions",
        "Record sessions from transcripts",
        ("session.jsonl", "--window whole session.jsonl", "--judge anthropic session.jsonl"),
    ),
    "lab": Entry(
        "lab",
        "Tools for developers",
        (
            "trajectory trajectories.jsonl",
            "record answers.jsonl 5f2a91c0",
            "reparse --dry-run",
            "bench fixtures",
        ),
    ),
    "on": Entry("config", "Turn reflector on in this project"),
    "off": Entry("config", "Turn reflector off in this project"),
    "uninstall": Entry("install", "Disconnect your agent", ("", "--agent codex")),
    "mcp": Entry("mcp", "Serve an agent over MCP"),
    "completion": Entry("called", "Set up tab completion for your shell", ("bash",)),
    "help": Entry("help", "Search help and pages", ("", "redact a customer")),
}

#: The commands that agents, shells and cron call.
HIDDEN: Final[dict[str, Entry]] = {
    "hook": Entry("called", "Record an agent's event", ("< event.json",)),
    "drain": Entry("sessions", "Record queued sessions", ("", "--retry-failed")),
    "statusline": Entry("called", "Print a status line"),
}

COMMANDS: Final = {
    name: entry for group in (*GROUPS.values(), MORE, HIDDEN) for name, entry in group.items()
}

#: The replacement of each command or option from before the first release.
FORMER: Final[dict[str, str]] = {
    "--dataset": "lab --dataset",
    "demo --keep": "demo FOLDER",
    "double-counts": "stats --doubles",
    "head": "ledger head",
    "import --dry-run": "adopt --dry-run",
    "import-history": "history",
    "ingest --backend": "ingest --judge",
    "install --git": "team",
    "install --judge": "judge allow",
    "install --mirror": "mirror FILE",
    "lab trajectory --backend": "lab trajectory --judge",
    "lab trajectory --dataset": "lab --dataset",
    "lab trajectory --iterations": "lab trajectory -n",
    "lab trajectory --record": "lab trajectory --out",
    "ledger grants --role": "ledger grants RIGHTS",
    "ledger grants --to": "ledger grants RIGHTS ROLE",
    "ledger upgrade --sql": "ledger upgrade --dry-run",
    "lessons recall -k": "lessons recall -n",
    "list --all": "list --removed",
    "list --limit": "list -n",
    "list --search": "list WORDS",
    "list --sort": "list --by",
    "list --stale": "list --since",
    "log --bullet": "log NAME",
    "log --session": "log SESSION",
    "log --until": "log A..B",
    "outcome": "lessons outcome",
    "proposals": "review",
    "rebuild --mend": "rebuild --fix",
    "reflect --backend": "reflect --judge",
    "reflect --give-up": "review give-up",
    "reflect --record": "lab record",
    "reflect --reparse": "lab reparse",
    "revise": "edit",
    "session": "show",
    "sql --csv": "sql --format csv",
    "status --all": "status --projects",
    "trial plan --bullet": "trial plan NAME",
    "trial run --bullet": "trial run TASKS COMMAND NAME",
    "trial run --command": "trial run TASKS COMMAND",
    "trial run --file": "trial run TASKS COMMAND FILE",
    "trial start --bullet": "trial start NAME",
    "uninstall --git": "team --off",
    "uninstall --judge": "judge forbid",
    "uninstall --mirror": "mirror --off FILE",
}

#: Words that users try, and the command that they mean.
SYNONYMS: Final = {
    "accept": "review approve",
    "decide": "review",
    "decline": "review reject",
    "delete": "remove",
    "diagnose": "doctor",
    "disable": "off",
    "enable": "on",
    "history-import": "history",
    "init": "install",
    "judge list": "judge",
    "judge ls": "judge",
    "ledger list": "status --projects",
    "ledger remove": "ledger forget",
    "ledger status": "status",
    "lessons list": "lessons",
    "lessons show": "show",
    "ls": "list",
    "memory": "log --memory",
    "move": "edit",
    "mv": "edit",
    "ps": "status",
    "redo": "undo",
    "rename": "edit",
    "retract": "undo",
    "revert": "undo",
    "review accept": "review approve",
    "review decline": "review reject",
    "review remove": "review reject",
    "review show": "review list",
    "rm": "remove",
    "rules": "list",
    "search": "list",
    "sessions": "log",
    "setup": "install",
    "trial list": "trial status",
    "trial show": "trial status",
    "version": "--version",
    "view": "show",
    "why": "blame",
}
