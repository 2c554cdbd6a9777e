"""The digests of files in a ledger.

Invariant: a digest in a ledger is plain (SHA-256) only for a file that git tracks. Other digests
are keyed with a secret in the user's own folder, so that a copy of the ledger cannot confirm a
guess of the content.
"""

from __future__ import annotations

import hmac
import os
from hashlib import sha256

from reflector.events.memory import UNSEEN
from reflector.handover import read_own, write_own
from reflector.project import Project

_SECRET = "memory-secret"
_MAX_SECRET = 64


def digest_in_ledger(project: Project, plain: str, *, is_tracked: bool) -> str:
    """Return the digest in the ledger for a plain one.

    Raises: OSError if the secret cannot be written.
    """
    if is_tracked or plain in ("", UNSEEN):
        return plain
    return keyed_digest(_secret(project), plain)


def keyed_digest(secret: bytes, plain: str) -> str:
    """Return the digest that only the owner of the secret can check."""
    return "k" + hmac.new(secret, plain.encode(), sha256).hexdigest()


def kept_secret(project: Project) -> bytes:
    """Return the secret of a store; b"" if there is none."""
    return read_own(str(project.root), _SECRET, _MAX_SECRET)


def _secret(project: Project) -> bytes:
    """Return the secret of a store, created if there is none.

    Raises: OSError if it cannot be written.
    """
    secret = kept_secret(project)
    if not secret:
        secret = os.urandom(32).hex().encode()
        write_own(str(project.root), _SECRET, secret)
    return secret
