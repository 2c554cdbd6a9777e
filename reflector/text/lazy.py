"""Regular expressions that are compiled when they are first used.

It takes longer to compile the expressions that read sessions than to read a short session, and most
commands use few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast


class _Lazy(Generic[AnyStr]):
    """Stands for a compiled expression. Each of its attributes is looked up once."""

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self._source: tuple[AnyStr, int] = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(*self._source), name)
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used.

    Raises at its first use:
        re.error: the pattern is not a regular expression
    """
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
