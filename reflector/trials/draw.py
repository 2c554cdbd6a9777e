"""The arm of a session in a trial: a draw that anyone can repeat.

Invariant: a session's arm depends only on the trial's key, its shares and the id of the session in
which the conversation began. The key is the chain of the event before the trial's opening, so it
could not be chosen together with the ids of later sessions. The placebo arm has a draw of its own,
so a trial without one keeps its arms. The hook calls this module, which imports one module when it
is called.
"""

#: The unit of a trial's share: a million sessions.
MILLION = 1_000_000
#: The share of sessions in the placebo arm: with half of the others in each arm, a third is in
#: each of the three.
PLACEBO_SHARE = 333_333
#: Separates the second draw from the first (BLAKE2b's `person`).
_PLACEBO = b"placebo"


def is_withheld(key: str, share: int, root: str) -> bool:
    """Return whether a session is in the arm without the withheld rules.

    key    of the trial: the chain of an event, `pl1:` and hex digits
    share  the number of sessions in that arm, of a million
    root   the id of the session in which the conversation began

    Raises: ValueError if the key is malformed.
    """
    return _drawn(key, root, b"") * MILLION < share << 64


def is_placebo(key: str, share: int, root: str) -> bool:
    """Return whether a session is shown the placebo; arguments and errors are those of
    `is_withheld`.
    """
    return _drawn(key, root, _PLACEBO) * MILLION < share << 64


def _drawn(key: str, root: str, person: bytes) -> int:
    """Return the number below 2⁶⁴ that a session draws."""
    from _blake2 import blake2b  # hashlib wraps it, but takes ten times as long to import

    secret = bytes.fromhex(key.rpartition(":")[2])
    text = root.encode("utf-8", "surrogatepass")
    drawn = blake2b(text, digest_size=8, key=secret, person=person).digest()
    return int.from_bytes(drawn, "big")
