"""The commands of `reflector` in their groups: the module of each, its line of help, and examples of it.

Invariant: importing this imports no command. A test holds each line equal to the command's own first sentence, and
each example to what the command accepts.
"""

from __future__ import annotations

from typing import Final


class Command:
    """A command: its module in reflector/cli, its line of help, and what a person types, for example."""

    def __init__(self, module: str, text: str, *examples: str) -> None:
        self.module = module
        self.text = text
        self.examples = examples


GROUPS: Final[dict[str, dict[str, Command]]] = {
    "Start": {
        "demo": Command(
            "demo",
            "Show the whole pipeline on bundled sessions; needs no configuration.",
            "reflector demo",
            "reflector demo --keep shop",
        ),
        "install": Command(
            "install",
            "Add reflector's hooks to Claude Code's settings.",
            "reflector install",
            "reflector install --git",
        ),
        "uninstall": Command("install", "Remove reflector's hooks from Claude Code's settings.", "reflector uninstall"),
        "status": Command("status", "Show what is recorded, what waits and what failed.", "reflector status"),
        "doctor": Command("doctor", "Check everything between the agent and the playbook.", "reflector doctor"),
        "completion": Command(
            "completion", "Print the shell's completion script.", 'eval "$(reflector completion bash)"'
        ),
    },
    "Sessions": {
        "hook": Command(
            "hook", "Record one hook event from stdin; the agent calls this.", "reflector hook < event.json"
        ),
        "ingest": Command(
            "ingest",
            "Record sessions from transcripts or hook JSON; safe to repeat.",
            "reflector ingest session.jsonl",
            "reflector ingest --window whole session.jsonl",
        ),
        "import-history": Command(
            "history",
            "Record the sessions that Claude Code still keeps, oldest first.",
            "reflector import-history --dry-run",
            "reflector import-history --since 2026-11-01",
        ),
        "drain": Command(
            "ingest",
            "Process queued hook deliveries and finish pending reflections.",
            "reflector drain",
            "reflector drain --retry-failed",
        ),
        "reflect": Command(
            "reflection",
            "Judge recorded sessions now, or show the prompt that a model would get.",
            "reflector reflect 5f2a91c0",
            "reflector reflect --backend anthropic --dry-run 5f2a91c0",
        ),
        "failures": Command(
            "reflection", "List failed reflections and when they are tried again.", "reflector failures"
        ),
        "give-up": Command(
            "reflection", "Stop trying to judge a session.", "reflector give-up 5f2a91c0 --why 'the transcript is gone'"
        ),
        "reparse": Command(
            "reflection",
            "Read recorded answers again with the current parser.",
            "reflector reparse --dry-run",
            "reflector reparse 5f2a91c0",
        ),
        "compare": Command(
            "compare",
            "Compare two reflectors over recorded sessions; counts nothing.",
            "reflector compare --a rules --b recorded",
            "reflector compare --a rules --b anthropic 5f2a91c0",
        ),
    },
    "Playbook": {
        "list": Command(
            "playbook",
            "List the playbook's bullets with their counters.",
            "reflector list",
            "reflector list --as-of 2026-11-01",
        ),
        "show": Command("playbook", "Show one bullet with its history.", "reflector show pat-001"),
        "add": Command(
            "playbook", "Add a bullet under the next free name.", "reflector add pat 'Run the tests before you commit'"
        ),
        "promote": Command(
            "promote", "Move a project's bullet to your own playbook.", "reflector promote pat-001 --to user"
        ),
        "proposals": Command(
            "proposals",
            "List the agent's proposals; approve or reject them.",
            "reflector proposals",
            "reflector proposals approve 3fa2c1d0",
        ),
        "mcp": Command("mcp", "Serve the playbook to the agent as tools, over stdio.", "reflector mcp"),
    },
    "Questions": {
        "log": Command(
            "log", "List what happened, event by event.", "reflector log -n 10", "reflector log --bullet pat-001"
        ),
        "blame": Command(
            "audit",
            "Explain each count of a bullet: session, verdict, reason, totals.",
            "reflector blame pat-001",
            "reflector blame pat-001 --as-of 2026-11-01",
        ),
        "session": Command("audit", "Show all that is known of one session.", "reflector session 5f2a91c0"),
        "citations": Command(
            "audit_queries", "Show how often each bullet was offered, cited and judged.", "reflector citations"
        ),
        "double-counts": Command(
            "audit_queries",
            "Explain tags that were counted more than once.",
            "reflector double-counts",
            "reflector double-counts pat-001",
        ),
        "orphans": Command(
            "audit_queries", "List citations, tags, windows and bullets that lead nowhere.", "reflector orphans"
        ),
        "stats": Command(
            "audit_queries",
            "Show tokens, cost and tags: by model, by prompt template, by day (UTC).",
            "reflector stats --days 7",
        ),
        "diff": Command(
            "trials",
            "Show how the playbook changed between two moments.",
            "reflector diff 2026-11-01..",
            "reflector diff 10..42",
        ),
        "bisect": Command(
            "trials",
            "Find the events at which a bullet's counters crossed a line.",
            "reflector bisect pat-001 --when 'harmful > helpful'",
        ),
        "replay": Command(
            "trials",
            "Show the playbook under another policy or without some evidence.",
            "reflector replay --counting once_per_session",
            "reflector replay --prune 'harmful > helpful'",
        ),
        "sql": Command(
            "sql",
            "Query the ledger with SQL, read-only.",
            "reflector sql 'SELECT name, helpful FROM bullets'",
            "reflector sql --views",
        ),
    },
    "Corrections": {
        "policy": Command(
            "trials",
            "Show or change the counting policy.",
            "reflector policy",
            "reflector policy adopt once_per_session --why 'resumed sessions'",
        ),
        "retract": Command(
            "undo",
            "Take evidence out of the count, or put it back.",
            "reflector retract 5f2a91c0 --why 'a test run'",
            "reflector retract 42 --undo --why 'it was real'",
        ),
        "redact": Command(
            "undo",
            "Erase prose for ever; the counts stay.",
            "reflector redact 42 --why 'a customer is named'",
            "reflector redact --where 'Jane Doe' --why GDPR",
        ),
        "assert": Command(
            "undo", "Pin a bullet's current counters, for `verify` to prove.", "reflector assert pat-001 7/2"
        ),
    },
    "Ledger": {
        "rebuild": Command(
            "ledger", "Rebuild the playbook from the events.", "reflector rebuild", "reflector rebuild --check"
        ),
        "verify": Command(
            "ledger",
            "Prove that the ledger is what was appended; silent when it is.",
            "reflector verify",
            "reflector verify --anchor heads.txt",
        ),
        "head": Command(
            "ledger",
            "Print the head of the ledger, to publish where nobody can change it.",
            "reflector head >> heads.txt",
            "reflector head --sign team.key",
        ),
        "keygen": Command(
            "keys",
            "Make a key that signs heads, and print its public key.",
            "reflector keygen team.key --name example.com/my-project",
        ),
    },
    "Moving": {
        "import": Command(
            "moving",
            "Import a playbook.json, or another machine's ledger.",
            "reflector import playbook.json",
            "reflector import ledger.ndjson --merge",
        ),
        "export": Command(
            "playbook",
            "Print the playbook as json, md or csv, the events as ndjson, or all as parquet.",
            "reflector export --format ndjson > ledger.ndjson",
            "reflector export --format parquet --to tables",
        ),
        "copy": Command(
            "moving",
            "Copy the ledger into an empty one, on either engine; the chain stays what it is.",
            "reflector copy --to postgresql://server/reflector",
        ),
        "backup": Command(
            "backups", "Copy the ledger into a new file, and verify the copy.", "reflector backup ledger.backup"
        ),
        "restore": Command(
            "backups",
            "Put a backup in the place of the ledger, and keep the replaced one beside it.",
            "reflector restore ledger.backup",
        ),
    },
}

COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
