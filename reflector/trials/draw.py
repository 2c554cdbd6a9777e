"""Which sessions go without the playbook while a trial runs: a draw that anybody can repeat.

Invariant: a session's arm follows from the trial's key, its share and the id of the session in
which the conversation began, from nothing else. The key is the chain of the event before the
trial's opening, so nobody could choose it together with the ids of sessions to come. The hook calls
this: it imports one module, and that when it is called.
"""

#: What a trial's share is counted in.
MILLION = 1_000_000


def is_withheld(key: str, share: int, root: str) -> bool:
    """Return whether a session goes without.

    key    of the trial: the chain of an event, `pl1:` and hex digits
    share  of a million sessions, how many go without
    root   the id of the session in which the conversation began

    Raises ValueError for a key that is not one.
    """
    from _blake2 import blake2b  # what hashlib would wrap, at a tenth of its import

    secret = bytes.fromhex(key.rpartition(":")[2])
    drawn = blake2b(root.encode("utf-8", "surrogatepass"), digest_size=8, key=secret).digest()
    return int.from_bytes(drawn, "big") * MILLION < share << 64
