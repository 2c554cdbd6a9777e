"""The parts of this installation: the folders that ship beside the code, and the extras that it may
lack.

Invariant: a command that adds an extra names the extra's packages and never this distribution,
because on the public index its plain name can be another package. The command changes the running
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


def remedy_for_extra(extra: str) -> str:
    """Return the instruction to add an extra to the running environment: to run pip, or uv if pip
    is missing, with the extra's packages. If the installed metadata does not list the extra, it is
    to reinstall reflector.
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
    if find_spec("pip"):
        return f"run: {python} -m pip install {packages}"
    return f"run: uv pip install --python {python} {packages}"
