"""What a person gets wrong, wherever it shows."""

from __future__ import annotations


class Mistake(ValueError):
    """Something that a person typed and that cannot be; its text says which, why, and what would be right.

    The command line prints it as an error of usage.
    """
