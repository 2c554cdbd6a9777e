"""Count the habits of README, pages, help and messages that make a reader read twice.

`python -m tests.prose` lowers the limits in tests/prose.tsv to the present counts.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click

from reflector.cli.app import reflector as program

ROOT = Path(__file__).parents[1]
LIMITS = Path(__file__).with_name("prose.tsv")
KINDS = ("words", "sentences", "heads")
MOST_WORDS = 25
MOST_CHARACTERS = 50
#: What each expression should be instead.
BETTER = {
    r"\b(at most|the newest|for) so (many|long)\b": "the number",
    r"\bwhere (there (is|are)|nothing|nobody|it is|that is|one is|they are|its|the)\b": "if",
    r"\b(is|are|has|have|had) no (?!longer\b|effect\b|permission\b|limit\b)\w+": "not a",
    r"\bbehind (its|it|the|an?|p)\b": "after",
    r"\bmend(s|ed|ing)?\b": "repair",
    r"\bfor ever\b": "permanently",
    r"\b(a person (?!'s)|nobody|anybody|whoever|somebody)\b": "you",
    r"\bwhat (is|was|are|were|stands|stays|comes|came|it|they|an?|the|people)\b": "a noun",
    r"\b(stands?|lies) (in|on|at|there|behind|before|beside|above|below)\b": "is",
    r"(?<!agent )(?<!model )(?<!judge )(?<!user )(?<!you )\b(says|tells|told)\b": "shows",
}
_BETTER = {re.compile(pattern, re.IGNORECASE): word for pattern, word in BETTER.items()}
_QUERY = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|ORDER BY|CREATE|WHERE|AND \w+ [<>=])\b")
#: An expression, or a list of words.
_PATTERN = re.compile(r"\\[bswdA-Z]|\(\?|\n {4}|^[a-z\d -]+$")


def words(text: str) -> list[str]:
    """Return the expressions of a text that another word replaces."""
    return [
        f"{match[0]!r}: {word}"
        for pattern, word in _BETTER.items()
        for match in pattern.finditer(text)
    ]


def long_sentences(text: str) -> list[str]:
    """Return the sentences of more than `MOST_WORDS` words."""
    parts = re.split(r"(?<=[.!?;])\s+|\n\s*\n|\n\s*(?=[-*|#>]|\d+\. )|\|", text)
    return [" ".join(part.split()) for part in parts if len(part.split()) > MOST_WORDS]


def bare_heads(page: str) -> list[str]:
    """Return the heads of tables in which a column has no name."""
    heads = re.findall(r"^(\|.*\|)\n\|[-:| ]+\|$", page, re.MULTILINE)
    return [head for head in heads if not all(cell.strip() for cell in head.split("|")[1:-1])]


def prose_of(page: str) -> str:
    """Return the prose of a page, without code and addresses."""
    text = re.sub(r"```.*?```|<!--.*?-->", " ", page, flags=re.DOTALL)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "X", text))


def pages() -> dict[str, str]:
    """Return the pages that are written by hand, by name."""
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    texts = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}
    return {name: text for name, text in texts.items() if not text.startswith("<!-- generated")}


def _commands(command: click.Command, context: click.Context) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (inner := command.get_command(context, name)) is not None:
                yield from _commands(inner, click.Context(inner, parent=context, info_name=name))


def helps() -> list[str]:
    """Return the help of every command, and of every option."""
    found = list(_commands(program, click.Context(program)))
    options = [option for command in found for option in command.params]
    return [
        *dict.fromkeys(command.help or "" for command in found),
        *dict.fromkeys(
            option.help for option in options if isinstance(option, click.Option) and option.help
        ),
    ]


def long_summaries() -> list[str]:
    """Return the summaries in help of more than `MOST_CHARACTERS` characters."""
    summaries = [" ".join(text.split("\n\n")[0].split()).rstrip(".") for text in helps()]
    return [summary for summary in summaries if len(summary) > MOST_CHARACTERS]


def _texts(path: Path) -> Iterator[str]:
    """Yield the strings of a module, without docstrings; `X` stands for a value."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    bare = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
            )
        elif isinstance(node, ast.Constant) and id(node) not in bare | parts:
            yield str(node.value)


def messages() -> list[str]:
    """Return the strings of the program that have a sentence for a reader."""
    return [
        text
        for path in sorted((ROOT / "reflector").rglob("*.py"))
        for text in _texts(path)
        if len(text.split()) >= 5 and not _QUERY.search(text) and not _PATTERN.search(text)
    ]


def places() -> list[str]:
    """Return the names of all texts that are counted."""
    return [*pages(), "help", "messages"]


def counts() -> dict[str, dict[str, list[str]]]:
    """Return the findings of each place by kind."""
    texts = {name: prose_of(page) for name, page in pages().items()}
    texts["help"] = "\n\n".join(re.sub(r"`[^`]*`", "X", text) for text in helps())
    texts["messages"] = "\n\n".join(re.sub(r"`[^`]*`", "X", text) for text in messages())
    found = {
        name: {"words": words(text), "sentences": long_sentences(text), "heads": []}
        for name, text in texts.items()
    }
    for name, page in pages().items():
        found[name]["heads"] = bare_heads(page)
    found["help"]["heads"] = long_summaries()
    return found


def limits() -> dict[tuple[str, str], int]:
    """Return the limits of older texts, by place and kind; any other limit is 0."""
    rows = [line.split("\t") for line in LIMITS.read_text("utf-8").splitlines()[1:]]
    return {(place, kind): int(most) for place, kind, most in rows}


def _lower() -> None:
    before = limits() if LIMITS.exists() else None
    rows = ["place\tkind\tmost"]
    for place, kinds in sorted(counts().items()):
        for kind, found in kinds.items():
            most = len(found) if before is None else min(len(found), before.get((place, kind), 0))
            rows += [f"{place}\t{kind}\t{most}"] if most else []
    LIMITS.write_text("\n".join(rows) + "\n", "utf-8")


if __name__ == "__main__":
    _lower()
