"""One line of the doctor's report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's report; `mend` is what to do, "" where all is well."""

    name: str
    state: State
    text: str
    mend: str = ""
