"""Writes one setting into a file of settings.

Invariant: a file is replaced only by one that the program can read. Its comments and its order
stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import tomlkit
from tomlkit.exceptions import ParseError

from reflector.config import ConfigError, load_config, project_config
from reflector.files import read_bounded, read_ours, replace_file
from reflector.locate import user_config

_MAX_BYTES = 1 << 20


class Stored(NamedTuple):
    """A file of settings, and whether it had the setting before."""

    path: Path
    had_it: bool


def store_setting(project: Path, key: str, value: object, *, for_all: bool) -> Stored:
    """Set a setting in the project's file or the user's own; None removes it.

    A file that becomes empty is removed.

    Raises: ConfigError if the file is not TOML or the setting is refused; OSError.
    """
    path = Path(user_config()) if for_all else project_config(project)
    read = read_bounded if for_all else read_ours
    try:
        document = tomlkit.parse(read(path, _MAX_BYTES).decode())
    except FileNotFoundError:
        document = tomlkit.document()
    except (ParseError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}; correct the file in an editor") from error
    stored = Stored(path, key in document)
    if value is not None:
        document[key] = value
    elif stored.had_it:
        del document[key]
    else:
        return stored
    text = document.as_string()
    load_config(project, instead={path: text})
    _replace(path, text, is_secret=key == "api_key")
    return stored


def _replace(path: Path, text: str, *, is_secret: bool) -> None:
    """Write a settings file, or remove it if it would be empty."""
    if not text.strip() and path.is_file() and not path.is_symlink():
        path.unlink()
        return
    # The user's own settings may be a link to a file among the dotfiles. A project's settings are
    # never a link.
    target = path if path.parent.name == ".claude" else path.resolve()
    replace_file(target, text.encode(), 0o600 if is_secret else None)
