"""The playbook as a text for an editor: read as it is written, and no slip is lost or guessed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflector.playbook.admissible import text_fault
from reflector.playbook.buffer import Slip, parse, render
from reflector.playbook.bullet import Bullet
from reflector.playbook.names import SECTIONS

_TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda text: text_fault(text) is None)
_LINES = st.lists(st.sampled_from(["a", " b", "# c", "[pat-001] d", "", "- e"]), min_size=1, max_size=5).map("\n".join)
_BULLETS = st.lists(
    st.builds(
        Bullet, st.sampled_from([f"pat-{n:03}" for n in range(9)]), st.sampled_from(list(SECTIONS)), _TEXTS | _LINES
    ).filter(lambda bullet: text_fault(bullet.text) is None),
    unique_by=lambda bullet: bullet.name,
    max_size=6,
)
BOOK = [Bullet("pat-001", "pat", "Write the failing test first."), Bullet("mis-001", "mis", "Do not\n\nguess.")]
KNOWN = {bullet.name: bullet for bullet in BOOK}


@given(_BULLETS)
def test_a_text_that_nobody_edited_says_what_it_was_made_from(bullets: list[Bullet]) -> None:
    read = parse(render(bullets, 41), {bullet.name: bullet for bullet in bullets})
    assert sorted(read.bullets, key=lambda b: b.name) == sorted(bullets, key=lambda b: b.name)
    assert (read.new, read.position) == (frozenset(), 41)


def test_the_text_is_one_line_a_bullet_under_its_heading() -> None:
    text = render(BOOK, 7, notes={"pat-001": "It was changed."})
    assert "\n## PATTERNS & APPROACHES\n# It was changed.\n[pat-001] Write the failing test first.\n\n## MIS" in text
    assert "\n[mis-001] Do not\n\n    guess.\n" in text
    assert "## OTHERS" in text
    assert "## OTHERS" not in render(BOOK, 7, "pat")


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("## OTHERS", "## OTHERS\nBe brief.", [("oth", "Be brief.")]),
        ("## OTHERS", "## others\n- Be brief.\n- Be kind.\n", [("oth", "Be brief."), ("oth", "Be kind.")]),
        ("## OTHERS", "## OTHERS\nBe brief:\n  always\n", [("oth", "Be brief:\nalways")]),
        ("failing test", "failing\ntest", []),  # an editor broke the line
        ("## OTHERS", "# nothing\n\n## OTHERS\n", []),
        ("## OTHERS", "## OTHERS\n[x] is a box.", [("oth", "[x] is a box.")]),
    ],
)
def test_new_bullets_need_no_name(before: str, after: str, wanted: list[tuple[str, str]]) -> None:
    read = parse(render(BOOK, 7).replace(before, after), KNOWN)
    assert [(b.section, b.text) for b in read.bullets if b.name in read.new] == wanted
    assert [b for b in read.bullets if b.name not in read.new] == BOOK


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("## OTHERS", "## OTHER", "line 20: 'OTHER' is not a section; the sections are PATTERNS"),
        ("[pat-001]", "[pat-009]", r"line 9: pat-009 is not in the text .* `reflector restore pat-009`"),
        ("[mis-001]", "[pat-001]", "pat-001 stands there twice"),
        ("## PATTERNS & APPROACHES\n", "", "line 8: a bullet stands above the first heading"),
        (
            "[pat-001]",
            "    [pat-001]",
            "line 9: an indented line continues the bullet above it, and there is no bullet above",
        ),
    ],
)
def test_a_slip_is_named_with_its_line(before: str, after: str, wanted: str) -> None:
    with pytest.raises(Slip, match=wanted):
        parse(render(BOOK, 7).replace(before, after), KNOWN)
