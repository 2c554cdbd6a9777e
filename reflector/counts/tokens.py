"""The tokens of a rule: commands, paths, options and identifiers that a call can contain word for
word.

Invariant: the tokens depend on the rule's text and titles alone, in the order of the text, because
events name them by their place. A token is `negated` if the rule speaks against it: "use `a`, not
`b`".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reflector.counts.around import Around, around
from reflector.counts.clauses import conditions_of
from reflector.counts.deeds import SAID, deed_in, is_banned, is_in_words
from reflector.counts.forms import (
    BARE,
    BEFORE_FILE,
    DEED,
    LEFT,
    NAME,
    PROGRAM,
    SCRIPT,
    SUPPRESSED,
    VERSIONS,
    WITH,
    WITHOUT,
    ban_after,
    deeds_with_file,
    forms_of,
    is_suppressed,
    names,
    names_folder,
)
from reflector.counts.orders import is_of_main, leaves_code, orders_in, removes_code
from reflector.counts.scopes import scope_of_token
from reflector.counts.shell import script_in
from reflector.counts.spellings import versions_of
from reflector.counts.subjects import subjects_in
from reflector.counts.token import KEYWORDS, PATH, PROGRAMS, Token
from reflector.text.lazy import lazy_pattern

#: Events have one bit for each token.
MOST_TOKENS = 16
#: The most characters of a rule that are read. Longer ones are not rules that a call can show.
_MAX_RULE = 1_000
_MIN_CHARACTERS = 3
_MOST_CHARACTERS = 120

_SPAN = r"(?<!`)`(?P<span>[^`\n]+)`(?!`)"
_OPTION = r"--[a-z][\w-]+"
_IDENTIFIER = (
    r"[A-Za-z]\w*_\w+|[a-z][a-z\d]+[A-Z]\w+|(?:[A-Z][a-z\d]+){2,}\b|[a-zA-Z]\w+(?:\.\w+)*\(\)"
)
#: Programs whose names are also English words, so that only backquotes make them tokens.
_WORDS = frozenset("find go just kubectl less make mise node rake tail task tee".split())
_PROGRAM = "|".join(sorted(PROGRAMS - _WORDS, key=len, reverse=True))
#: Between a program to use and one to avoid.
_CHOICE = r",? (?:(?:and |but )?(?:not|never)|instead of|rather than) "
#: Programs without backquotes, as in "use rg, not grep".
_CHOSEN = (
    rf"(?:{_PROGRAM})(?={_CHOICE}`?(?:{_PROGRAM})\b)"
    r"|(?:(?<=not )|(?<=never )|(?<=instead of )|(?<=rather than )|(?<=ever use )|(?<=n't use )"
    r"|(?<=not use )|(?<=void )|(?<=, use )|(?<=plain )|(?<=bare )|(?<=system )|(?<=global )"
    r"|(?<=-wide ))"
    rf"(?:{_PROGRAM})(?=\W*\Z|[,;:)]|\.(?!\w)| (?:in|for|to|when|here|directly)\b)"
)
#: A ban of several programs: "never npm or yarn".
_LISTED = lazy_pattern(
    r"\b(?P<ban>not|never|instead of|rather than) "
    rf"(?P<list>(?:{_PROGRAM})(?:(?:,| or|, or| nor) (?:{_PROGRAM})\b)+)"
)
_TOKEN = lazy_pattern(
    rf"{_SPAN}|(?<![\w/.@-])(?P<bare>{_OPTION}|{PATH}|(?i:{SAID})(?!\w)|{_IDENTIFIER}|{_CHOSEN})"
)
#: Keywords that are not frequent words of English.
_NOUNS = frozenset("async await const enum impl struct trait typedef".split())
#: Names with a capital inside that are not identifiers, and code that other rules name.
_NAMES = frozenset(
    "GitHub GitLab JavaScript TypeScript CoffeeScript PostgreSQL MongoDB GraphQL DevOps YouTube"
    " LinkedIn macOS NumPy PyTorch FastAPI OpenAI ChatGPT OpenCode StackOverflow WordPress"
    " CloudFlare DynamoDB BigQuery LaTeX PowerShell".split()
) | {"Co-Authored-By", "except", "except:"}
#: An ending of file names, not a file such as `.env`.
_ENDING = lazy_pattern(r"\.(?!env|git)[a-z]{1,5}")
#: The beginning of a part for you to fill in, as in `fix/<issue>`. An attribute such as
#: `#[expect()]` is not one.
_PLACEHOLDER = lazy_pattern(r"[<{…$]|(?<!#)(?<!#!)\[(?!\w+\()|\.\.\.")
#: A folder for you to fill in, as in `src/<name>/a.ts`.
_FOLDER_PLACEHOLDER = lazy_pattern(r"(?<=/)<[\w -]+>(?=/)")
#: A file for you to fill in, as in `uv run <script>`.
_FILE_PLACEHOLDER = lazy_pattern(r"\s*<[\w -]*(?:script|file|path)[\w. -]*>", re.IGNORECASE)

#: The name of a folder, with or without a slash at its end.
_FOLDER = lazy_pattern(r"(?!.*\.\w+\Z)[\w.@-]+(?:/[\w.@-]+)*/?")

_ASKED_TO_RUN = lazy_pattern(r"\brun(?:ning)?[ \t]+(?:the[ \t]+)?`?\Z", re.IGNORECASE)
#: Programs that run a script.
_INTERPRETERS = frozenset("bash bun deno node perl php python python3 ruby sh".split())
#: A command that its option makes acceptable, and a command without arguments.
_WITHOUT = lazy_pattern(
    r"`?\s+without\s+(?:(?:the|passing|using|adding|its?|a|an)\s+)*`(?P<option>--?[a-z][\w-]*)`"
    r"(?:\s+(?:flag|option|argument|set))?(?=\W*\Z|[.;:!,](?:\s|\Z)|\s*[(—–])",
    re.IGNORECASE,
)
_BARE = lazy_pattern(r"\b(?:bare|naked|plain)\s+`?\Z", re.IGNORECASE)
#: The words between commands that are all asked for.
_AND = r"`?[ \t]*(?:,[ \t]*)?(?:and|&&?|then|y|e|,|和|以及|、)[ \t]*(?:then[ \t]+)?`?(?:\./)?"


def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the tokens of a rule in the order of its text, without duplicates."""
    text = _LISTED.sub(_with_each_ban, text[:_MAX_RULE])
    tokens: dict[str, Token] = {}
    conditions = conditions_of(text)
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() < end:
            continue
        place = around(text, match, conditions)
        if option := _option_missing(text, place):
            end = option.end()
            for token in _with_and_without(place, option["option"]):
                tokens[token.form + token.text] = token
            continue
        for written in _texts_of(match):
            is_long = len(written) >= _MIN_CHARACTERS or written in PROGRAMS
            is_allowed_act = not place.negated and is_in_words(written)
            if is_long and written not in _NAMES and not is_allowed_act:
                first, *others = _tokens(place, written)
                tokens.setdefault(first.text, first)
                tokens.update({other.form + other.text: other for other in others})
    formed = [*forms_of(text), *subjects_in(text)]
    forms = [Token(name, negated=True, form=form) for name, form in formed]
    return _with_orders(text, [*forms, *tokens.values()])[:MOST_TOKENS]


def _with_each_ban(listed: re.Match[str]) -> str:
    """Return a list of forbidden programs with the ban before each of them."""
    ban = listed["ban"]
    return ", ".join(f"{ban} {program}" for program in re.split(r"\W+(?:n?or )?", listed["list"]))


def _with_orders(text: str, tokens: Sequence[Token]) -> tuple[Token, ...]:
    """Return the tokens of a rule, first those about the course of a session. If the rule asks for
    a branch, the name of the main branch says nothing more.
    """
    orders = [Token(name, negated, form=form) for name, form, negated in orders_in(text)]
    needs_branch = any(order.form == DEED for order in orders)
    others = [token for token in tokens if not (needs_branch and is_of_main(token.text))]
    return (*dict.fromkeys(orders), *others)


def _option_missing(text: str, around: Around) -> re.Match[str] | None:
    """Return the match of the option without which a rule forbids a command; None without one."""
    written = _text_of(around.span)
    is_command = written in PROGRAMS or Token(written, negated=True).is_command
    return _WITHOUT.match(text, around.end) if around.negated and is_command else None


def _with_and_without(around: Around, option: str) -> Iterator[Token]:
    """Yield the tokens of "never run `a` without `-b`": it is followed with the option."""
    command = Token(f"{_text_of(around.span)} {option}", negated=True, form=WITHOUT)
    command = command._replace(scope=scope_of_token(command, around))
    yield command
    yield command._replace(negated=False, form=WITH)


def _tokens(around: Around, written: str) -> list[Token]:
    """Return the tokens of a text: one for each deed with a file that the rule forbids, or one."""
    is_named_first = around.span != "" and not around.negated
    ban = ban_after(around.text[: around.start], around.after) if is_named_first else ""
    reach = around.reach if around.negated else ban
    file = _file_named(around, written, reach)
    deeds = [file._replace(form=form) for form in deeds_with_file(reach, around.before, file.text)]
    if not (deeds and (file.is_path or file.is_pattern)):
        return [_token(around, written)]
    if ban:
        return deeds
    return [deed._replace(scope=scope_of_token(deed, around)) for deed in deeds]


def _file_named(around: Around, written: str, reach: str) -> Token:
    """Return a token of the file that a text names. A folder gets a slash at its end."""
    is_folder = names_folder(reach, around.after) and _FOLDER.fullmatch(written)
    return Token(f"{written.rstrip('/')}/" if is_folder else written, negated=True)


def _token(around: Around, written: str) -> Token:
    deed = deed_in(written, around.text) if around.negated else None
    if deed:
        is_command = deed.is_milder_in(around.text)
        if is_banned(deed, around):
            return Token(deed.name, negated=True, form="" if is_command else DEED)
        if not around.span:
            return Token(deed.name, negated=True, scope="part", form=DEED)
    if removes_code(written, around.before, around.after):
        return Token(written, negated=True, form=LEFT)
    script = script_in(written, around.before, around.after)
    token = Token(script or written, around.negated)
    token = token._replace(form=SCRIPT if script else _form_of(token, around))
    return token._replace(scope=scope_of_token(token, around))


def _form_of(token: Token, around: Around) -> str:
    placeholder = _PLACEHOLDER.search(around.span)
    if placeholder and _FILE_PLACEHOLDER.match(around.span, placeholder.start()):
        is_program = token.text.partition(" ")[0] in PROGRAMS
        return BEFORE_FILE if is_program else ""
    if token.negated and leaves_code(token.text, around.reach):
        return LEFT
    program = token.text.partition(" ")[0]
    if token.is_program and not token.negated and _ASKED_TO_RUN.search(around.before):
        return PROGRAM
    if token.negated and token.text in _INTERPRETERS and "script" in around.text:
        return BEFORE_FILE
    if token.negated and is_suppressed(around.reach, around.after):
        return SUPPRESSED
    if token.negated and " " in token.text and _BARE.search(around.before):
        return BARE
    if token.negated and _is_any_version(program, around.text):
        return VERSIONS
    return NAME if re.fullmatch(r"[A-Za-z]\w*_", token.text) and names(around.text) else ""


def _is_any_version(program: str, text: str) -> bool:
    """Return whether a rule means each version of a program, because it names no other one."""
    is_known = versions_of(program) != ()
    other = rf"{program}\d|(?:-m|npx|bunx|npm|yarn|exec|dlx) {program}\b"
    return is_known and re.search(other, text) is None


def are_all_asked_for(text: str, tokens: Sequence[Token]) -> bool:
    """Return whether a rule asks for all of its commands: "run `a` and `b`"."""
    named = [token for token in tokens if token.is_command and not token.negated]
    joined = _AND.join(re.escape(token.text) for token in named)
    return len(named) > 1 and re.search(joined, text) is not None


def words_mentioned(text: str, tokens: Sequence[Token]) -> set[str]:
    """Return the words of a rule's tokens, and the keywords of programming languages in it."""
    words = {word for token in tokens for word in re.findall(r"\w+", token.text)}
    keywords = _NOUNS.intersection(re.findall(r"\w+", text))
    return {word for word in words if len(word) >= _MIN_CHARACTERS} | keywords


def _texts_of(match: re.Match[str]) -> list[str]:
    """Return the texts of a match: each of the commands that `&&` joins."""
    return [_text_of(part) for part in (match["bare"] or match["span"]).split(" && ")]


def _text_of(written: str) -> str:
    """Return a text without a part to fill in; "" if nothing else is left.

    For a function, only its name and the bracket remain, because calls have arguments.
    """
    fixed = _PLACEHOLDER.split(_FOLDER_PLACEHOLDER.sub("*", written), maxsplit=1)[0]
    if fixed.endswith("()]"):
        fixed = fixed.removesuffix("]")
    token = " ".join(fixed.removesuffix(")").split()).rstrip("\"'=,;-")
    if _ENDING.fullmatch(token):
        return f"*{token}"
    is_word = any(map(str.isalnum, token))
    if fixed != written and (token in KEYWORDS or (token in PROGRAMS and " -" in written)):
        return ""  # it stands for too many commands
    return token if is_word and len(token) <= _MOST_CHARACTERS else ""
