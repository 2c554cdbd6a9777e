"""The draws of a trial: any program can repeat them, and neither changes the other."""

from hashlib import blake2b

import pytest
from hypothesis import given, strategies as st

from reflector.trials.draw import PLACEBO_SHARE, is_placebo, is_withheld

KEY = "pl1:" + "5a" * 32


def drawn(root: str, person: bytes) -> float:
    secret = bytes.fromhex(KEY[4:])
    text = root.encode("utf-8", "surrogatepass")
    digest = blake2b(text, digest_size=8, key=secret, person=person).digest()
    return int.from_bytes(digest, "big") / 2**64


@given(st.text(min_size=1), st.integers(1, 999_999))
def test_each_draw_is_repeatable(root: str, share: int) -> None:
    assert is_withheld(KEY, share, root) == (drawn(root, b"") < share / 1_000_000)
    assert is_placebo(KEY, share, root) == (drawn(root, b"placebo") < share / 1_000_000)


@pytest.mark.parametrize(
    ("number", "arms"),
    [(1, (False, True)), (2, (True, True)), (3, (False, False)), (5, (True, False))],
)
def test_draws_stay_bit_for_bit(number: int, arms: tuple[bool, bool]) -> None:
    root = f"s-{number}"
    assert (is_withheld(KEY, 500_000, root), is_placebo(KEY, PLACEBO_SHARE, root)) == arms


def test_each_arm_gets_a_third() -> None:
    sizes = {"placebo": 0, "without": 0, "told": 0}
    for number in range(6_000):
        root = f"session-{number}"
        if is_placebo(KEY, PLACEBO_SHARE, root):
            sizes["placebo"] += 1
        else:
            sizes["without" if is_withheld(KEY, 500_000, root) else "told"] += 1
    assert all(1_850 < size < 2_150 for size in sizes.values())
