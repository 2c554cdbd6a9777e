"""Names of datasets: a name becomes a file's name, a folder's and a playbook's, so it has to be plain.

Invariant: a name that is accepted is one path component, and the same text in every normal form.
"""

from __future__ import annotations

import re
import unicodedata

from reflector.mistakes import Mistake


class DatasetRefused(Mistake):
    """A dataset's name that cannot be one."""


def checked_dataset(name: object) -> str:
    """Return a dataset's name: 1 to 64 letters, digits, '-' and '_'. Raises DatasetRefused, which is a ValueError."""
    text = name if isinstance(name, str) and unicodedata.normalize("NFKC", name) == name else ""
    if not re.fullmatch(r"\w[\w-]{0,63}", text) or text.lower() == "bullet_evaluation":  # a template
        raise DatasetRefused(
            f"{ascii(name)[:80]} cannot be the name of a dataset; write 1 to 64 plain letters, digits, '-' and '_', "
            "the first not '-', and not bullet_evaluation"
        )
    return text
