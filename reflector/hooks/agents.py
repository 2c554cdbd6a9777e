"""The agents that call the hook: the place of each one's settings, its events, and the format of
our hooks there.

Installing, uninstalling, the doctor, the options of the commands and docs/agents.md derive from
the table in `agents.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from reflector.hooks.install import Form, HookList, ModuleFile
from reflector.locate import environment, home_folder

Scope = Literal["user", "project", "local"]
SCOPES: tuple[Scope, ...] = ("user", "project", "local")


class Agent(NamedTuple):
    """One agent of `agents.json`.

    name      the value of `--agent`
    title     its usual name
    home      the variable that names a folder of its settings, the path below that folder, and the
              path below the user's home if the variable is not set
    files     a scope's file: the user's below `home`, the others below the project; a scope without
              a file is missing
    events    the events at which it calls us, each with its timeout in the unit of its settings. An
              agent refuses a file with an event that it does not know. Our hooks return in
              milliseconds, but without a timeout of SessionEnd, Claude Code gives all hooks of that
              event 1.5 seconds, which a slow machine needs for the start alone. Codex reduces a
              timeout of SessionEnd above 3 seconds, with a warning. PreCompress of Gemini comes
              before every request to the model, so it does not end a window.
    module    the file in `modules/` that calls us; "" for an agent with hooks in its settings
    switch    the key in its settings that switches all hooks off
    off       the value of that key
    consent   the note for the user if the agent asks before it runs our hooks
    """

    name: str
    title: str
    home: Sequence[str]
    files: Mapping[Scope, str]
    events: Mapping[str, int]
    module: str = ""
    switch: Sequence[str] = ()
    off: bool = True
    consent: str = ""

    @property
    def form(self) -> Form:
        """The format of its file."""
        return ModuleFile(self.module, self.events) if self.module else HookList(self.events)

    def _place(self) -> tuple[str, str]:
        """Return a folder that existed before us, and the path of the user's own folder of the
        agent below it.
        """
        variable, below, default = self.home
        named = environment(variable)
        return (named, below) if named else (home_folder() or "~", default)

    def folder(self) -> Path:
        """Return the user's own folder of the agent, absolute."""
        return Path(*self._place()).expanduser().absolute()

    def paths(self, project: Path) -> dict[Scope, Path]:
        """Return its files by scope: for all projects of the user, for all users of a project, and
        for one user in it.
        """
        folders = {"user": self.folder()}
        return {
            scope: folders.get(scope, project) / self.files[scope]
            for scope in SCOPES
            if scope in self.files
        }

    def depth(self, scope: Scope) -> int:
        """Return the number of folders above a scope's file that an installation may have
        created.
        """
        below = self._place()[1] if scope == "user" else ""
        return len(Path(below, self.files[scope]).parts) - 1

    def is_off(self, settings: Any) -> bool:
        """Return whether a file's settings switch all hooks off."""
        for key in self.switch:
            settings = settings.get(key) if isinstance(settings, dict) else None
        return bool(self.switch) and settings is self.off


_TABLE = json.loads(Path(__file__).with_name("agents.json").read_text("utf-8"))
#: By name, the default first.
AGENTS = {name: Agent(name, **fields) for name, fields in _TABLE.items()}
CLAUDE = AGENTS["claude"]
