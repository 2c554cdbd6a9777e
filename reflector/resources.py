"""What this installation is made of: the folders that ship beside the code, and the extras that it may lack.

Invariant: a command that installs an extra never names this distribution without its source, and it changes the
environment that runs: a plain name on the public index may be somebody else's package.
"""

from __future__ import annotations

from pathlib import Path

DISTRIBUTION = "reflector-ledger"


def resource_dir(name: str) -> Path:
    """Return the folder `migrations` or `prompts`: in a wheel inside the package, in a checkout beside it.

    Raises FileNotFoundError, naming both places, for a broken install.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"{name}/ is neither in {package} nor in {package.parent}; this installation is incomplete, reinstall reflector"
    )


def install_command(extra: str) -> str:
    """Return the shell command that adds an extra's packages to the environment that runs.

    pipx and uv keep a list of what a tool's environment holds, so they are asked to add to it; pip is run by the
    environment's own interpreter. An installation whose metadata does not know the extra is to be made anew.
    """
    import shlex
    import sys
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution(DISTRIBUTION)
        needed = [
            spec.split(";")[0].strip()
            for spec in found.requires or ()
            if f'extra == "{extra}"' in spec.replace("'", '"')
        ]
        source = _source(found.read_text("direct_url.json"))
    except PackageNotFoundError:
        needed, source = [], None
    if not needed:
        return f"reinstall {DISTRIBUTION} from its source with the extra {extra!r}"
    packages = shlex.join(needed)
    if (Path(sys.prefix) / "pipx_metadata.json").is_file():
        return f"pipx inject {DISTRIBUTION} {packages}"
    if (Path(sys.prefix) / "uv-receipt.toml").is_file() and source:
        return f"uv tool install --force {shlex.quote(f'{DISTRIBUTION}[{extra}] @ {source}')}"
    return f"{shlex.quote(sys.executable or 'python')} -m pip install {packages}"


def _source(direct_url: str | None) -> str | None:
    """Return where a distribution was installed from, by its `direct_url.json` (PEP 610); None for an index."""
    import json

    try:
        found = json.loads(direct_url or "null")
        vcs = found.get("vcs_info", {}).get("vcs")
        return f"{vcs}+{found['url']}" if vcs else str(found["url"])
    except (ValueError, AttributeError, KeyError):
        return None
