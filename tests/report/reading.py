"""What a report says, read from its markup."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "br", "input", "link", "img"}


class Reader(HTMLParser):
    """Reads a page: its tables by caption, the bullets' rows by name, and every tag with its attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[str]]] = {}
        self.bullets: dict[str, dict[str, str]] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self._span: list[str] = []
        self._caption, self._rows = "", list[list[str]]()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = dict(attrs)
        self.tags.append((tag, own))
        if tag in _VOID:
            return
        self.open.append(tag)
        if tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        elif tag == "li" and own.get("data-name"):
            self.bullets[own["data-name"] or ""] = {}
        elif tag == "span" and self.bullets:
            self._span.append(own.get("class") or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, "tags are closed in order"
        if tag == "table":
            self.tables[self._caption], self._caption, self._rows = self._rows[1:], "", []
        elif tag == "span" and self._span:
            self._span.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open or "script" in self.open:
            return
        self.text += data
        if "caption" in self.open:
            self._caption += data
        elif {"td", "th"} & {*self.open} and "ul" not in self.open[self.open.index("table") :]:
            self._rows[-1][-1] += data
        if self._span and "summary" in self.open:
            of = self.bullets[[*self.bullets][-1]]
            of[self._span[-1]] = of.get(self._span[-1], "") + data


def whole(text: str) -> int:
    """The number that a cell shows."""
    return int(text.strip().replace(",", ""))
