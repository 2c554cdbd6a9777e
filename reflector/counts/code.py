"""Whether a text uses an English word as code: as a call, a member, an import, a type or a keyword.

Invariant: a word in a comment, in a string or in a prose file is not a use, because a rule against
`checkout` or `any` is not about English.
"""

from __future__ import annotations

import re
from functools import cache

from reflector.text.lazy import lazy_pattern

_COMMENT = r"/\*(?s:.*?)\*/|<!--(?s:.*?)-->|(?<![:\w])//.*|(?:^|(?<=\s))#(?!include\b|!?\[).*"
_LONG_STRING = r"\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|`(?s:[^`]*)`"
_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
_NOT_CODE = lazy_pattern(f"(?P<comment>{_COMMENT})|{_LONG_STRING}|(?P<line>{_STRING})", re.M)
_IMPORT = lazy_pattern(
    r"^\s*(?:import\b|from\s+\S+\s+import\b|use\s+\w+[\w:]*[;:]|using\s|#include\b|.*\brequire\("
    r"|.*\bfrom\s+[\"']|(?:\w+\s+)?\"[^\"\s]+\"$).*",
    re.M,
)
_PROSE_FILE = lazy_pattern(r"\.(?:mdx?|txt|rst|adoc)$", re.IGNORECASE)
#: Files that contain more words for people than code. A command in one may only be described.
_YAML_FILE = lazy_pattern(r"\.ya?ml$", re.IGNORECASE)
#: Files in which `//` and `/*` begin parts of paths, not comments.
_CONFIG_FILE = lazy_pattern(
    r"\.(?:ya?ml|toml|cfg|conf|properties|mk)$|(?:^|/)\.env(?:\.[\w.-]+)?$"
    r"|(?:^|/)(?:[\w.-]+\.)?(?:Makefile|Dockerfile)(?:\.[\w.-]+)?$",
    re.IGNORECASE,
)
_CONFIG_STRING = rf"\"\"\"(?s:.*?)\"\"\"|'''(?s:.*?)'''|(?<!\w)(?:{_STRING})"
_NOT_CONFIG = lazy_pattern(rf"(?P<comment>(?:^|(?<=\s))#.*)|{_CONFIG_STRING}", re.M)
_INI_FILE = lazy_pattern(r"\.ini$|(?:^|/)\.(?:gitconfig|editorconfig|npmrc|pylintrc)$", re.I)
_NOT_INI = lazy_pattern(rf"(?P<comment>^[ \t]*[#;].*|(?<=\s)[#;].*)|{_CONFIG_STRING}", re.M)
_SCRIPT_FILE = lazy_pattern(r"\.(?:sh|bash|zsh)$|(?:^|/)(?:Makefile|Dockerfile|justfile)$")
_KEYWORDS = frozenset(
    "any async await class const debugger default defer del delete do enum eval exec export final"
    " finally global go goto if interface lambda let match namespace new nonlocal object panic"
    " print raise return select static switch throw try type unsafe var void while with"
    " yield".split()
)


def uses_as_code(word: str, text: str, file: str) -> int:
    """Return how often a file's text uses a word as code."""
    if word not in text or is_prose(file) or may_only_describe(file):
        return 0
    imports = "\n".join(_IMPORT.findall(_NOT_CODE.sub(lambda match: match["line"] or " ", text)))
    code = _IMPORT.sub("", _NOT_CODE.sub(lambda match: " " if match["comment"] else '""', text))
    is_statement = word in _KEYWORDS or _SCRIPT_FILE.search(file) is not None
    use = _use(word, is_statement=is_statement)
    in_imports = re.findall(rf"(?<![\w-]){word}(?![\w-])", imports)
    return len(use.findall(code)) + len(in_imports)


def may_only_describe(file: str) -> bool:
    """Return whether commands in a file may only be described, as in a file of YAML."""
    return _YAML_FILE.search(file) is not None


def is_prose(file: str) -> bool:
    """Return whether a file contains prose."""
    return _PROSE_FILE.search(file) is not None


def without_comments(text: str, file: str) -> str:
    """Return a file's text without its comments; "" for a file of prose."""
    if is_prose(file):
        return ""
    not_code = _NOT_CODE
    if _CONFIG_FILE.search(file):
        not_code = _NOT_CONFIG
    elif _INI_FILE.search(file):
        not_code = _NOT_INI
    return not_code.sub(lambda match: " " if match["comment"] else match[0], text)


@cache
def _use(word: str, *, is_statement: bool) -> re.Pattern[str]:
    """Return an expression for the uses of a word in code without comments and strings."""
    whole = rf"(?<![\w-]){word}(?![\w-])"
    uses = [
        rf"{whole}[!?]?(?:<[^<>\n]*>)?\(",
        rf"(?:[\w)\]\"?]\.|::|->[ \t]*|\bas[ \t]+|<){whole}",
        rf"{whole}(?:\.|::|->|\[\])\w?",
        rf"<[^<>\n]{{0,80}},[ \t]*{whole}(?=[ \t]*[,>\[|])",
        rf"[\w?)\]\"][ \t]*:[ \t]*{whole}(?=[ \t]*(?:[,;)=|&>}}{{\[\]]|$))",
    ]
    if is_statement:
        start = r"(?:^|[;{}(=>]|\breturn|\bexport|\basync)[ \t]*"
        uses.append(rf"{start}{whole}(?=[ \t]+[\w\"'({{\[*&$@<]|[ \t]*[{{;:]|[ \t]*$)")
    return re.compile("|".join(uses), re.M)
