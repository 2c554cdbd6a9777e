"""The table of docs/install.md, made from RESULTS.md.

Invariant: the page only shows figures of RESULTS.md, and all rows of `SHOWN`, whether their goals
were met or missed. A test checks this.
"""

from __future__ import annotations

from pathlib import Path

BEGIN, END = "<!-- benchmarks: begin -->\n", "<!-- benchmarks: end -->\n"
#: The figures that users wait for, and those that grow with a ledger.
SHOWN = (
    "installed hook, one durable spool record",
    "session end, 500 MB with 1 MB new",
    "append, 10 events per transaction",
    "rebuild of every counter, 1,000,000 events",
    "verify everything, 100,000 events",
)
_COLUMNS = ("part", "floor", "ours", "ratio", "goal")


def block(results: str) -> str:
    """Return the block for the text of RESULTS.md; "" for a text without a table."""
    lines = [line for line in results.splitlines() if line.startswith("|")]
    if not lines:
        return ""
    measured = next(line for line in results.splitlines() if line.startswith("Measured"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    shown = [
        (*row[:4], row[4] + ("" if row[5] == "met" else f" {row[5]}"))
        for row in rows
        if row[0] in SHOWN
    ]
    table = ["| " + " | ".join(_COLUMNS) + " |", "|---|--:|--:|--:|--:|"]
    table += ["| " + " | ".join(row) + " |" for row in shown]
    more = f"{measured} [Every row, with what its floor is](../benchmarks/RESULTS.md)."
    return "\n".join([*table, "", more]) + "\n"


def fill(readme: Path, results: str) -> None:
    """Write the block of `results` between the marks of a README.

    Raises: ValueError if the marks are missing.
    """
    text = readme.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(
            f"{readme} lacks the lines {BEGIN.strip()} and {END.strip()}; put them "
            "where the table goes"
        )
    readme.write_text(before + BEGIN + block(results) + END + after, "utf-8")
