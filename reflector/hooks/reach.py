"""What `reflector doctor` looks at on the agent's side: whether it calls the hook, and when it last did.

Invariant: as in `reflector.hooks.doctor`, looking changes nothing, and a check that cannot be made is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from reflector import folders, locate
from reflector.hooks.check import Check, State
from reflector.hooks.conflicts import disabled_by, plugins
from reflector.hooks.install import EVENTS, Handler, handlers
from reflector.hooks.json_text import MalformedJson
from reflector.hooks.settings_file import SCOPES, SettingsRefused, read_text, settings_path
from reflector.project import Project

#: Hooks of a session that works: an installation that never fired at these does not reach the agent.
_AT_EVERY_SESSION = ("SessionStart", "SessionEnd")


def checks_of_hooks(project: Project, environ: Mapping[str, str]) -> Iterator[Check]:
    """The hooks in the agent's settings, and what keeps them from being called."""
    found: list[tuple[Path, Handler]] = []
    for scope in SCOPES:
        path = settings_path(scope, project.root, environ)
        try:
            found += [(path, handler) for handler in handlers(read_text(path) or "")]
        except (SettingsRefused, MalformedJson) as error:
            yield Check("hooks", "error", f"{path}: {error}", "mend the file; the agent cannot read it either")
    copies = plugins(project.root, environ)
    if not found and not copies:
        yield Check("hooks", "error", "the agent does not call reflector", "reflector install")
        return
    for path in dict.fromkeys(path for path, _ in found):
        events = [handler.event for where, handler in found if where == path]
        missing = [event for event in EVENTS if event not in events]
        if missing:
            yield Check("hooks", "warning", f"{path}: nothing at {', '.join(missing)}", "reflector install")
        else:
            yield Check("hooks", "ok", f"{path}: {', '.join(dict.fromkeys(events))}")
    for command in dict.fromkeys(handler.command for _, handler in found):
        if (gone := _missing_program(command)) is not None:
            yield Check("hooks", "error", f"{gone} is gone, so the hook does nothing", "reflector install")
    for path in disabled_by(project.root, environ):
        yield Check("hooks", "error", f"{path}: disableAllHooks is true", "take it out")
    if len({path for path, _ in found}) + len(copies) > 1:
        where = ", ".join([*(str(path) for path in dict.fromkeys(path for path, _ in found)), *copies])
        yield Check(
            "hooks", "warning", f"installed more than once ({where}); everything is counted once all the same", ""
        )
    yield from _fired(project)


def _missing_program(command: str) -> str | None:
    """The absolute path in a command that is not there any more."""
    import shlex

    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return next((word for word in words if Path(word).is_absolute() and not Path(word).exists()), None)


def _fired(project: Project) -> Iterator[Check]:
    folder = Path(folders.state_folder(str(project.root))) / "fired"
    # A folder without anything of ours gets no state for a hook that fired.
    first = "" if locate.is_project(project.root.as_posix()) else 'reflector add pat "…", then '
    for event in EVENTS:
        try:
            at = (folder / event).stat().st_mtime
        except OSError:
            state: State = "warning" if event in _AT_EVERY_SESSION else "ok"
            mend = f"{first}start a session of the agent here, and end it" if state == "warning" else ""
            yield Check(f"fired {event}", state, "never in this project", mend)
            continue
        yield Check(f"fired {event}", "ok", datetime.fromtimestamp(at).astimezone().isoformat(" ", "seconds"))
