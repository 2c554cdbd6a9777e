"""Keys that sign heads, and the anchors that are read with them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reflector.cli.arguments import FILE

if TYPE_CHECKING:
    from reflector.project import Project
    from reflector.proof.anchors import Published
    from reflector.proof.signed_note import PrivateKey, PublicKey

#: Bytes of a file of heads: one an hour for ten years.
_MOST_HEADS = 8 * 2**20
_MOST_KEY = 4096


@click.command()
@click.argument("file", type=FILE)
@click.option("--name", required=True, help="The key's name: an address that is yours, such as example.com/my-project.")
def keygen(file: Path, name: str) -> None:
    """Make a key that signs heads, and print its public key.

    FILE holds the private key, readable by you alone; an existing file is never overwritten. Use a separate key for
    each ledger. Needs the extra `sign`.
    """
    from reflector.files import sync_folder
    from reflector.proof.signed_note import KeyRefused, PrivateKey

    try:
        key = PrivateKey.generate(name)
    except KeyRefused as error:
        raise click.UsageError(str(error)) from error
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise click.UsageError(f"{file} is there already, and a key is never overwritten; name another file") from error
    with open(handle, "w", encoding="utf-8") as out:
        out.write(f"{key.encoded()}\n")
        out.flush()
        os.fsync(out.fileno())
    sync_folder(file.parent)
    click.echo(str(key.public_key))


def private_key(file: Path) -> PrivateKey:
    """Return the key that a file keeps for its owner only."""
    from reflector.files import open_regular
    from reflector.proof.signed_note import KeyRefused, PrivateKey

    with open_regular(file) as opened:
        mode = os.fstat(opened.fileno()).st_mode
        text = opened.read(_MOST_KEY).decode("utf-8", "replace")
    if os.name == "posix" and mode & 0o077:
        raise click.UsageError(
            f"the private key {file} can be read by others (mode {mode & 0o777:o}); "
            f"run `chmod 600 {file}`, and make another key if somebody may have read it"
        )
    try:
        return PrivateKey.parse(text)
    except KeyRefused as error:
        raise click.UsageError(f"the key in {file}: {error}") from error


def published_in(given: str, keys: tuple[str, ...], project: Project, option: str = "--anchor") -> Published:
    """What `--anchor` or another option names: a head, a file, or a file that git has; verified with the keys of
    `--key`."""
    from reflector.files import read_bounded
    from reflector.proof.anchors import NoAnchor, is_head, read_published
    from reflector.proof.git_anchors import NotPublished, published
    from reflector.proof.signed_note import NoteRefused

    known = [_public_key(key) for key in keys]
    try:
        if is_head(given):
            content = given.encode("ascii")
        elif given and Path(given).exists() and not Path(given).is_dir():
            content = read_bounded(Path(given), _MOST_HEADS)
        else:
            content = published(project.root, given, _MOST_HEADS)
        return read_published(content, known)
    except (NoAnchor, NoteRefused, NotPublished) as error:
        raise click.UsageError(f"{option} {given[:100]!r}: {error}") from error


def _public_key(given: str) -> PublicKey:
    """Return a public key, or that in the file of a name."""
    from reflector.files import read_bounded
    from reflector.proof.signed_note import KeyRefused, PublicKey

    if "+" not in given and not Path(given).exists():
        raise click.UsageError(f"--key {given[:100]!r}: neither NAME+HASH+KEY nor a file that is there")
    text = read_bounded(Path(given), _MOST_KEY).decode("utf-8", "replace") if Path(given).exists() else given
    try:
        return PublicKey.parse(text)
    except KeyRefused as error:
        raise click.UsageError(f"--key {given[:100]!r}: {error}") from error
