"""Where the files that ship beside the code are: in the wheel inside the package, in a checkout beside it."""

from __future__ import annotations

from pathlib import Path


def resource_dir(name: str) -> Path:
    """The folder `migrations` or `prompts`. Raises FileNotFoundError, naming both places, for a broken install."""
    package = Path(__file__).resolve().parent
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"{name}/ is neither in {package} nor in {package.parent}; this installation is incomplete, reinstall reflector"
    )
