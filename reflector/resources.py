"""The parts of this installation: the folders that ship beside the code, and the extras that it may
lack.

Invariant: a command that installs an extra always names this distribution with its source, because
a plain name on the public index can be another package. The command changes the running
environment.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

DISTRIBUTION = "reflector-ledger"


@cache
def resource_dir(name: str) -> Path:
    """Return the folder `migrations`, `prompts` or `docs`. It is inside the package in a wheel, and
    beside it in a checkout.

    Raises: FileNotFoundError, naming both places, for an incomplete installation.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"{name}/ is neither in {package} nor in {package.parent}, so this installation is "
        "incomplete; reinstall reflector"
    )


def install_command(extra: str) -> str:
    """Return the shell command that adds an extra's packages to the running environment, with pip
    if it is there, else with uv. If the installed package does not list the extra, return the
    advice to reinstall the package.
    """
    import shlex
    import sys
    from importlib.metadata import PackageNotFoundError, requires
    from importlib.util import find_spec

    try:
        specs = requires(DISTRIBUTION) or ()
    except PackageNotFoundError:
        specs = ()
    needed = [
        spec.split(";")[0].strip()
        for spec in specs
        if f'extra == "{extra}"' in spec.replace("'", '"')
    ]
    if not needed:
        return f"install {DISTRIBUTION} again, with its optional part {extra!r}"
    python = shlex.quote(sys.executable or "python")
    packages = shlex.join(needed)
    return (
        f"{python} -m pip install {packages}"
        if find_spec("pip")
        else f"uv pip install --python {python} {packages}"
    )
