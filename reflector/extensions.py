"""Loads readers and judges of other distributions by name, from their entry points.

A distribution offers a reader in the entry point group `reflector.readers`, and a judge in
`reflector.judges`. `transcripts.readers` and `judges.extensions` define their interfaces.

Invariant: an installed extension is not yet permitted. A name is loaded only if the user's own
settings list it, only when it is needed, and never in a hook. A distribution below a project or the
working folder is never loaded, because it could have come with the project. Without a listed name
`importlib.metadata` is not imported, because it takes as long as the rest of a command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from reflector.config import Config

#: The kinds of extensions: each is a setting with names and the last word of an entry point group.
Kind = Literal["readers", "judges"]
KINDS: tuple[Kind, ...] = ("readers", "judges")

#: The names of readers that the user lists, from the last opened project. They are the same for
#: each project, because a project's own file cannot list any.
_listed_readers: tuple[str, ...] = ()
#: The projects that this process opened.
_projects: set[str] = set()


class ExtensionError(Exception):
    """An extension cannot be used. The text names it, the reason and the way out."""


class Extension(NamedTuple):
    """An installed extension.

    name          of its entry point
    distribution  with its version
    location      the folder of the distribution
    refused       the reason why it is not loaded; "" without one
    """

    kind: Kind
    name: str
    distribution: str
    version: str
    location: str
    refused: str
    entry_point: EntryPoint

    @property
    def words(self) -> str:
        """The extension with its distribution: `heron (reflector-heron 0.1)`."""
        return f"{self.name} ({self.distribution} {self.version})"


def open_for(project: Path, config: Config) -> None:
    """Use the readers in a project's settings, and load nothing from below the project."""
    global _listed_readers
    _listed_readers = config.readers
    _projects.add(str(project))


def listed_readers() -> tuple[str, ...]:
    """Return the names of readers that the user lists."""
    return _listed_readers


def installed() -> Iterator[Extension]:
    """Yield the installed extensions, listed or not, without loading them."""
    from importlib.metadata import entry_points

    # Each call reads a file of every distribution.
    entries = entry_points()
    offered = [
        (kind, entry) for kind in KINDS for entry in entries.select(group=f"reflector.{kind}")
    ]
    for kind, entry_point in offered:
        distribution = entry_point.dist
        if distribution is not None:
            location = os.path.realpath(str(distribution.locate_file("")))
            yield Extension(
                kind,
                entry_point.name,
                distribution.name,
                distribution.version,
                location,
                _reason_to_refuse(location, entry_point.module),
                entry_point,
            )


def find_extension(kind: Kind, name: str) -> Extension:
    """Return the extension of a listed name.

    Raises: ExtensionError if it is not installed, refused, or offered by two distributions.
    """
    candidates = [
        extension for extension in installed() if (extension.kind, extension.name) == (kind, name)
    ]
    allowed = [extension for extension in candidates if not extension.refused]
    if not candidates:
        raise ExtensionError(
            f"the setting {kind} lists {name!r}, but no installed package offers it; install the "
            "package in the environment of reflector, or remove the name: reflector config set "
            f"--global {kind} …"
        )
    if not allowed:
        refused = candidates[0]
        raise ExtensionError(
            f"the setting {kind} lists {name!r}, but {refused.distribution} {refused.refused}; "
            "install the package in a folder that the project and other users cannot write"
        )
    if len(allowed) > 1:
        distributions = ", ".join(extension.distribution for extension in allowed)
        raise ExtensionError(
            f"several packages offer {name!r} for the setting {kind}: {distributions}; uninstall "
            "all but one of them"
        )
    return allowed[0]


def load_extension(extension: Extension) -> object:
    """Return the object of an extension.

    Raises: ExtensionError if its module cannot be imported.
    """
    try:
        loaded: object = extension.entry_point.load()
    except BaseException as error:  # a module that ends the process is broken
        if isinstance(error, KeyboardInterrupt):
            raise
        raise broken(extension, f"cannot be loaded: {error_of(error)}") from error
    return loaded


def broken(extension: Extension, fault: str) -> ExtensionError:
    """Return the error about a listed extension that does not work."""
    return ExtensionError(
        f"{extension.words} in the setting {extension.kind} {fault}; update "
        f"{extension.distribution}, or remove {extension.name!r} from {extension.kind}"
    )


def error_of(error: BaseException) -> str:
    """Return the class and the first characters of an extension's error."""
    return f"{type(error).__name__}: {error}"[:200]


def _reason_to_refuse(location: str, module: str) -> str:
    """Return the reason why code at a place is not loaded; "" if it may be loaded."""
    from importlib.util import find_spec

    try:
        # Only the package itself, because finding a module below it would import the package.
        spec = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        spec = None
    files = [spec.origin] if spec and spec.origin else []
    files += (spec.submodule_search_locations or []) if spec else []
    untrusted = untrusted_folders(os.environ, sorted(_projects))
    for path in (location, *map(os.path.realpath, files)):
        for folder in untrusted:
            if is_below(path, [folder]):
                return f"is in {folder}, where other users can put files"
    return ""


def untrusted_folders(environ: Mapping[str, str], projects: Iterable[str]) -> list[str]:
    """Return the working folder and these projects, without folders that contain the user's
    home.
    """
    home = os.path.realpath(environ.get("HOME") or "/")
    folders = dict.fromkeys(map(os.path.realpath, (".", *projects)))
    return [folder for folder in folders if not is_below(home, [folder])]


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return whether a path is one of these folders, or below one."""
    return any(f"{path}/".startswith(f"{folder.rstrip('/')}/") for folder in folders)
