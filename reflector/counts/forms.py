"""The forms of acts that a rule describes in words: a change of a kind of files, a definition with
a prefix, an import inside a function.

Invariant: a form counts only if the written code shows it completely.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reflector.text.lazy import lazy_pattern

BEFORE_FILE = "before a file"
DEED = "deed"
FILE = "file"
NEW_FILE = "new file"
NEW_TEST = "new test"
NAME = "name"
PROGRAM = "program"
SCRIPT = "script"
VERSIONS = "any version"
IMPORT = "import"
READ = "read"
STAGED = "staged"
BARE = "bare"
SUPPRESSED = "suppressed"
WITH = "with an option"
WITHOUT = "without an option"
#: The forms that only the course of a session shows.
UNREAD = "unread"
READ_FIRST = "read first"
FAILED_COMMIT = "commit after a failed check"
FAILED_PUSH = "push after a failed check"
PASSED = "commit after a check"
LEFT = "left"
OF_COURSE = (UNREAD, READ_FIRST, FAILED_COMMIT, FAILED_PUSH, PASSED, LEFT)

#: The forms of tokens that are commands.
COMMANDS = (BARE, BEFORE_FILE, DEED, SCRIPT, WITH, WITHOUT)
#: The forms of deeds with a file that a rule names.
OF_FILES = (FILE, NEW_FILE, NEW_TEST, READ, STAGED)

_EDITS = (
    r"(?:hand[- ]?)?(?:edit|modify|change|touch|update|alter|overwrite|create|write)(?:ing)?"
    r"|(?:modify|chang|updat|creat|writ)ing"
)
_EDIT = lazy_pattern(rf"\b(?:{_EDITS})\b", re.IGNORECASE)
#: The end of the words before a file, perhaps after other files: "`a`, `b` or ".
_BEFORE_FILE = r"(?:`[\s,]*|(?:or|and)\s+)*\Z"
#: The creation of files in a folder, or of one file.
_NEW = lazy_pattern(
    r"\b(?:(?:creat|writ|plac|stor|sav)(?:e|ing)|add(?:ing)?|put(?:ting)?)\s+"
    r"(?:(?:an?|any|new|more|the|other|unit|source)\s+)*"
    r"(?P<files>files?|anything|(?P<tests>(?:tests?|specs?)(?:\s+files?)?))\s+"
    rf"(?:in|into|to|under|inside|within)\s+(?:the\s+)?{_BEFORE_FILE}"
    r"|\b(?:creat(?:e|ing)|add(?:ing)?)\s+"
    rf"(?:(?:an?|any|new|more|the|other|files?|named|called)\s+)*{_BEFORE_FILE}",
    re.IGNORECASE,
)
_INTO = lazy_pattern(
    r"\b(?:files?|anything|tests?|specs?)\s+(?:in|into|to|under|inside|within)\s+(?:the\s+)?\Z",
    re.IGNORECASE,
)
_FOLDER_AFTER = lazy_pattern(r"`?\s+(?:folders?|director(?:y|ies)|dirs?)\b", re.IGNORECASE)
#: A place for tests, and a place where they must not be.
_TESTS_PLACED = lazy_pattern(
    r"\W*(?:always\s+)?(?:(?:put|place|keep|write|add)\s+)?(?:(?:all|the|unit|new)\s+)*tests?\b",
    re.I,
)
_NOT_IN = lazy_pattern(
    r"\W*(?:never|not)(?:\s+(?:go|live|belong))?\s+(?:in|into|under|inside)\s+(?:the\s+)?", re.I
)
#: The beginning of a rule whose subject is a file, and words after it that forbid a deed with it:
#: "`a/` is generated: never edit it".
_SUBJECT = lazy_pattern(
    r"\W*(?:(?:the|all|any|(?:auto-?)?generated)\s+)*"
    r"(?:(?:files?|code|everything|anything)\s+(?:in|under|inside)\s+)?`?",
    re.IGNORECASE,
)
_LATER = lazy_pattern(
    r"`?(?:\s+(?:folders?|files?))?\s*(?::|\s(?:is|are|contains?|must|should|may)\b)[^`]{0,60}?"
    r"(?:\b(?:never|do not|don['’]?t)(?:\s+(?:ever|manually|directly))*"
    r"\s+(?:edit|modify|change|touch|(?P<read>read|open|print))\s+(?:it|them|these|those)"
    r"|\b(?:not|never)\s+be\s+(?:(?:manually|directly)\s+)?"
    r"(?:edited|modified|changed|touched|(?P<be_read>read|opened|printed)))"
    r"(?:\s+(?:files?|by\s+hand|manually|directly|yourself))*\s*"
    r"(?:\Z|[.;,:!(—–](?!\s*(?:unless|except|if|when|but|only)\b))",
    re.IGNORECASE,
)
#: What a rule forbids to do with a file.
_DEEDS_WITH_FILES = {
    FILE: _EDIT,
    READ: lazy_pattern(
        r"\b(?:read|open|print|cat|view|access|display|show|expose)(?:ing)?\b"
        r"|\blook(?:ing)? (?:at|in|into|inside)\b",
        re.IGNORECASE,
    ),
    STAGED: lazy_pattern(r"\b(?:commit|stage|staging|check in)(?:ting)?\b", re.IGNORECASE),
}
#: Words around a path that do not restrict a rule against changes of it.
_ANY_PART = lazy_pattern(
    r"\b(?:anything|contents?|of|under|inside|within|below|in|to|(?:auto-?)?generated)\b",
    re.IGNORECASE,
)
#: A rule against changes by hand, with the files between the words.
_BY_HAND = lazy_pattern(
    r"\b(?:never|not|don['’]?t)(?:[ \t]+(?:manually|directly|ever|hand[- ]?))*[ \t]*"
    rf"(?:{_EDITS})\b"
    r"(?P<files>[^.:;`]*)",
    re.IGNORECASE,
)
_HAND = lazy_pattern(r"\b(?:manually|by hand|directly|hand[- ]?edit)", re.IGNORECASE)
#: Kinds of files that programs write, and their patterns.
_KINDS_OF_FILES = {
    r"\bsnapshots?\b": "*.snap",
    r"\block[- ]?files?\b": "*.lock",
}
_NAMES = lazy_pattern(r"\b(?:prefix|name|call|start|begin)(?:ed|ing|s)?\b", re.IGNORECASE)
#: A rule against imports inside of functions.
_IMPORTS_AT_TOP = lazy_pattern(
    r"\bimports?\b[^.:;]*\btop\b|\b(?:no|never|avoid|don['’]?t)\b[^.:;]*\b(?:local|inline|nested"
    r"|function[- ]level|inside (?:of )?functions?)\b[^.:;]*\bimport",
    re.IGNORECASE,
)
_LOCALLY = lazy_pattern(
    r"\b(?:local(?:ly)?|inline|nested|function[- ]level|in(?:side)?(?: of)? (?:a )?functions?)\b",
    re.IGNORECASE,
)
_BARE_EXCEPT = lazy_pattern(
    r"\b(?:never|no|not|avoid|don['’]?t)\b[^.:;]{0,30}\bbare [`*]*except", re.IGNORECASE
)
_IMPORT_EXCEPTION = lazy_pattern(r"\b(?:unless|except|circular|lazy|prefer)\b", re.IGNORECASE)
_SUPPRESSES = lazy_pattern(
    r"\b(?:suppress|silence|disable|ignore|mute|turn off|switch off)(?:ing)?\b"
    r"|\b(?:silenc|disabl|ignor|mut)ing\b",
    re.IGNORECASE,
)
_CHECK_AFTER = lazy_pattern(
    r"`?\s+(?:(?:security|lint|clippy|compiler|eslint|type)\s+)?"
    r"(?:lint|rule|warning|check|finding)s?\s*(?:\Z|[.;:!,—–(])",
    re.IGNORECASE,
)
#: A comment or a setting that suppresses a check.
_SUPPRESSION = (
    r"(?:ignore|disable|\[(?:allow|expect)\(|noqa|nolint|nosec|suppress)[^\n;{}]{0,80}?CHECK"
    r"|CHECK[\"']?\s*[:=]\s*\[?\s*(?:[\"']?(?:off|allow|ignore|none|false)\b|0\b)"
)
_DEFINES = (
    r"\b(?:fn|def|func|fun|function|class|struct|enum|trait|interface|type|const|let|var|val)[ \t]+"
)
#: The beginning of a function and an import, by the ending of the file.
_FUNCTIONS = {
    ".rs": (r"(?:[\w()]+ +)*fn\b.*\{", r"use [\w:]"),
    ".py": (r"(?:async +)?def\b", r"(?:import|from \S+ import) "),
}


def ban_after(before: str, after: str) -> str:
    """Return a ban in other words if a rule forbids a deed with a file after it names the file; ""
    if it does not.
    """
    later = _LATER.match(after) if _SUBJECT.fullmatch(before) else None
    is_read = later is not None and (later["read"] or later["be_read"])
    return "" if later is None else "never read" if is_read else "never edit"


def deeds_with_file(words: str, before: str, file: str) -> list[str]:
    """Return the forms of the deeds that these words forbid to do with a file. Nothing new can be
    in a file that is not a folder.

    before  the words before the file in its sentence
    """
    if _NOT_IN.fullmatch(words) and _TESTS_PLACED.match(before):
        return [NEW_TEST]
    new = _NEW.search(words)
    if new and new["files"]:
        is_folder = file.endswith(("/", "*"))
        return [NEW_TEST if new["tests"] else NEW_FILE] * is_folder
    if new:
        return [NEW_FILE]
    return [form for form, deed in _DEEDS_WITH_FILES.items() if deed.search(words)]


def names_folder(reach: str, after: str) -> bool:
    """Return whether these words around a name show that it is the name of a folder."""
    is_place = _INTO.search(reach) or _NOT_IN.fullmatch(reach)
    return bool(is_place) or _FOLDER_AFTER.match(after) is not None


def without_deed(words: str, form: str) -> str:
    """Return words against a deed with files without those that do not restrict it."""
    if form == SUPPRESSED:
        return _SUPPRESSES.sub("", words)
    if form in (NEW_FILE, NEW_TEST):
        return "" if _NOT_IN.fullmatch(words) else _NEW.sub("", words)
    if form not in _DEEDS_WITH_FILES:
        return words
    for deed in _DEEDS_WITH_FILES.values():
        words = deed.sub("", words)
    return _ANY_PART.sub("", words)


def is_suppressed(reach: str, after: str) -> bool:
    """Return whether a rule forbids to suppress the check that is named between these words."""
    return _SUPPRESSES.search(reach) is not None and _CHECK_AFTER.match(after) is not None


def names(text: str) -> bool:
    """Return whether a rule is about the names of definitions."""
    return _NAMES.search(text) is not None


def forms_of(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the form of each act that a rule forbids without naming a token."""
    for rule in _BY_HAND.finditer(text):
        if _HAND.search(rule[0]):
            for kind, pattern in _KINDS_OF_FILES.items():
                if re.search(kind, rule["files"], re.IGNORECASE):
                    yield pattern, FILE
    if _BARE_EXCEPT.search(text):
        yield "except:", ""
    is_local = _IMPORTS_AT_TOP.search(text) and _LOCALLY.search(text)
    if is_local and not _IMPORT_EXCEPTION.search(text):
        yield "import in a function", IMPORT


def places_of(form: str, name: str, text: str, file: str) -> list[int]:
    """Return the indexes at which the text of a file has a form: a definition, the suppression of a
    check, or an import in a function.

    name  the check that is suppressed, or the beginning of the defined name; unused for an import
    """
    if form == IMPORT:
        return list(_local_imports(text, file))
    if form == SUPPRESSED:
        expression = _SUPPRESSION.replace("CHECK", rf"(?<![\w-]){re.escape(name)}(?![\w-])")
    else:
        expression = rf"{_DEFINES}{re.escape(name)}\w"
    return [match.start() for match in re.finditer(expression, text)]


def _local_imports(text: str, file: str) -> Iterator[int]:
    """Yield the indexes of imports in the functions of a text. Indented lines are a body."""
    header, imported = next(
        (found for ending, found in _FUNCTIONS.items() if file.endswith(ending)), ("", "")
    )
    place = 0
    depth: int | None = None
    for line in text.splitlines(keepends=True) if header else ():
        code = line.lstrip()
        indent = len(line) - len(code)
        if code and depth is not None and indent <= depth:
            depth = None
        if depth is None:
            depth = indent if re.match(header, code) else None
        elif re.match(imported, code):
            yield place
        place += len(line)
