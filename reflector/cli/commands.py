"""The commands of `reflector` in their groups: the module of each, its line of help, and examples of it.

Invariant: importing this imports no command. A test holds each line equal to the command's own first sentence, and
each example to what the command accepts.
"""

from __future__ import annotations

from typing import Final


class Command:
    """A command: its module in reflector/cli, its line of help, and what may follow its name."""

    def __init__(self, module: str, text: str, *examples: str) -> None:
        self.module = module
        self.text = text
        self.examples = examples


GROUPS: Final[dict[str, dict[str, Command]]] = {
    "Start": {
        "demo": Command(
            "demo", "Show the whole pipeline on bundled sessions; needs no configuration.", "", "--keep shop"
        ),
        "install": Command(
            "install",
            "Add reflector's hooks to an agent's settings.",
            "",
            "--agent codex",
            "--git",
            "--mirror AGENTS.md",
        ),
        "uninstall": Command("install", "Remove reflector's hooks from an agent's settings.", "", "--agent codex"),
        "status": Command("status", "Show what is recorded, what waits and what failed.", ""),
        "doctor": Command("doctor", "Check everything between the agent and the playbook.", "", "--fix"),
        "config": Command(
            "config",
            "Show or change the settings, and where each comes from.",
            "",
            "set idle_minutes 30",
            "set --global backend anthropic",
        ),
        "statusline": Command(
            "called",
            "Print one line for the agent's status line: the playbook, and the last session's verdicts.",
            "",
        ),
        "completion": Command("completion", "Print the shell's completion script.", "bash"),
    },
    "Sessions": {
        "hook": Command("called", "Record one hook event from stdin; the agent calls this.", "< event.json"),
        "ingest": Command(
            "ingest",
            "Record sessions from transcripts or hook JSON; safe to repeat.",
            "session.jsonl",
            "--window whole session.jsonl",
        ),
        "import-history": Command(
            "history",
            "Record the sessions that an agent still keeps, oldest first.",
            "--dry-run",
            "--since 2026-11-01",
            "--agent codex",
        ),
        "drain": Command(
            "ingest", "Process queued hook deliveries and finish pending reflections.", "", "--retry-failed"
        ),
        "reflect": Command(
            "reflection",
            "Judge recorded sessions now, or show the prompt that a model would get.",
            "5f2a91c0",
            "--backend anthropic --dry-run 5f2a91c0",
        ),
        "judge": Command(
            "judge",
            "Judge the citations that nothing decided, with the evidence on the screen.",
            "",
            "--since 2026-11-01",
            "5f2a91c0 pat-001 helpful --why 'it found the leak'",
        ),
        "failures": Command("reflection", "List failed reflections and when they are tried again.", ""),
        "give-up": Command("reflection", "Stop trying to judge a session.", "5f2a91c0 --why 'the transcript is gone'"),
        "reparse": Command(
            "reflection", "Read recorded answers again with the current parser.", "--dry-run", "5f2a91c0"
        ),
    },
    "Playbook": {
        "list": Command(
            "playbook",
            "List the playbook's bullets with their counters.",
            "",
            "--as-of 2026-11-01",
            "--counting once_per_session",
        ),
        "show": Command("playbook", "Show one bullet with its history.", "pat-001"),
        "search": Command("changes", "Find bullets by their words, those that fit best first.", "'flaky tests'"),
        "add": Command("changes", "Add a bullet under the next free name.", "pat 'Run the tests before you commit'"),
        "revise": Command(
            "changes", "Give a bullet another text; its counts stay.", "pat-001 'Run the tests, then the linter'"
        ),
        "move": Command(
            "changes",
            "Move a bullet to another section; it keeps its name and its counts.",
            "pat-001 ctx",
        ),
        "remove": Command(
            "changes",
            "Remove bullets; their history stays, and `restore` brings them back.",
            "pat-001",
            "pat-001 pat-002 --reason 'the linter checks it'",
        ),
        "merge": Command(
            "changes",
            "Merge bullets that say the same into a new one.",
            "pat-001 pat-004 --dry-run",
            "pat-001 pat-004 --text 'Run the tests before you commit'",
        ),
        "edit": Command("edit", "Edit playbook.json in your editor.", ""),
        "undo": Command(
            "changes", "Undo the last change of the playbook, or the one that you name.", "", "pat-001", "41 --dry-run"
        ),
        "promote": Command("promote", "Move a project's bullet to your own playbook.", "pat-001 --to user"),
        "proposals": Command("proposals", "List the proposed changes; approve or reject them.", "", "approve 3fa2c1d0"),
        "duplicates": Command(
            "duplicates", "List pairs of bullets that may say the same or contradict each other.", "", "--propose"
        ),
        "prune": Command(
            "prune",
            "Remove bullets that harm or that no session cites, or propose it.",
            "--dry-run",
            "--apply --after 50",
        ),
        "mcp": Command("mcp", "Serve the playbook to the agent as tools, over stdio.", ""),
    },
    "Learning": {
        "lessons": Command(
            "lessons", "List what was learned, and how its worth moved.", "", "--kind mistake --state active"
        ),
        "lesson": Command(
            "lessons", "Show one lesson's whole life, or promote it to a bullet.", "3fa2c1d0", "promote 3fa2c1d0"
        ),
        "outcome": Command(
            "lessons",
            "Record what happened after a lesson was applied.",
            "3fa2c1d0 good --why 'the tests pass'",
            "3fa2c1d0 review_rejected --why 'too slow' --source agent",
        ),
        "recall": Command(
            "recall",
            "Find what was learned: bullets, lessons and summaries.",
            "'flaky tests'",
            "-k 3 'auth middleware' --as-of 2026-11-01",
        ),
        "reflect-trajectory": Command(
            "trajectories",
            "Record trajectories of tasks that have a right answer, and judge them; safe to repeat.",
            "--dataset sums trajectories.jsonl",
            "--ground-truth answer.py trajectory.json",
        ),
        "bench-reflection": Command(
            "gating",
            "Measure the gated reflection step on a fixed turn; writes nothing.",
            "",
            "-c fixtures -n 5 --raw-time",
        ),
    },
    "Questions": {
        "log": Command("log", "List what happened, event by event.", "-n 10", "--bullet pat-001"),
        "blame": Command(
            "audit",
            "Explain each count of a bullet: session, verdict, reason, totals.",
            "pat-001",
            "pat-001 --as-of 2026-11-01",
        ),
        "session": Command("audit", "Show all that is known of one session.", "5f2a91c0"),
        "citations": Command("audit_queries", "Show how often each bullet was told, cited and judged.", ""),
        "double-counts": Command("audit_queries", "Explain tags that were counted more than once.", "", "pat-001"),
        "orphans": Command("audit_queries", "List uncited bullets, unknown names, and windows without a verdict.", ""),
        "stats": Command(
            "audit_queries", "Show tokens, cost and tags: by model, by prompt template, by day (UTC).", "--days 7"
        ),
        "diff": Command("trials", "Show how the playbook changed between two moments.", "2026-11-01..", "10..42"),
        "sql": Command(
            "sql", "Query the ledger with SQL, read-only.", "'SELECT name, helpful FROM bullets'", "--views"
        ),
    },
    "Corrections": {
        "policy": Command(
            "trials", "Show or change the counting policy.", "", "adopt once_per_session --why 'resumed sessions'"
        ),
        "retract": Command(
            "undo",
            "Take evidence out of the count, or put it back.",
            "5f2a91c0 --why 'a test run'",
            "42 --undo --why 'it was real'",
        ),
        "redact": Command(
            "undo",
            "Erase prose for ever; the counts stay.",
            "42 --why 'a customer is named'",
            "--where 'Jane Doe' --why GDPR",
        ),
        "assert": Command("undo", "Pin a bullet's current counters, for `verify` to prove.", "pat-001 7/2"),
    },
    "Ledger": {
        "rebuild": Command("ledger", "Rebuild the playbook from the events.", "", "--check"),
        "verify": Command(
            "ledger",
            "Prove that the ledger is what was appended; silent when it is.",
            "",
            "--anchor heads.txt",
            "--since heads.txt",
        ),
        "head": Command(
            "ledger",
            "Print the head of the ledger, ready to publish.",
            ">> heads.txt",
        ),
        "grants": Command(
            "grants",
            "Print the GRANTs that make a role of PostgreSQL the ledger's reader, writer or owner.",
            "--role reader --to analysts",
        ),
    },
    "Moving": {
        "import": Command(
            "moving",
            "Import a playbook or other advice from a file, or another machine's ledger.",
            "playbook.json",
            "--dry-run CLAUDE.md",
            "ledger.ndjson --merge",
        ),
        "export": Command(
            "playbook",
            "Print the playbook as json, md, csv or skillbook, or the events as ndjson.",
            "--format ndjson > ledger.ndjson",
        ),
        "copy": Command(
            "moving",
            "Copy the ledger into an empty one, on either engine; the chain stays what it is.",
            "--to postgresql://server/reflector",
        ),
        "backup": Command("backups", "Copy the ledger into a new file, and verify the copy.", "ledger.backup"),
        "restore": Command(
            "backups",
            "Bring a removed bullet back, or put a backup in the place of the ledger.",
            "pat-003",
            "ledger.backup",
        ),
    },
}

COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
