"""Our hooks in a file of our own, for an agent that loads JavaScript modules: writing it, finding the hooks in it.

Invariant: a file that is not ours is refused, never overwritten and never removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from reflector.hooks.install import Handler, MalformedSettings

_FOLDER = Path(__file__).with_name("modules")
_OURS = "// Written by `reflector install`"
_COMMAND = re.compile(r'^const command = (".*")$', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """The form of an agent's module.

    name    of the file in `modules/` that speaks to the agent
    events  that the module gives the hook
    """

    name: str
    events: Iterable[str]

    def install(self, text: str, command: str) -> str:
        """Return the module. Raises MalformedSettings if the text is another one."""
        if text.strip() and not text.startswith(_OURS):
            raise MalformedSettings("this file is not reflector's; give it another name")
        call, module = ((_FOLDER / f"{name}.js").read_text("utf-8") for name in ("call", self.name))
        return call.replace('"@COMMAND@"', json.dumps(command)) + module

    def uninstall(self, text: str) -> str:
        """Return "" for our module, and any other text as it is."""
        return "" if text.startswith(_OURS) else text

    def handlers(self, text: str) -> list[Handler]:
        """Return the hooks in our module; none for another file."""
        found = _COMMAND.search(text) if text.startswith(_OURS) else None
        if found is None:
            return []
        try:
            command = str(json.loads(found[1]))
        except ValueError:  # somebody edited it
            return []
        return [Handler(event, command, own=True) for event in self.events]

    def foreign(self, text: str) -> str:
        """Return what a text says beside our hooks."""
        return self.uninstall(text)

    def is_exact(self, text: str) -> bool:
        """Return True: what is not ours is refused, never written back."""
        return True
