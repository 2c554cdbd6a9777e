"""The directory of ledgers: which ledger holds a playbook, by patterns of playbooks' names in `ledgers.toml`.

Invariant: the file is the user's own, beside `config.toml`, so no repository decides which server gets its events. The
first pattern that fits a name counts. When a ledger says that a playbook has moved, the playbook is followed to ledgers
of this file only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from reflector.config import Config, ConfigError, project_config, read_toml
from reflector.locate import user_config, user_settings

#: The sources of `ledger_url` that are nearer than the directory.
_NEARER = ("project", "environment", "flag")


_TABLE = re.compile(r"^[ \t]*\[[ \t]*playbooks[ \t]*\].*\n?", re.MULTILINE)


def directory_file() -> Path:
    """Return the path of the user's directory of ledgers."""
    return Path(user_settings()) / "ledgers.toml"


def directory() -> Mapping[str, str]:
    """Return the URL of each pattern, in order; none without a file. Raises ConfigError."""
    path = directory_file()
    return _understood(path, read_toml(path))


def _understood(path: Path, found: Mapping[str, Any]) -> Mapping[str, str]:
    for key in found:
        if key != "playbooks":
            raise ConfigError(f'{path}: {key} is not known there; write `pattern = "URL"` below [playbooks]')
    urls: Any = found.get("playbooks", {})
    if not isinstance(urls, dict):
        raise ConfigError(f'{path}: playbooks is {urls!r}; it is a table of `pattern = "URL"`')
    for pattern, url in urls.items():
        if not isinstance(url, str) or not url:
            raise ConfigError(
                f'{path}: {pattern} is {url!r}; it takes the URL of a ledger, such as "postgresql://host/db"'
            )
    return urls


def ledger_of(playbook: str) -> str:
    """Return the URL of the ledger that holds a playbook, "" where no pattern fits. Raises ConfigError."""
    return _fitting(playbook, directory())


def _fitting(playbook: str, urls: Mapping[str, str]) -> str:
    return next((url for pattern, url in urls.items() if fnmatchcase(playbook, pattern)), "")


def applied(config: Config, root: Path) -> Config:
    """Return a project's settings with the ledger that the directory names for its playbook. Raises ConfigError."""
    if config.layer("ledger_url") in _NEARER:
        return config
    url = ledger_of(config.playbook)
    if not url:
        return config
    if config.layer("playbook") == "project" and not config.lists(root):
        raise ConfigError(
            f"{project_config(root)}: playbook names a playbook of {directory_file()}; if that is as you want it, put "
            f'projects = ["{root}"] into {user_config()}'
        )
    return replace(config, ledger_url=url, layers={**config.layers, "ledger_url": "directory"})


def switch(playbook: str, url: str) -> bool:
    """Name the ledger that holds a playbook; False where there is no directory. Comments and order stay.

    Raises ConfigError.
    """
    path = directory_file()
    if not path.exists():
        return False
    if ledger_of(playbook) == url:
        return True
    import tomlkit

    from reflector.files import replace_file

    text = path.read_text(encoding="utf-8")
    document: Any = tomlkit.parse(text)
    if playbook in document.get("playbooks", {}):
        document["playbooks"][playbook] = url
        text = document.as_string()
    else:  # first, so that no pattern comes before it
        line = f"{tomlkit.item({playbook: url}).as_string().strip()}\n"
        text = _TABLE.sub(lambda head: f"{head[0].rstrip()}\n{line}", text, count=1)
    if _fitting(playbook, _understood(path, read_toml(path, text))) != url:
        raise ConfigError(f'{path} is not changed: write "{playbook}" = "URL" as the first line below [playbooks]')
    # People keep their own settings behind a link, among their dotfiles.
    replace_file(path.resolve(), text.encode())
    return True
