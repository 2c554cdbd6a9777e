"""The tokens of a rule: commands, paths, options and identifiers that a call can contain word for
word.

Invariant: the tokens depend on the rule's text alone, in the order of the text, because events
name them by their place. A token is `negated` if the rule speaks against it: "use `a`, not `b`".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from reflector.counts.clauses import (
    Clause,
    conditions_of,
    is_asked_for,
    is_example,
    is_for_a_case,
    reaches,
    without_code,
)
from reflector.counts.forms import (
    BEFORE_FILE,
    FILE,
    FORCED,
    IMPORT,
    NAME,
    SCRIPT,
    edits,
    forms_of,
    names,
    without_edits,
)
from reflector.counts.shell import script_in

#: Events have one bit for each token.
MOST_TOKENS = 16
_MIN_CHARACTERS = 3
_MOST_CHARACTERS = 120

_SPAN = r"(?<!`)`(?P<span>[^`\n]+)`(?!`)"
_OPTION = r"--[a-z][\w-]+"
_PATH = (
    r"(?:[\w.*@-]+/)+(?:[\w*@-]*\.[\w*]+|(?![\w*]))|\*\.\w+"
    r"|[\w-]+\.(?:py|[jt]sx?|rs|go|md|json|ya?ml|toml|sh)\b"
)
_IDENTIFIER = (
    r"[A-Za-z]\w*_\w+|[a-z][a-z\d]+[A-Z]\w+|(?:[A-Z][a-z\d]+){2,}\b|[a-zA-Z]\w+(?:\.\w+)*\(\)"
)
#: Programs that a shell runs. A rule about one is about commands, not about code.
_PROGRAMS = frozenset(
    "apt awk brew bun bundle bunx cargo cat cmake conda cp curl deno docker dotnet find"
    " flake8 gh git go gradle grep helm hg jest jq just kubectl less ls make mise mocha mv mvn"
    " mypy node nox npm npx nvm perl php pip pip3 pipenv pipx pnpm podman poetry pylint pytest"
    " python python2 python3 rake rg rm rsync ruby ruff rustc sed ssh sudo svn tail task tee"
    " terraform tox tsc tsx uv uvx vitest wget yarn".split()
)
#: Programs whose names are also English words, so that only backquotes make them tokens.
_WORDS = frozenset("find go just kubectl less make mise node rake tail task tee".split())
_PROGRAM = "|".join(sorted(_PROGRAMS - _WORDS, key=len, reverse=True))
#: Between a program to use and one to avoid.
_CHOICE = r",? (?:(?:and |but )?(?:not|never)|instead of|rather than) "
#: Programs without backquotes, as in "use rg, not grep".
_CHOSEN = (
    rf"(?:{_PROGRAM})(?={_CHOICE}`?(?:{_PROGRAM})\b)"
    r"|(?:(?<=not )|(?<=never )|(?<=instead of )|(?<=rather than ))"
    rf"(?:{_PROGRAM})(?=\W*\Z|[,;:)]|\.(?!\w)| (?:in|for|to|when|here)\b)"
)
_FORCE_PUSH = r"(?i:force[- ]?push(?:ing|es)?)\b"
_TOKEN = re.compile(
    rf"{_SPAN}|(?<![\w/.@-])(?P<bare>{_OPTION}|{_PATH}|{_FORCE_PUSH}|{_IDENTIFIER}|{_CHOSEN})"
)
#: A rule's text for any push with force.
_FORCED_PUSH = "git push --force"
_PUSHES_WITH_FORCE = re.compile(rf"git push (?:--force|-f)|{_FORCE_PUSH}")
#: The end of a ban on every push with force. Other words may restrict it to some branches.
_EVERY_PUSH = re.compile(
    r"(?:(?<=`)\)|[`\"'*_]*)(?:\s*(?:/|,? (?:or|and)|,)\s*`[^`\n]*`)*\s*"
    r"(?:\Z|[.;:!?—–]|\(`|(?:,\s+)?(?:because|since|it|as|so|even|just|always|never|instead)\b)",
    re.IGNORECASE,
)
#: A branch in the sentence of a ban.
_BRANCH_BEFORE = re.compile(
    r"\b(?:main|master|branch(?:es)?|shared|protected|public|releases?|production)\b[^.;]*\Z",
    re.IGNORECASE,
)
#: A condition that is met at each push.
_PUSHING = re.compile(
    r"(?:when|while|before|after|if you)(?: (?:ever|you|re|are))* push(?:ing|es)?"
    r"(?: (?:to|your|the|an?|any|new|more|changes?|updates?|commits?|fixes|PRs?|pull requests?|code"
    r"|work|up|remote|it))*\W*",
    re.IGNORECASE,
)
#: First words of code that looks like a command, as in `pub use`.
_KEYWORDS = frozenset(
    "abstract as async await case catch class const def delete elif else enum export extends fn"
    " for from func if impl import in insert interface is let match mod mut new not or private"
    " protected pub public raise record return select static struct switch throw trait try type"
    " update use var while with yield".split()
)
#: Keywords that are not frequent words of English.
_NOUNS = frozenset("async await const enum impl struct trait typedef".split())
#: Names with a capital inside that are not identifiers.
_NAMES = frozenset(
    "GitHub GitLab JavaScript TypeScript CoffeeScript PostgreSQL MongoDB GraphQL DevOps YouTube"
    " LinkedIn macOS NumPy PyTorch FastAPI OpenAI ChatGPT OpenCode StackOverflow WordPress"
    " CloudFlare DynamoDB BigQuery LaTeX PowerShell".split()
)
#: An ending of file names, not a file such as `.env`.
_ENDING = re.compile(r"\.(?!env|git)[a-z]{1,5}")
#: The beginning of a part for you to fill in, as in `fix/<issue>`. An attribute such as
#: `#[expect()]` is not one.
_PLACEHOLDER = re.compile(r"[<{…$]|(?<!#)(?<!#!)\[(?!\w+\()|\.\.\.")
#: A file for you to fill in, as in `uv run <script>`.
_FILE_PLACEHOLDER = re.compile(r"\s*<[\w -]*(?:script|file|path)[\w. -]*>", re.IGNORECASE)

#: "A is not B" only describes.
_NOT = r"(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bbe )not"
#: In "use A to avoid B", the words only name the reason.
_AVOID = (
    r"(?:(?<!to )|(?<=\btry to )|(?<=\bhard to )|(?<=\bsure to )|(?<=\bcareful to ))avoid(?:ing)?"
)
#: The last cue before a token decides; a negation includes the two words after it.
_CUE = re.compile(
    rf"(?P<against>(?<![\w-])(?:never|{_NOT}|don['’]?t|{_AVOID}|no|nunca|jam[aá]s|evit[ae]r?"
    r"|não|nao"
    r"|(?:prefer(?:red)?|favou?r|choose)\b[^.;]*?\bover"
    r"|instead of|rather than|in favou?r of not|en vez de|en lugar de|em vez de"
    r"|forbid\w*|prohibit\w*|banned)\b"
    r"(?:[ \t*_]+(?!without|until|unless|before)[\w'’]+){0,2}"
    r"|n['’]t\b(?:[ \t]+[\w'’]+){0,1}|不要|不得|不能|不可|禁止|严禁|避免|请勿|勿|别|而不是)"
    r"|\b(?:use|using|prefer|run|running|search|grep|but|without|until|unless|before|always|usa"
    r"|utiliza|use"
    r"|prefiere|prefira|sin|sem)\b|改用|请|必须|应",
    re.IGNORECASE,
)
#: Words after the token that a rule prefers to another one.
_PREFERRED = re.compile(r"`?[ \t]*(?:instead of|rather than|over)\b", re.IGNORECASE)
#: A remark in parentheses that ends before a token.
_ASIDE = re.compile(r"\([^()`]*\)")
_BOUNDARY = re.compile(
    r"(?<!e\.g)(?<!i\.e)[.!?:;][\s]|[。！？；：\n]"
    r"|,[ \t]+(?:it|they|this|that|these|we|there|because|since|as|so|which)\b",
    re.IGNORECASE,
)
_ARTICLE = r"(?:the|your|our|this|any|all|each|every|el|la|los|las|o|os|as)"
_FOLDER = (
    r"package|module|folder|directory|crate|workspace|repo(?:sitory)?|project|app|service|layer"
    r"|files?|paquete|pacote|m[oó]dulo|carpeta|pasta|direct[oó]rio"
)
#: A token after these words may show only the place or the purpose of a rule: "in the `cli`
#: package".
_PLACED = re.compile(
    r"(?:(?<![\w-])(?:in|inside|under|within|en|dentro de|del?|em|n[oa]s?|d[oa]s?)|在"
    r"|(?P<purpose>(?<!check )(?<!look )(?<!search )(?<!wait )(?<!ask )(?<!watch )(?<![\w-])"
    rf"(?:for|para)|对于))[ \t]*(?:{_ARTICLE}[ \t]+)?(?P<folder>(?:{_FOLDER})[ \t]+)?"
    r"(?:`[^`\n]*`(?:[ \t]*,|[ \t]+(?:or|and|o|y|ou|e))[ \t]*)*\Z",
    re.IGNORECASE,
)
_FOLDER_AFTER = re.compile(rf"[ \t]*(?:{_FOLDER})\b", re.IGNORECASE)
_FOLDER_AFTER_UNSPACED = re.compile(
    r"\s*(?:包|模块|模組|目录|文件夹|パッケージ|モジュール|フォルダ|ディレクトリ)(?:中|里|内|で|の|下)"
)
#: In Japanese and Korean, a negation follows its token.
_AGAINST_AFTER = re.compile(
    r"[^。．、，(（)）\n`]{0,24}?"
    r"(?:(?<!なければなら)(?<!なければいけ)ない|ません|禁止|避け|하지 ?마|금지|않)"
)
#: After these words, a token of a forbidden act is only a part of it: "never commit to `main`",
#: "never store a key in `localStorage`". The token alone does not break the rule.
_PART = re.compile(
    rf"(?<![\w-])(?:to|on|onto|into|at|in)[ \t]+(?:{_ARTICLE}[ \t]+|an?[ \t]+)?\Z", re.IGNORECASE
)
#: Words after a forbidden token that restrict the ban.
_CONDITION = re.compile(
    r"`?[ \t]*(?:\([^)]*\)[ \t]*)?,?[ \t]*(?:unless|except|outside|without|when|if|until|on"
    r"|between|during|while|more than|twice"
    r"|(?:/[ \t]*`[^`\n]*`[ \t]*)*(?:prefix|suffix|trailer|footer|title|message|label|tag|header)"
    r"|salvo|excepto|fuera|sin|cuando|sem|quando|exceto)\b|`?\s*(?:除非|除了)",
    re.IGNORECASE,
)
#: The purpose for which a rule forbids a token: other uses of the token do not break the rule. The
#: word "for" restricts only programs, because "never use `print(` for logging" is about nearly all
#: uses of `print(`.
_PURPOSE = re.compile(
    r"`?(?:[ \t]*(?:,|or|and|o|y|ou|e)[ \t]*`[^`\n]*`)*[ \t]+(?:(?:in|on|into)[ \t]+[\w-]+[ \t]+)?"
    r"(?P<word>to|for|as|para|como)[ \t]+[a-z]",
    re.IGNORECASE,
)
#: Words after a forbidden script that restrict the ban.
_SOME_RUNS = re.compile(r"`?\s+(?:in|from|against|at)\b", re.IGNORECASE)
#: With these words, your own words decide whether the rule is broken.
_ASKS_YOU = re.compile(
    r"\b(?:without|unless|before|sin|sem)[ \t]+(?:\w+[ \t]+){0,2}?"
    r"(?:ask\w*|approv\w*|permission|confirm\w*|consent|told|request\w*"
    r"|pregunt\w*|permiso|pergunt\w*|permissão)\b",
    re.IGNORECASE,
)
#: The words between commands that are all asked for.
_AND = r"`?[ \t]*(?:,[ \t]*)?(?:and|&&?|then|y|e|,|和|以及|、)[ \t]*(?:then[ \t]+)?`?(?:\./)?"
_AFTER = re.compile(r"[ぁ-ゖ가-힣]|[ \t]?[ぁ-ゖ가-힣]")


class Token(NamedTuple):
    """A token of a rule.

    text      as a call contains it; for a pattern such as `*.ts`, the pattern
    negated   whether the rule speaks against it
    scope     "place", "purpose" or "condition" if it only shows where, why or when the rule
              applies, "mention" if the rule does not ask for it, "part" if the token alone does not
              show whether the rule was broken
    form      "before a file" if only a command with a file shows it, "script" for a script that is
              run, "forced push" for each push with force, "file" if only a change of such a file
              shows it, "name" if only a definition with such a name shows it, "import" for an
              import inside a function; "" for other tokens
    """

    text: str
    negated: bool
    scope: str = ""
    form: str = ""

    @property
    def is_pattern(self) -> bool:
        """Whether it is a pattern of files instead of a text."""
        return "*" in self.text

    @property
    def is_path(self) -> bool:
        """Whether it names a file or a folder."""
        return (
            " " not in self.text
            and self.form != SCRIPT
            and re.fullmatch(rf"(?:\.{{0,2}}/)?(?:{_PATH})", self.text) is not None
        )

    @property
    def is_command(self) -> bool:
        """Whether it is a command with its arguments, such as `make lint`."""
        if self.form:
            return self.form in (BEFORE_FILE, FORCED, SCRIPT)
        is_code = self.text.partition(" ")[0] in _KEYWORDS
        return not is_code and re.match(r"(?:\./)?[a-z][\w.-]* +\S", self.text) is not None

    @property
    def shown(self) -> str:
        """Its text as a page shows it."""
        shown = {IMPORT: "an import in a function", FORCED: "a push with force"}
        return shown.get(self.form, f"`{self.text}`")

    @property
    def anchor(self) -> str:
        """A long word that each call with the token contains."""
        return "push" if self.form == FORCED else max(re.findall(r"\w+", self.text), key=len)

    @property
    def is_plain(self) -> bool:
        """Whether it is written like an English word, such as `checkout`."""
        return re.fullmatch(r"[a-z][a-z\d]*", self.text) is not None

    @property
    def is_program(self) -> bool:
        """Whether it is the name of a program, such as `npm`."""
        return self.text in _PROGRAMS

    @property
    def is_distinct(self) -> bool:
        """Whether its words rarely mean something else."""
        return not self.is_path and re.search(r"[ _.:-]|[a-z][A-Z]|\(\)", self.text) is not None


def tokens_of(text: str) -> tuple[Token, ...]:
    """Return the tokens of a rule in the order of its text, without duplicates."""
    tokens: dict[str, Token] = {}
    conditions = conditions_of(text)
    for match in _TOKEN.finditer(text):
        for written in _texts_of(match):
            is_long = len(written) >= _MIN_CHARACTERS or written in _PROGRAMS
            if is_long and written not in _NAMES:
                token = _token(text, match, written, conditions)
                if token.negated or not re.fullmatch(_FORCE_PUSH, written):
                    tokens.setdefault(token.text, token)
    forms = [Token(name, negated=True, form=form) for name, form in forms_of(text)]
    return (*forms, *tokens.values())[:MOST_TOKENS]


def _token(text: str, match: re.Match[str], written: str, conditions: Sequence[Clause]) -> Token:
    negated, reach = _negation_of(text, match)
    whole = without_code(text)[: match.start()]
    before = _BOUNDARY.split(text[: match.start()])[-1]
    script = script_in(written, before, text[match.end() :]) if match["span"] else ""
    form = SCRIPT if script else _form_of(text, match, written)
    token = Token(script or written, negated, form=form)
    if negated and _PUSHES_WITH_FORCE.fullmatch(written):
        form = "" if "lease" in text else FORCED
        if _bans_force(text, match, match.start() - len(before), reach, conditions):
            return Token(_FORCED_PUSH, negated, form=form)
        if not written.startswith("git"):
            return Token(_FORCED_PUSH, negated, "part", form)
    if any(clause.start <= match.start() < clause.end for clause in conditions):
        return token._replace(scope="condition")
    if negated and (_ASKS_YOU.search(text) or _is_in_case(text, match.start(), before, conditions)):
        return token._replace(scope="part")
    token = token._replace(scope=_scope_of(token, before, text[match.end() :]))
    token = _forbidden(token, reach) if negated else token
    is_in_example = is_example(before) and not (negated and is_example(reach))
    if not token.scope and (is_in_example or _is_only_named(token, whole)):
        return token._replace(scope="mention")
    return token


def _bans_force(
    text: str, match: re.Match[str], begin: int, reach: str, conditions: Sequence[Clause]
) -> bool:
    """Return whether a rule against a push with force is about every such push. `begin` is the
    begin of its sentence.
    """
    cases = (text[start:end] for start, end in conditions if begin <= start < match.start())
    is_restricted = (
        _ASKS_YOU.search(text)
        or _CONDITION.match(text, match.end())
        or _BRANCH_BEFORE.search(text[: match.start()])
        or is_for_a_case(text)
    )
    is_every = all(map(_PUSHING.fullmatch, cases)) and _EVERY_PUSH.match(text, match.end())
    is_reached = reaches(re.sub(_FORCE_PUSH, "", reach))
    return bool(is_every) and not is_restricted and is_reached


def _forbidden(token: Token, reach: str) -> Token:
    """Return a forbidden token after the words `reach`. If they are about changes of files, only
    such a change shows it.
    """
    if (token.is_path or token.is_pattern) and edits(reach):
        scope = token.scope.replace("place", "")
        token = token._replace(scope=scope, form=FILE)
        reach = without_edits(reach)
    is_option = token.text.startswith("-") and reach.rstrip("`").endswith("(")
    is_reached = is_option or token.form == NAME or reaches(reach)
    return token if is_reached or token.scope else token._replace(scope="part")


def _is_in_case(text: str, start: int, before: str, conditions: Sequence[Clause]) -> bool:
    """Return whether an order against something is only for the case that its sentence begins with:
    "when you review, never use `sed`".
    """
    begin = start - len(before)
    return is_for_a_case(text) or any(
        begin <= clause.start
        and clause.end <= start
        and "`" not in text[clause.end : start].strip("`")
        for clause in conditions
    )


def _is_only_named(token: Token, before: str) -> bool:
    """Return whether a rule names a command without asking for it."""
    return token.is_command and not token.negated and not is_asked_for(before)


def _form_of(text: str, match: re.Match[str], written: str) -> str:
    span = match["span"] or ""
    placeholder = _PLACEHOLDER.search(span)
    if placeholder and _FILE_PLACEHOLDER.match(span, placeholder.start()):
        is_program = written.partition(" ")[0] in _PROGRAMS
        return BEFORE_FILE if is_program else ""
    return NAME if re.fullmatch(r"[A-Za-z]\w*_", written) and names(text) else ""


def _scope_of(token: Token, before: str, after: str) -> str:
    """Return the scope of a token, from the words around it; "" if it has none.

    "Put it in `docs/`" asks for a file there, but "Never use `eval` in `src/`" does not forbid one.
    """
    if _FOLDER_AFTER_UNSPACED.match(after):
        return "place"
    placed = _PLACED.search(before)
    if placed is not None and placed["purpose"]:
        return "purpose"
    is_file = token.is_path or token.is_pattern
    is_part = not is_file and _PART.search(before.rstrip("`")) is not None
    purpose = None if _is_choice(before) else _PURPOSE.match(after)
    is_run = token.is_program or token.is_command or token.text.startswith("-")
    is_for = purpose is not None and (is_run or purpose["word"] == "to")
    is_partly = token.form == SCRIPT and _SOME_RUNS.match(after) is not None
    if token.negated and (is_part or is_for or is_partly or _CONDITION.match(after)):
        return "part"
    if placed is None:
        return ""
    is_folder = placed["folder"] is not None or _FOLDER_AFTER.match(after) is not None
    is_place = is_folder or token.is_pattern or (token.is_path and token.negated)
    return "place" if is_place else ""


def _is_choice(before: str) -> bool:
    """Return whether a rule asks for another token before it speaks against this one."""
    cues = _CUE.finditer(re.sub(r"`[^`\n]*`", "`", before))
    return any(cue["against"] is None for cue in cues)


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
    fixed = _PLACEHOLDER.split(written, maxsplit=1)[0]
    if fixed.endswith("()]"):
        fixed = fixed.removesuffix("]")
    token = " ".join(fixed.removesuffix(")").split()).rstrip("\"'=,;-")
    if _ENDING.fullmatch(token):
        return f"*{token}"
    is_word = any(map(str.isalnum, token))
    return token if is_word and len(token) <= _MOST_CHARACTERS else ""


def _negation_of(text: str, match: re.Match[str]) -> tuple[bool, str]:
    """Return whether a rule speaks against a token: in the last cue before it, or in a Japanese or
    Korean cue after it. The words from the cue to the token follow.
    """
    before = _BOUNDARY.split(_ASIDE.sub("", text[: match.start()]))[-1]
    before = re.sub(r"`[^`\n]*`", "`", before)
    cues = list(_CUE.finditer(before))
    rest = text[match.end() :]
    if cues and not _PREFERRED.match(rest):
        cue = cues[-1]
        start = cue.start() + max(0, cue[0].casefold().rfind(" over"))
        return cue["against"] is not None, before[start:]
    return _AFTER.match(rest) is not None and _AGAINST_AFTER.match(rest) is not None, ""
