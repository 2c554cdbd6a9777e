"""The commands of `reflector`: the module and the function of each, its group and examples of it.

Invariant: importing this imports no command. A test holds each summary to the command's docstring, each example to what
the command accepts, and the hidden names to the command lines that stand in people's files.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command: its module in reflector/cli, its function there, and what may follow its name."""

    module: str
    function: str
    examples: tuple[str, ...] = ("",)


GROUPS: Final[dict[str, dict[str, Entry]]] = {
    "Start": {
        "demo": Entry("demo", "demo", ("", "--keep shop")),
        "install": Entry("install", "install", ("", "--agent codex", "--git", "--mirror AGENTS.md")),
        "uninstall": Entry("install", "uninstall", ("", "--agent codex", "--mirror AGENTS.md")),
        "status": Entry("start", "status"),
        "doctor": Entry("start", "doctor", ("", "--fix")),
        "config": Entry("config", "config", ("", "set idle_minutes 30", "set --global backend anthropic")),
    },
    "Playbook": {
        "list": Entry("playbook", "list_", ("", "--search 'flaky tests'", "--counting once_per_session")),
        "show": Entry("questions", "show", ("pat-001", "5f2a91c0", "41")),
        "blame": Entry("questions", "blame", ("pat-001", "pat-001 --as-of 2026-11-01")),
        "add": Entry("changes", "add", ("pat 'Run the tests before you commit'",)),
        "revise": Entry("changes", "revise", ("pat-001 'Run the tests, then the linter'", "pat-001 --section ctx")),
        "remove": Entry("changes", "remove", ("pat-001", "pat-001 pat-002 --why 'the linter checks it'")),
        "merge": Entry("changes", "merge", ("pat-001 pat-004 --dry-run",)),
        "edit": Entry("changes", "edit"),
        "undo": Entry("changes", "undo", ("", "pat-001", "41 --dry-run", "5f2a91c0 --why 'a test run'")),
        "proposals": Entry("proposals", "proposals", ("", "decide", "approve 3fa2c1d0")),
    },
    "Sessions": {
        "import-history": Entry("sessions", "import_history", ("--dry-run", "--since 2026-11-01", "--agent codex")),
        "ingest": Entry("sessions", "ingest", ("session.jsonl", "--window whole session.jsonl")),
        "reflect": Entry(
            "judging", "reflect", ("", "5f2a91c0", "--backend anthropic --dry-run 5f2a91c0", "--reparse --dry-run")
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
        "report": Entry("report", "report", ("--open", "--since 2026-11-01 --share --out playbook.html")),
    },
    "Ledger": {
        "redact": Entry("transfer", "redact", ("42 --why 'a customer is named'", "--where 'Jane Doe' --why GDPR")),
        "import": Entry("transfer", "import_", ("playbook.json", "--dry-run CLAUDE.md", "ledger.ndjson")),
        "export": Entry("transfer", "export", ("--format ndjson > ledger.ndjson", "--as-of 2026-11-01")),
        "verify": Entry("ledger", "verify", ("", "--anchor heads.txt", "--since heads.txt")),
        "rebuild": Entry("ledger", "rebuild", ("", "--check")),
        "ledger": Entry("ledger", "ledger", ("head >> heads.txt", "backup ledger.backup", "policy")),
        "lessons": Entry("lessons", "lessons", ("", "recall 'flaky tests'")),
    },
}

#: What agents, shells, git and cron call, what the plugin's pages name, and what only developers need.
HIDDEN: Final[dict[str, Entry]] = {
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

COMMANDS: Final = {name: entry for group in (*GROUPS.values(), HIDDEN) for name, entry in group.items()}

#: The first sentence of each command's docstring, which `reflector --help` prints without importing the command.
SUMMARIES: Final = {
    "demo": "Show the whole pipeline on bundled sessions; needs no configuration.",
    "install": "Add reflector's hooks to an agent's settings.",
    "uninstall": "Remove reflector's hooks from an agent's settings.",
    "status": "Show what is recorded, what waits and what failed.",
    "doctor": "Check everything between the agent and the playbook.",
    "config": "Show or change the settings, and where each comes from.",
    "list": "List the playbook's bullets with their counters.",
    "show": "Show a bullet, a session, a lesson or an event, with its history.",
    "blame": "Explain each count of a bullet: session, verdict, reason, totals.",
    "add": "Add a bullet under the next free name.",
    "revise": "Give a bullet another text or section; its name and its counts stay.",
    "remove": "Remove bullets; their history stays, and `undo NAME` brings one back.",
    "merge": "Merge bullets that say the same into a new one.",
    "edit": "Edit playbook.json in your editor.",
    "undo": "Undo the last change of the playbook, or what you name.",
    "proposals": "List the proposed changes; decide, approve, reject or find them.",
    "import-history": "Record the sessions that an agent still keeps, oldest first.",
    "ingest": "Record sessions from transcripts; safe to repeat.",
    "reflect": "Judge recorded sessions now, or show the prompt that a model would get.",
    "judge": "Judge the citations that nothing decided, with the evidence on the screen.",
    "log": "List what happened, event by event.",
    "stats": "Show tokens, cost and tags: by model, by prompt template, by day (UTC); with --json, all days.",
    "double-counts": "Explain tags that were counted more than once.",
    "diff": "Show how the playbook changed between two moments.",
    "trial": "Find out whether the playbook helps in your own sessions.",
    "sql": "Query the ledger with SQL, read-only.",
    "report": "Write a page that shows the playbook: what moved, what is contested, what it costs.",
    "redact": "Erase prose for ever; the counts stay.",
    "import": "Import a playbook or Markdown from a file, or another machine's ledger.",
    "export": "Print the playbook as json, md or csv, or the events as ndjson.",
    "verify": "Prove that the ledger is what was appended; silent when it is.",
    "rebuild": "Rebuild the playbook from the events.",
    "ledger": "Print, copy and keep safe the ledger, and set what counts.",
    "lessons": "List what was learned, and how its worth moved; recall, promote or judge it.",
}
