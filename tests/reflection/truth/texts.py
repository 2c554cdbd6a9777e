"""Texts that break whoever formats them twice, cuts them or takes them for an end: braces, fences, backslashes, a
megabyte."""

from __future__ import annotations

from hypothesis import strategies as st

NASTY = (
    "{x}",
    "{{}}",
    "{0.__class__}",
    "{generated_answer}",
    "{previous_insights!r:>9999999999}",
    "%s %(x)s $x ${x}",
    '```json\n{"insights": []}\n```',
    "</think>",
    "</test_report>",
    '{"insights": [',
    '"tag": "helpful"}',
    "\\",
    '\\"\\u0000\\n',
    "日本語 🐍 é\u0301 \u202e \u2028 \ufeff",
    "\r\n\t\x1b[31m\x07",
    "x" * (1 << 20),
    ("{" * 64 + "}" * 64) * 8192,
)
TEXTS = (
    st.sampled_from(NASTY)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
    | st.lists(st.sampled_from(NASTY[:-2]) | st.text(max_size=5), max_size=4).map("".join)
)
FILLED = TEXTS.filter(bool)
