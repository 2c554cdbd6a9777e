"""The number of columns that a text takes on a terminal, and texts cut to some columns."""

from __future__ import annotations


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes: two for a Chinese letter, none for a
    combining mark.
    """
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(letter: str) -> int:
    import unicodedata  # most texts are ASCII

    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Return a text of at most `columns` columns; an ellipsis replaces the rest."""
    if width(text) <= columns:
        return text
    while width(text) > columns - 1:
        text = text[: min(len(text) - 1, columns - 1)]
    return text + "…"


def filled(text: str, columns: int) -> str:
    """Return a text of exactly `columns` columns: cut, or with spaces at its end."""
    shown = cut(text, columns)
    return shown + " " * (columns - width(shown))


def around(text: str, word: str, columns: int) -> str:
    """Return a text of at most `columns` columns. If it is cut, the first place of `word` is shown
    with the text around it.
    """
    start = text.find(word) - columns // 3
    if width(text) <= columns or start <= 0:
        return cut(text, columns)
    return cut("…" + text[min(start, max(len(text) - columns + 1, 0)) :], columns)


def broken(text: str, columns: int, *, words: bool = True) -> list[str]:
    """Return lines of at most `columns` columns, broken between words if possible. Without `words`,
    a longer word stays whole, so that it can be copied, unless it has letters of two columns.
    """
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and width(lines[-1]) + 1 + width(word) <= columns:
            lines[-1] += f" {word}"
            continue
        if lines[-1]:
            lines.append("")
        for letter in word if words or width(word) > len(word) else (word,):
            if lines[-1] and width(lines[-1] + letter) > columns:
                lines.append("")
            lines[-1] += letter
    return lines
