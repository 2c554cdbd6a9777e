"""Reads days and times that a user types: `2026-11-21`, `yesterday`, `2 weeks ago`.

Invariant: a time includes the whole period that it names, in this machine's time zone. `yesterday`
is that day, and `last week` is Monday to Sunday. A text that does not look like a time is not read
as one.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from reflector.mistakes import Mistake

#: Examples of the forms, for messages.
FORMS: Final = "2026-11-21, 2026-11-21 09:14, yesterday, last friday, 2 weeks ago"
_INSTANT = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LIKE_ISO = r"\d{4}-\d{1,2}(-|\Z)"
_ISO = (
    r"(?P<day>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?P<minute>\d{2}:\d{2})(?P<second>:\d{2})?(?P<fraction>[.,]\d{1,6})?(?P<zone>Z"
    r"|[+-]\d{2}:?\d{2})?)?"
)
#: A time of this year, as a narrow table prints it.
_OF_THIS_YEAR = r"\d\d-\d\d( \d\d:\d\d)?"
_AGO = r"(\d{1,4}|an?) (minute|hour|day|week|month|year)s?( ago)?"
_SPAN = r"(this|last) (week|month|year)"
_DAY_AND_CLOCK = r"(?P<day>.+?)(?:,? (?:at )?(?P<clock>\d{1,2}:\d\d))?"
#: 28.11.2026, 28 Nov 2026, Nov 28, 2026; with the name of a month, the year is optional.
_DOTTED = r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})"
_NAMED = (
    r"(?P<day>\d{1,2})\.? (?P<name>[a-z]{3,9})(?: (?P<year>\d{4}))?",
    r"(?P<name>[a-z]{3,9}) (?P<day>\d{1,2})(?:,? (?P<year>\d{4}))?",
)


class NotATime(Mistake):
    """A text that looks like a time but is not a time."""


class Period(NamedTuple):
    """The first and the last microsecond of a time, in UTC."""

    first: datetime
    last: datetime


def period_of(text: str, now: datetime | None = None) -> Period | None:
    """Return the period that a time names, or None if a text does not look like a time.

    `now` is the local time, without a zone.

    Raises:
        NotATime: the text looks like a time, but the time does not exist.
    """
    now = now or datetime.now()
    text = text.strip()
    try:
        return _in_words(" ".join(text.lower().split()), now) or _in_iso(text, now.year)
    except (ValueError, OverflowError) as error:
        raise NotATime(f"{text!r:.80} is not a time ({error})") from error


def _in_iso(text: str, year: int) -> Period | None:
    if re.fullmatch(_OF_THIS_YEAR, text, re.ASCII):
        text = f"{year}-{text}"
    if not re.match(_LIKE_ISO, text, re.ASCII):
        return None
    if re.fullmatch(r"\d{4}-\d\d", text, re.ASCII):
        return _whole_month(date.fromisoformat(f"{text}-01"))
    parts = re.fullmatch(_ISO, text, re.ASCII)
    if parts is None:
        raise ValueError("write 2026-11-21 or 2026-11-21T09:14")
    first = datetime.fromisoformat(text.replace(",", "."))
    return _period(first, first + _unit(parts))


def _in_words(words: str, now: datetime) -> Period | None:
    if ago := re.fullmatch(_AGO, words, re.ASCII):
        number = int(ago[1]) if ago[1].isdigit() else 1
        return _ago(now, number, ago[2])
    if span := re.fullmatch(_SPAN, words, re.ASCII):
        return _calendar_span(now.date(), span[2], back=span[1] == "last")
    parts = re.fullmatch(_DAY_AND_CLOCK, words, re.ASCII)
    day = _day(parts["day"], now.date()) if parts else None
    if parts is None or day is None:
        return None
    if parts["clock"] is None:
        return _days(day, day)
    first = datetime.combine(day, time.fromisoformat(parts["clock"].zfill(5)))
    return _period(first, first + timedelta(minutes=1))


def _ago(now: datetime, number: int, unit: str) -> Period:
    """Return the instant N minutes or hours ago, or the day N days, weeks, months or years ago."""
    if unit in ("minute", "hour"):
        instant = now - timedelta(**{f"{unit}s": number})
        return _period(instant, instant + _INSTANT)
    if unit in ("day", "week"):
        day = now.date() - timedelta(**{f"{unit}s": number})
        return _days(day, day)
    months = number if unit == "month" else 12 * number
    first = _month(now.date(), months)
    last = _month(now.date(), months - 1) - _DAY
    # A month before May 31 is April 30.
    day = min(last, first + timedelta(days=now.day - 1))
    return _days(day, day)


def _calendar_span(today: date, unit: str, *, back: bool) -> Period:
    """Return the current week, month or year, or with `back` the previous one."""
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * back)
        return _days(monday, monday + timedelta(days=6))
    if unit == "year":
        year = today.year - back
        return _days(date(year, 1, 1), date(year, 12, 31))
    return _whole_month(_month(today, int(back)))


def _whole_month(day: date) -> Period:
    return _days(_month(day, 0), _month(day, -1) - _DAY)


def _month(day: date, back: int) -> date:
    """Return the first day of the month `back` months before the month of a day."""
    year, month = divmod(day.year * 12 + day.month - 1 - back, 12)
    return date(year, month + 1, 1)


def _day(words: str, today: date) -> date | None:
    """Return the day that words name; None if they do not name a day."""
    if words == "today":
        return today
    if words == "yesterday":
        return today - _DAY
    return _weekday(words, today) or _calendar_day(words, today)


def _weekday(words: str, today: date) -> date | None:
    """Return the latest day with a weekday's name: perhaps today, but not for `last friday`."""
    name = words.removeprefix("last ")
    for number, weekday in enumerate(_WEEKDAYS):
        if len(name) >= 3 and weekday.startswith(name):
            days = (today.weekday() - number) % 7
            is_today = days == 0
            if is_today and words.startswith("last "):
                days = 7
            return today - timedelta(days)
    return None


def _calendar_day(words: str, today: date) -> date | None:
    """Return the day of a date. Without a year it is the latest such day that is not ahead."""
    if dotted := re.fullmatch(_DOTTED, words, re.ASCII):
        return date(int(dotted["year"]), int(dotted["month"]), int(dotted["day"]))
    named = re.fullmatch(_NAMED[0], words, re.ASCII) or re.fullmatch(_NAMED[1], words, re.ASCII)
    if named is None or named["name"][:3] not in _MONTHS:
        return None
    day = date(
        int(named["year"] or today.year), _MONTHS.index(named["name"][:3]) + 1, int(named["day"])
    )
    is_ahead = named["year"] is None and day > today
    return day.replace(year=day.year - 1) if is_ahead else day


def _days(first: date, last: date) -> Period:
    """Return the period from the beginning of one day to the end of another."""
    after = datetime.combine(last, time()) + _DAY
    return _period(datetime.combine(first, time()), after)


def _period(first: datetime, after: datetime) -> Period:
    """Return the period from a local time until just before another.

    A local day has 23 or 25 hours twice a year. An hour that occurs twice ends with its second
    occurrence.
    """
    last = (after - _INSTANT).replace(fold=1)
    return Period(first.astimezone(UTC), last.astimezone(UTC))


def _unit(parts: re.Match[str]) -> timedelta:
    """Return the length of the smallest unit that a time names."""
    if parts["fraction"]:
        return timedelta(microseconds=10 ** (7 - len(parts["fraction"])))
    if parts["second"]:
        return timedelta(seconds=1)
    return timedelta(minutes=1) if parts["minute"] else _DAY
