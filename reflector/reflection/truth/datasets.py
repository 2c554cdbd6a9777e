"""Names of datasets: a name becomes a file's name, a folder's and a playbook's, so it has to be plain.

Invariant: a name that is accepted is one path component on every system, the same text in every normal form, and no
other name on a system that ignores case differs from it by more than case.
"""

from __future__ import annotations

import unicodedata

from reflector.mistakes import Mistake

_LONGEST = 64
#: Names of devices on Windows, whatever their ending.
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)
#: Files of prompts that belong to no dataset.
_TAKEN = frozenset({"bullet_evaluation"})


class DatasetRefused(Mistake):
    """A dataset's name that cannot be one."""


def checked_dataset(name: object) -> str:
    """Return a dataset's name: 1 to 64 letters, digits, '-' and '_'. Raises DatasetRefused, which is a ValueError."""
    if not isinstance(name, str):
        raise DatasetRefused(f"the dataset is {type(name).__name__}, not text")
    shown = ascii(name[:80])
    if not 0 < len(name) <= _LONGEST or not name.replace("-", "").replace("_", "").isalnum():
        raise DatasetRefused(
            f"{shown} cannot be the name of a dataset; write 1 to {_LONGEST} letters, digits, '-' and '_'"
        )
    if unicodedata.normalize("NFKC", name) != name or name.startswith("-"):
        plain = unicodedata.normalize("NFKC", name).lstrip("-")
        raise DatasetRefused(f"{shown} cannot be the name of a dataset; its plain form is {plain[:80]!a}")
    if name.lower() in _DEVICES or name.lower() in _TAKEN:
        raise DatasetRefused(f"{shown} cannot be the name of a dataset: it is reserved; choose another")
    return name
