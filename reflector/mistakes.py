"""A fault as a value and as an error.

Invariant: each names the fault, its place and the repair. `verify`, a reading of playbook.json and
an import return all their findings. A mistake ends the command.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass


# Not frozen: every command loads it, and a frozen class takes three times as long to define.
@dataclass
class Finding:
    """One fault.

    code      the kind of the fault, for programs
    position  a position in the ledger (None for the whole ledger), or a place in a file
    value     the wrong value; "" if it is not shown
    """

    code: str
    position: int | str | None
    message: str
    remedy: str
    value: str = ""

    def __str__(self) -> str:
        shown = f" ({self.value})" if self.value else ""
        return f"{self.position}: {self.message}{shown}; {self.remedy}"


class Mistake(ValueError):
    """A value that the user typed and that cannot be used. The text contains the value, the reason
    and the right form.

    The command line prints it as an error of usage.
    """


#: The ways out of the system errors that the user can repair.
_WAYS_OUT = {
    errno.ENOENT: "check the path",
    errno.EISDIR: "remove the folder, or name a file",
    errno.EROFS: "remount the file system read-write, or use another folder",
    **dict.fromkeys((errno.EACCES, errno.EPERM), "check its permissions"),
    **dict.fromkeys(
        (errno.EMFILE, errno.ENFILE),
        "close programs or raise the limit (`ulimit -n`), then run the same command again",
    ),
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT), ("free some space, then run the same command again")
    ),
}


def os_error_words(error: OSError, name: object = None) -> str:
    """Return the text of an error of the system: the file (`name`, else the error's own), the
    reason and the way out.
    """
    where = name or error.filename
    what = error.strerror or str(error)
    told = f"{where}: {what}" if where is not None else what
    return f"{told}; {_WAYS_OUT[error.errno]}" if error.errno in _WAYS_OUT else told


def check_share(name: str, value: object) -> None:
    """Check that a value is a number from 0 to 1.

    Raises: Mistake.
    """
    # The comparison also refuses NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Mistake(f"{name} is {_shown(value)}; it must be a number from 0 to 1")


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Check that a value is a whole number from `least` up.

    Raises: Mistake.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Mistake(f"{name} is {_shown(value)}; it must be a whole number of at least {least}")


def _shown(value: object) -> str:
    import reprlib  # the hook imports this module

    return reprlib.repr(value)
