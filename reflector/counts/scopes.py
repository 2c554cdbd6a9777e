"""The scope of a token: the words around it that make it a place, a reason or a part of a ban.

Invariant: the first row of `_SCOPES` that fits decides. A token without a row is evidence about its
rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from reflector.counts.around import Around
from reflector.counts.clauses import is_asked_for, is_example, reaches
from reflector.counts.forms import LEFT, NAME, OF_FILES, SUPPRESSED, WITHOUT, without_deed
from reflector.counts.orders import without_leaving
from reflector.counts.token import Token
from reflector.text.lazy import lazy_pattern

ARTICLE = r"(?:the|your|our|this|any|all|each|every|el|la|los|las|o|os|as)"
_FOLDER = (
    r"package|module|folder|directory|crate|workspace|repo(?:sitory)?|project|app|service|layer"
    r"|files?|paquete|pacote|m[oó]dulo|carpeta|pasta|direct[oó]rio"
)
#: A token after these words may show only the place or the purpose of a rule: "in the `cli`
#: package".
_PLACED = lazy_pattern(
    r"(?:(?<![\w-])(?:in|inside|under|within|en|dentro de|del?|em|n[oa]s?|d[oa]s?)|在"
    r"|(?P<purpose>(?<!check )(?<!look )(?<!search )(?<!wait )(?<!ask )(?<!watch )(?<![\w-])"
    rf"(?:for|para)|对于))[ \t]*(?:{ARTICLE}[ \t]+)?(?P<folder>(?:{_FOLDER})[ \t]+)?"
    r"(?:`[^`\n]*`(?:[ \t]*,|[ \t]+(?:or|and|o|y|ou|e))[ \t]*)*\Z",
    re.IGNORECASE,
)
_FOLDER_AFTER = lazy_pattern(rf"[ \t]*(?:{_FOLDER})\b", re.IGNORECASE)
_FOLDER_AFTER_UNSPACED = lazy_pattern(
    r"\s*(?:包|模块|模組|目录|文件夹|パッケージ|モジュール|フォルダ|ディレクトリ)(?:中|里|内|で|の|下)"
)
#: After these words, a token of a forbidden act is only a part of it: "never commit to `main`",
#: "never store a key in `localStorage`". The token alone does not break the rule.
_PART = lazy_pattern(
    rf"(?<![\w-])(?:to|on|onto|into|at|in)[ \t]+(?:{ARTICLE}[ \t]+|an?[ \t]+)?"
    r"(?:`[^`\n]*`(?:[ \t]*,|[ \t]+(?:or|and|nor))[ \t]*(?:(?:or|and|nor)[ \t]+)?)*\Z",
    re.IGNORECASE,
)
#: Nouns for a forbidden token, and words that do not restrict the ban.
_NOUNS = (
    r"(?:type )?(?:annotation|assertion|attribute|block|call|cast|class(?:e)?|command|comment"
    r"|component|content|decorator|dependency|dependencie|directive|directory|directorie|dir|file"
    r"|flag|folder|function|hook|import|keyword|librar(?:y|ie)|macro|method|module|operator|option"
    r"|package|pragma|script|statement|tag|tool|type|value|workflow)s?|syntax|casting|output"
    r"|artifacts?"
)
_ALWAYS = (
    r"again|anymore|any more|anywhere|at all|by hand|directly|ever|globally|here|in full|manually"
    r"|period|under any circumstances|yourself|directamente|diretamente"
)
_EVERYWHERE = (
    r"(?:in|inside|en|em|n[oa])(?: (?:any|all|application|committed|el|final|library|new|non-test"
    r"|o|our|production|source|test|the|your|[A-Z][\w+#]+))*"
    r"(?: (?:this |our |the )?(?:code|codebase|project|repo|repository|files|(?:\w+ )?tests?"
    r"(?: data)?|specs?|código|proyecto|projeto)"
    r"| (?:Type|Java)Script| Python| Go| Rust| Swift| Kotlin| Java| Ruby| C#)"
)
#: The words after a forbidden token if the ban is about each use of it. Another word may restrict
#: the ban, so that no call shows whether it was broken.
_EVERY_USE = lazy_pattern(
    rf"[`*_\"')\]]*(?:\s+(?i:{_NOUNS}|{_ALWAYS})(?!\w)|\s+{_EVERYWHERE}(?!\w)"
    r"|(?P<place>\s+in (?:the )?`[^`\n]*[/.*][^`\n]*`(?: folder| directory| files)?))*[*_\"')\]]*"
    r"(?:\s*(?:\Z|[.,;:!?(/—–|&+]|-\s|[\u3000-\u9fff\uac00-\ud7af])|\s+(?:[-→=+`]"
    r"|(?i:or|and|nor|o|y|e|ou|to (?:avoid|ensure|keep|prevent|protect|reduce)|because|since"
    r"|as (?:it|they)|even|just|always|never|instead|over|so|it)\b))"
    r"(?!\s*(?i:unless|except|other than|only (?:if|when)|if|when|until|outside|salvo|excepto"
    r"|exceto|cuando|quando|除非|除了)(?![\w-]))"
)
#: The purpose for which a rule forbids a token: other uses of the token do not break the rule.
_PURPOSE = lazy_pattern(
    r"`?(?:[ \t]*(?:,|or|and|o|y|ou|e)[ \t]*`[^`\n]*`)*[ \t]+(?:(?:in|on|into)[ \t]+[\w-]+[ \t]+)?"
    r"(?P<word>to|for|as|para|como)[ \t]+[a-z]",
    re.IGNORECASE,
)
_LOGGING = "log|debug|output|print"
#: The purpose that nearly each use of a token has. It does not restrict a ban.
_OWN_PURPOSES = {
    "console.log": _LOGGING,
    "print": _LOGGING,
    "print(": _LOGGING,
    "require(": "import|load",
    "find": "find|search|locate",
    "grep": "find|search",
    "npm install": "add|install",
    "pip install": "add|install",
    "sed -i": "edit|modify|change|update|rewrite|replace",
}
_ANYTHING = (
    r"(?:g?ing|s)?(?: (?:the|any|a|source|code|text|project|repo|files?|packages?"
    r"|dependenc(?:y|ies)|contents?|for|in|through|directly))*[ \t]*(?:\Z|[.,;:!)(—–])"
)


#: A verb after a command, which describes the command.
_DOES = lazy_pattern(r"`? (?!(?:passes|succeeds|is|has|needs|always|unless)\b)[a-z]+s\b")


def scope_of_token(token: Token, around: Around) -> str:
    """Return the scope of a token; "" if it is evidence about its rule."""
    return next((scope for scope, applies in _SCOPES if applies(token, around)), "")


def _is_banned_for_a_case(token: Token, around: Around) -> bool:
    return token.negated and (around.asks_you() or around.is_in_case(is_run=_is_run(token)))


def _is_purpose(_: Token, around: Around) -> bool:
    placed = _PLACED.search(around.before)
    return placed is not None and placed["purpose"] is not None


def _is_restricted(token: Token, around: Around) -> bool:
    """Return whether the words around a forbidden token restrict the ban."""
    if not token.negated or token.form in (SUPPRESSED, WITHOUT):
        return False
    use = _EVERY_USE.match(around.after)
    is_at_place = use is not None and use["place"] is not None
    is_of_each_use = use is not None or _is_own_case(token, around)
    is_some_run = is_at_place and _is_run(token)
    return not is_of_each_use or is_some_run or _is_part_of_act(token, around)


def _is_run(token: Token) -> bool:
    return token.is_command or token.is_program


def _is_part_of_act(token: Token, around: Around) -> bool:
    is_file = token.is_path or token.is_pattern
    return not is_file and _PART.search(around.before.rstrip("`")) is not None


def _is_own_case(token: Token, around: Around) -> bool:
    """Return whether the words after a forbidden token name a case or a purpose that nearly each of
    its uses has. A choice between commands may have any purpose.
    """
    purpose = _PURPOSE.match(around.after)
    if purpose is None or (around.is_choice() and _is_run(token)):
        return purpose is not None
    own = _OWN_PURPOSES.get(token.text)
    meant = around.after[purpose.end("word") :].lstrip()
    return own is not None and re.match(rf"(?:{own}){_ANYTHING}", meant, re.IGNORECASE) is not None


def _is_place(token: Token, around: Around) -> bool:
    """Return whether a token names the place of a rule.

    "Put it in `docs/`" asks for a file there, but "Never use `eval` in `src/`" does not forbid one.
    """
    placed = _PLACED.search(around.before)
    if placed is None or (token.negated and token.form in OF_FILES):
        return False
    is_folder = placed["folder"] is not None or _FOLDER_AFTER.match(around.after) is not None
    return is_folder or token.is_pattern or (token.is_path and token.negated)


def _is_out_of_reach(token: Token, around: Around) -> bool:
    """Return whether unknown words are between a ban and a token. A definition with a name has its
    own words, and the words of the token itself are known: "never rebase with `git rebase -i`".
    """
    if not token.negated or token.form == NAME or _is_ban_itself(token, around):
        return False
    if token.is_path and token.form == "":  # code can only import a file
        return re.search("import|require|include", around.reach, re.IGNORECASE) is None
    own = "|".join(map(re.escape, token.text.split()))
    reach = re.sub(rf"\b(?:{own})\b", "", around.reach) if token.is_command else around.reach
    is_program = token.is_program or token.is_command
    words = without_leaving(reach) if token.form == LEFT else without_deed(reach, token.form)
    return not reaches(words, is_program=is_program)


def _is_ban_itself(token: Token, around: Around) -> bool:
    """Return whether an option in brackets is another name of the banned act: "never amend commits
    (`--amend`)".
    """
    return token.text.startswith("-") and around.reach.rstrip("`").endswith("(")


def _is_only_mentioned(token: Token, around: Around) -> bool:
    """Return whether a token is an example, or a command that the rule does not ask for."""
    if around.cue == "about":
        return True
    is_banned_example = token.negated and is_example(around.reach)
    if is_example(around.before) and not is_banned_example:
        return True
    is_order = is_asked_for(around.whole_before) and not _is_described(around)
    return token.is_command and not token.negated and not is_order


def _is_described(around: Around) -> bool:
    """Return whether a sentence only describes the command that it begins with: "`make help` lists
    the rest".
    """
    is_first = re.search(r"\w", around.before) is None
    return is_first and _DOES.match(around.after) is not None


#: The scopes of tokens, as `Token` describes them, and the tokens that have them.
_SCOPES: Sequence[tuple[str, Callable[[Token, Around], bool]]] = (
    ("condition", lambda _, around: around.is_in_condition()),
    ("part", _is_banned_for_a_case),
    ("place", lambda _, around: _FOLDER_AFTER_UNSPACED.match(around.after) is not None),
    ("purpose", _is_purpose),
    ("part", _is_restricted),
    ("place", _is_place),
    ("part", _is_out_of_reach),
    ("mention", _is_only_mentioned),
)
