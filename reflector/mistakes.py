"""What is wrong, as a value and as an error.

Invariant: each says what is wrong, where, and what to do about it. `verify`, a reading of playbook.json and an import
return findings, all of them; a mistake ends the command.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    code    what kind of thing it is, for programs
    where   a position of the ledger (None for all of it), or a place in a file
    value   what was found there, "" where it is not shown
    """

    code: str
    where: int | str | None
    message: str
    remedy: str
    value: str = ""

    def __str__(self) -> str:
        shown = f" ({self.value})" if self.value else ""
        return f"{self.where}: {self.message}{shown}; {self.remedy}"


class Mistake(ValueError):
    """Something that a person typed and that cannot be; its text says which, why, and what would be right.

    The command line prints it as an error of usage.
    """
