"""Commands in a line of a shell: where one begins, the script that it runs, and forced pushes.

Invariant: a command that only names a script, such as `cat tools/lint.js`, does not run it.
"""

from __future__ import annotations

import re

from reflector.counts.globs import glob_expression
from reflector.text.lazy import lazy_pattern

#: Programs that run another program, which cannot be the value of an option. Otherwise, a command
#: that repeats them could be read in many ways, and the search would not end.
_STARTERS = (
    r"(?:[^\s;&|]*/)?(?:sudo|env|time|xargs|nohup|nice|exec|timeout|node|deno|bun|tsx|ts-node"
    r"|python[\d.]*|ruby|perl|php|(?:ba|z|da)?sh|pwsh|uv|poetry|pdm|hatch|pipenv|rye|bundle|mise"
    r"|npx|bunx|source|\.|docker|podman)(?=\s)"
)
_VALUE = rf"(?: +(?!{_STARTERS})[^-\s;&|][^\s;&|]*)??"
#: Options between a program and its first argument, each with or without a value.
OPTIONS = rf"(?: +-[^\s;&|]+{_VALUE})*?"
#: The characters before a command. A line after a backslash is not a command of its own.
_SHELL_WORDS = (
    rf"\b(?:(?:sudo|env|time|xargs|nohup|nice){OPTIONS}|exec|then|do|else|if|while|RUN"
    r"|timeout +\S+)\b"
)
_IN_SHELL = r"\b(?:ba|z|da)?sh +-[a-z]*c +[\"']"
_ASSIGNED = r"(?:[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|[^\s'\"])* +)*"
BEGIN = rf"(?:(?<!\\\n)^|[;&|(`{{]|{_SHELL_WORDS}|{_IN_SHELL})[ \t]*{_ASSIGNED}"
#: The folder of a program, as in `.venv/bin/python`.
FOLDER = r"(?:[^\s;&|()\"'<>`=]*/)?"

#: A program that runs a script. With some options, it only checks the script or runs a module.
_INTERPRETER = (
    r"(?:(?:[^\s;&|]*/)?(?:node|deno +run|bun(?: +run)?|tsx|ts-node|python[\d.]*|ruby|perl|php"
    r"|bash|zsh|dash|sh|pwsh)|(?:uv|poetry|pdm|hatch|pipenv|rye) +run|(?:bundle|mise) +exec"
    r"|npx|bunx|source|\.|(?:docker|podman)(?: +compose)? +(?:exec|run)(?: +-\S+)* +[\w./:-]+)"
)
RUNNING_OPTIONS = (
    r"(?: +-(?!(?:[cemn]|-check|-eval|-print|-version)(?![\w-]))[^\s;&|]*"
    rf"{_VALUE})*?"
)
_INTERPRETERS = rf"(?:{_INTERPRETER}{RUNNING_OPTIONS} +)*"
_ENDING = r"\.(?:[cm]?[jt]sx?|py|sh|bash|zsh|fish|rb|pl|php|ps1)"
_NAME = r"[\w@-][\w.@-]*"
#: A character of a file's name in a command.
_NAME_SIGN = r"[^\s/\"'`;&|()]"
#: Folders that contain programs without an ending.
_PROGRAM_FOLDER = r"(?:bin|scripts?|tools?|hack|ci)"
_PATH = (
    rf"(?:(?:{_NAME}/|\.{_NAME}/)*{_NAME}{_ENDING}"
    rf"|(?:{_NAME}/)*{_PROGRAM_FOLDER}/(?:{_NAME}/)*[\w-]+)(?![\w./*-])"
)
_SCRIPT = lazy_pattern(
    rf"(?P<interpreter>{_INTERPRETERS})(?:\./)?(?P<command>{_PATH}(?P<arguments>(?: +\S+)*))"
)
#: Other programs run the files of tests.
_TEST_FILE = lazy_pattern(r"(?:^|/)test_|[._-](?:test|tests|spec)\.")
_LISTED = r"(?:`[^`\n]*`\s*(?:,|and|or|then|,\s*(?:and|or|then))\s+)*"
_ASKED_TO_RUN = lazy_pattern(
    r"(?<![\w-])(?:(?:re-?)?run(?:ning)?|execut(?:e|ing)|invok(?:e|ing)|ejecut(?:a|ar|e)"
    r"|rode)[ \t]+(?:(?:also|always|both|first|the|script)[ \t]+)*" + _LISTED + r"`?\Z",
    re.IGNORECASE,
)
#: After these words, only a file that is not imported is a script.
_ASKED_TO_USE = lazy_pattern(
    r"(?<![\w-])(?:use|using|via|through|call)[ \t]+(?:the[ \t]+)?`?\Z", re.I
)
_PROGRAM = lazy_pattern(rf"\.(?:sh|bash|zsh|fish|ps1)$|^(?:{_NAME}/)*{_PROGRAM_FOLDER}/")
_IS_RUN = lazy_pattern(
    r"`?(?:\s*(?:,|and)\s+`[^`\n]*`)*\s+(?:script\s+)?(?:is|are|was|has been|be|must be|should be)"
    r"\s+(?:always\s+|first\s+)?(?:run|executed)\b",
    re.IGNORECASE,
)

_FORCE = r"--force(?![\w-])|-[a-zA-Z]*f[a-zA-Z]*(?![\w-])|[\"']?\+\w"
_PUSH = rf"{BEGIN}git{OPTIONS} +push(?:\\\n|[^;&|\n])*?\s"
#: A push with force, with and without `--force-with-lease`.
FORCED_PUSH = rf"{_PUSH}(?:{_FORCE}|--force(?:-with-lease(?:=\S*)?)(?![\w-]))"
PLAIN_FORCED_PUSH = rf"{_PUSH}(?:{_FORCE})"

_STRING = lazy_pattern(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'", re.DOTALL)
#: What may be between the end of a command and the name of the next program.
_BEFORE_PROGRAM = rf"\s*(?:(?:export|{_SHELL_WORDS})[ \t]+)*{_ASSIGNED}{FOLDER}"
_PROGRAM_PLACE = lazy_pattern(rf"{_BEFORE_PROGRAM}[\"']?")
#: Programs that only read, search or print. Their arguments run nothing.
_READER = lazy_pattern(
    rf"{_BEFORE_PROGRAM}(?:rg|[efz]?grep|ag|ack|bat|cat|less|more|head|tail|sed(?! +-[a-zA-Z]*i)"
    r"|[gm]?awk|cut|diff|echo|fdfind|fd|file|find|jq|yq|ls|man|nl|printf|sort|stat|strings|tree"
    r"|type|uniq|wc|which"
    rf"|git{OPTIONS} +(?:blame|cat-file|diff|grep|log|ls-files|rev-list|rev-parse|shortlog|show"
    rf"|status)|gh{OPTIONS} +(?:search|\w+ +(?:list|view)))(?![\w-])"
)
#: The beginning of a program in a string, as in `python -c "…"`.
_IN_SCRIPT = lazy_pattern(r"\s(?:-[a-z]*[ce]|--eval)[ =]*\"_*\Z")
_COMMAND_END = lazy_pattern(r"(?<!\\)\n|[;&|`]|(?<![^\s$;&|])\(")


def runs_at(command: str, start: int, end: int, *, is_name: bool) -> bool:
    """Return whether a command runs the words from `start` to `end`, or passes them to a program
    that may act on them.

    is_name  whether the words are a name in code. As an argument, such a name only selects
             something, as in `pytest -k name`
    """
    plain = _STRING.sub(lambda text: f'"{"_" * (len(text[0]) - 2)}"', command)
    ends = [match.end() for match in _COMMAND_END.finditer(plain, 0, start)]
    before = plain[ends[-1] if ends else 0 : start]
    if not is_name:
        return _READER.match(before) is None
    is_set = command.startswith("=", end) or _IN_SCRIPT.search(before)
    is_argument = _PROGRAM_PLACE.fullmatch(before) is None
    return not is_argument or bool(is_set and _READER.match(before) is None)


#: Programs that print a file, and programs that search for a pattern in it.
_PRINTERS = (
    r"(?:cat|bat|less|more|head|tail|nl|sed|awk|cut|sort|strings|xxd|base64|jq|source|\.|vim?|nano)"
)
_SEARCHERS = rf"(?:[ef]?grep|rg|ag){OPTIONS} +[^-\s]\S*"
#: Copies of a file that do not contain its secrets.
_EXAMPLES = r"(?:\.(?!example|sample|template|dist)[\w-]+)*"


def file_expression(path: str) -> str:
    """Return an expression for a file of a rule as an argument. `.env` has variants."""
    expression = glob_expression(path, _NAME_SIGN)
    if path.endswith("/"):
        return rf"{expression}/"
    variants = _EXAMPLES if path.endswith(".env") else ""
    return rf"{expression}{variants}(?![\w.-])"


def reading_of(path: str) -> str:
    """Return an expression for the commands that print a file or search in it."""
    readers = rf"(?:{_PRINTERS}|{_SEARCHERS})(?=\s)"
    return rf"{BEGIN}{readers}[^;&|\n>]*?(?<=[\s\"'/]){file_expression(path)}"


def staging_of(path: str) -> str:
    """Return an expression for the commands that add a file to a commit."""
    file = file_expression(path)
    return rf"{BEGIN}git{OPTIONS} +(?:add|stage|commit)(?=\s)[^;&|\n]*?(?<=[\s\"'/]){file}"


def script_in(code: str, before: str, after: str) -> str:
    """Return the path of the script that a rule's code runs, with its arguments; "" without one. A
    path alone is only a script if the words before or after it ask to run it.
    """
    script = _SCRIPT.fullmatch(code)
    if script is None or _TEST_FILE.search(script["command"].partition(" ")[0]):
        return ""
    is_command = script["interpreter"] or script["arguments"]
    if _ASKED_TO_USE.search(before) and _PROGRAM.search(script["command"]):
        return script["command"]
    is_run = is_command or _ASKED_TO_RUN.search(before) or _IS_RUN.match(after)
    return script["command"] if is_run else ""


def run_of(script: str) -> str:
    """Return an expression for the commands that run a script. `script` is its path, with the
    arguments that the command must have.
    """
    path, *arguments = map(re.escape, script.split())
    folder, _, name = path.rpartition("/")
    at_path = rf"[\"']?(?:[^\s;&|()\"'<>]*/)?{path}"
    into_folder = rf"\bcd +[\"']?(?:[^\s;&|]*/)?{folder}/?[\"']?\s*(?:&&|;)\s*"
    within = rf"{into_folder}{_INTERPRETERS}(?:\./)?{name}"
    at_begin = rf"{BEGIN}{_INTERPRETERS}{at_path}"
    places = rf"(?:{at_begin}|{within})" if folder else at_begin
    # Each argument is looked for from the same place, or the time would grow with a power of them.
    found = "".join(rf"(?=[^;&|\n]*? {argument}{_word_end(argument)})" for argument in arguments)
    return rf"{places}[\"']?(?![\w./:-]*\w){found}"


def _word_end(word: str) -> str:
    return r"(?![\w-])" if word[-1].isalnum() else ""
