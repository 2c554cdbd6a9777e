"""Small phrases of sentences: a number with its noun, a day, and a text without its markup."""

from __future__ import annotations

from datetime import date, timedelta

_DAYS_OF_WEEK = timedelta(days=6)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 rule`, `2,000 rules`, `3 deliveries`."""
    if number == 1:
        return f"1 {noun}"
    is_changed = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{number:,} {noun[:-1]}ies" if is_changed else f"{number:,} {noun}s"


def short_number(number: float) -> str:
    """Return a number with at most three digits after rounding, or all its whole digits: `0.333`,
    `12.3`, `1,000`.
    """
    return f"{number:.3g}" if abs(number) < 999.5 else f"{number:,.0f}"


def named(text: str) -> str:
    """Return a message that begins with the program's name, once."""
    return text if text.startswith("reflector ") else f"reflector: {text}"


def on_day(day: date, today: date) -> str:
    """Return a day in a sentence: today, on Friday, on 3 Oct, on 3 Oct 2025."""
    if day == today:
        return "today"
    if day == today - timedelta(days=1):
        return "yesterday"
    if today - _DAYS_OF_WEEK <= day < today:
        return f"on {day:%A}"
    year = f" {day.year}" if day.year != today.year else ""
    return f"on {day.day} {day:%b}{year}"


def plain_words(text: str) -> str:
    """Return the text of a rule without the signs of Markdown for bold type; code keeps them."""
    parts = text.split("`")
    parts[::2] = [prose.replace("**", "") for prose in parts[::2]]
    return "`".join(parts)
