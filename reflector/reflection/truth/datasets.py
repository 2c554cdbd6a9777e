"""Names of datasets: a name becomes a file's name, a folder's and a playbook's, so it has to be plain.

Invariant: a name that is accepted is one path component on every system, the same text in every normal form, and no
other name on a system that ignores case differs from it by more than case.
"""

from __future__ import annotations

import unicodedata

from reflector.mistakes import Mistake

_LONGEST = 64
#: Names of devices on Windows, whatever their ending, and a file of prompts that belongs to no dataset.
_RESERVED = frozenset(
    {"con", "prn", "aux", "nul", "bullet_evaluation"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)


class DatasetRefused(Mistake):
    """A dataset's name that cannot be one."""


def checked_dataset(name: object) -> str:
    """Return a dataset's name: 1 to 64 letters, digits, '-' and '_'. Raises DatasetRefused, which is a ValueError."""
    text = name if isinstance(name, str) else ""
    is_plain = text.replace("-", "").replace("_", "").isalnum() and unicodedata.normalize("NFKC", text) == text
    if not is_plain or len(text) > _LONGEST or text.startswith("-") or text.lower() in _RESERVED:
        raise DatasetRefused(
            f"{ascii(name)[:80]} cannot be the name of a dataset; write 1 to {_LONGEST} plain letters, digits, '-' and "
            "'_', the first not '-', and no name that a system reserves"
        )
    return text
