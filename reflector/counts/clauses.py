"""The clauses of a rule: its conditions, and the words that connect a token to the rule's order.

Invariant: words of an unknown kind decide nothing. So an act counts as asked for or as forbidden
only if each word between it and the order is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from reflector.text.lazy import lazy_pattern

_CODE = lazy_pattern(r"`([^`\n]*)`")
_SENTENCE_END = lazy_pattern(r"(?<!e\.g)(?<!i\.e)(?<!etc)[.!?;][)\"'*_]*(?:\s|\Z)|[。！？；\n]")
#: The first word of a condition. After "never" or "only", an order may follow the second kind:
#: "never commit before running `make lint`".
_CUE = lazy_pattern(
    r"(?<![\w-])(?:(?!(?<=only )(?:if|when)\b[^.;]*\b(?:pass|succeed|green))"
    r"(?:when(?:ever)?|while|if|during|in case|cuando|quando)"
    r"|(?P<order>once|after|before|unless|until))(?![\w-])",
    re.IGNORECASE,
)
_ONLY = lazy_pattern(
    r"(?<![\w-])(?:only|never|not|no|don['’]?t|nunca|não)(?![\w-])|n['’]t\b", re.IGNORECASE
)
#: The end of a condition that begins a sentence. A list in it continues after a comma.
_LEADING_END = lazy_pattern(r"(?<!`),|,(?!\s*(?:`|and\b|or\b))|[:：—，]")
_LABEL = lazy_pattern(r"[:：—–→)]")
#: A case at the beginning of a rule: "For tracing changes, read …".
_FOR = lazy_pattern(r"\W*(?:for|in|with|on)\b[^.;:]*[,:]", re.IGNORECASE)
_READ = lazy_pattern(r"\b(?:read|follow|see|consult|refer|check|load|review|look)\b", re.IGNORECASE)
#: The most words of a condition before and after the name of an occasion. A longer condition
#: restricts the occasion, and no call shows whether it was met.
_MOST_BEFORE, _MOST_AFTER = 5, 9
_RESTRICTS = lazy_pattern(r"\b(?:that|which|whose|where|with|needs?|requires?)\b", re.IGNORECASE)
#: "Use X to …": the purpose restricts the order. "Run X to …" only names the reason.
_PURPOSE = lazy_pattern(
    r"\b(?:use|using|prefer|utiliza|usa)\b[^.;:`]*`[^`]*`[ \t]+"
    r"(?P<clause>(?:to|for|para)[ \t][^.;:,]*)",
    re.IGNORECASE,
)
#: Words that may be between an order against something and the thing itself.
_FORBIDDING = frozenset(
    "never not don t dont do no avoid avoiding instead rather than of over in favor favour"
    " forbid forbids forbidden prohibit prohibited banned ever please directly direct raw"
    " explicit explicitly manual manually any all more new extra the a an your our its their"
    " this these those use using used uses utilize call calling calls invoke invoking write"
    " writing add adding import importing run running execute executing introduce introducing"
    " create creating rely reach on employ declare insert install installing pass passing set"
    " setting leave skip bypass hooks edit editing files file with via by through from like"
    " such as eg e g i ie or and nor either both patterns pattern code that require requires"
    " requiring statements statement keyword keywords operator operators commands command flag"
    " flags option options methods method functions function macros macro types type but just"
    " simply always only even nunca jamas evita evitar evite nao usar utilizar utilices"
    " ejecutar executar ejecutes agregar adicionar importar llamar chamar crear criar haga"
    " hagas hagan hacer hace haz fazer el la los las o os y ou ni en vez lugar de em un una um"
    " uma".split()
) | {"don’t", "jamás", "não", "faça", "façam"}
_OF_PROGRAMS = frozenset("bare global globally installed plain system wide".split())
_LATIN_WORD = lazy_pattern(r"[^\W\d_\u3000-\u9fff\uac00-\ud7af]+")
_FORBIDDING_CJK = lazy_pattern(
    r"(?:不要|不得|不能|不可|禁止|严禁|避免|请勿|勿|别|而不是|使用|直接|运行|执行|添加|调用|导入"
    r"|用|写|任何|类型|的|或|和|再|去|、|，|\W|[a-zà-ÿ\d_])*",
    re.IGNORECASE,
)
#: Words directly before a command that a rule asks for.
_ASKING = frozenset(
    "run runs rerun re-run running ran use uses using execute executing call do invoke"
    " prefer with via through by sure that ensure verify check pass passes passing perform"
    " then and or first also always must should to command script try start type instead"
    " either both full same only just fresh an a the your our at least without until unless"
    " before after once ejecuta ejecutar ejecute usa usar corre con y o siempre rode com e"
    " ou sempre el la los las".split()
)
_LAST_WORD = lazy_pattern(r"([\w’'-]+)\s*\Z")
#: Commands, such as `a` and `b`, directly before another command.
_LISTED = lazy_pattern(
    r"(?:`[^`\n]*`(?:\s*\([^()]*\))?(?:\s*(?:,|/|\+|→|&|\b(?:and|or|then|y|o|e|ou)\b))+\s*)+\Z"
)
_EXAMPLE = lazy_pattern(r"(?:\be\.g\.|\bi\.e\.|\bfor (?:example|instance)\b|\bsuch as\b)", re.I)


class Clause(NamedTuple):
    """A condition of a rule: its place in the rule's text."""

    start: int
    end: int


def without_code(text: str) -> str:
    """Return a text of the same length in which each code is replaced by underlines."""
    return _CODE.sub(lambda code: f"`{'_' * len(code[1])}`", text)


def sentences_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each sentence of a text without code."""
    start = 0
    for end in _SENTENCE_END.finditer(text):
        yield start, end.start()
        start = end.end()
    yield start, len(text)


def conditions_of(text: str) -> list[Clause]:
    """Return the conditions of a rule, such as "when running tests"."""
    plain = without_code(text)
    clauses: list[Clause] = []
    for start, end in sentences_in(plain):
        for cue in _CUE.finditer(plain, start, end):
            before = plain[start : cue.start()]
            is_in_other = clauses and cue.start() < clauses[-1].end
            if is_in_other or (cue["order"] and _ONLY.search(before)):
                continue
            between = plain[max(start, clauses[-1].end) : cue.start()] if clauses else before
            clauses.append(Clause(cue.start(), _end_of(plain, cue, between, end)))
    return clauses


def has_condition(text: str) -> bool:
    """Return whether a rule applies only in a case that it names."""
    return bool(conditions_of(text)) or _FOR.match(text) is not None


def is_for_a_case(text: str) -> bool:
    """Return whether a rule begins with its case: "For type errors only: …"."""
    return re.match(r"\W*for\b[^.;`]*[,:]", text, re.IGNORECASE) is not None


def asks_to_read(text: str) -> bool:
    """Return whether a rule asks to read something."""
    return _READ.search(text) is not None


def _end_of(plain: str, cue: re.Match[str], before: str, end: int) -> int:
    """Return the end of a condition. One that begins its sentence ends at a comma, one in brackets
    ends with them, and another one ends with its sentence.
    """
    if before.count("(") > before.count(")"):
        close = plain.find(")", cue.end(), end)
        return close if close >= 0 else end
    if re.search(r"\w", _LABEL.split(before)[-1]):
        return end
    stop = _LEADING_END.search(plain, cue.end(), end)
    return stop.start() if stop else end


def restricts(condition: str, named: str) -> bool:
    """Return whether a condition is about more than the occasion of this name."""
    match = re.search(named, condition, re.IGNORECASE) if named else None
    if match is None:
        return True
    before, after = (condition[: match.start()].split(), condition[match.end() :].split())
    is_long = len(before) > _MOST_BEFORE or len(after) > _MOST_AFTER
    return is_long or _RESTRICTS.search(condition) is not None


def purposes_in(text: str) -> list[str]:
    """Return the purposes to which a text restricts the use of something."""
    return [match["clause"] for match in _PURPOSE.finditer(text)]


def reaches(words: str, *, is_program: bool = False) -> bool:
    """Return whether an order against something reaches the thing after these words.

    is_program  whether the thing is a program, which adjectives such as "plain" do not restrict
    """
    latin = set(_LATIN_WORD.findall(words.lower()))
    known = _FORBIDDING | _OF_PROGRAMS if is_program else _FORBIDDING
    return known.issuperset(latin) and _FORBIDDING_CJK.fullmatch(words) is not None


def is_asked_for(before: str) -> bool:
    """Return whether a rule asks for the command after these words."""
    last = _LAST_WORD.search(_LISTED.sub("", before))
    return last is None or not last[1].isascii() or last[1].lower() in _ASKING


def is_example(before: str) -> bool:
    """Return whether these words introduce an example."""
    examples = list(_EXAMPLE.finditer(before))
    return bool(examples) and ")" not in before[examples[-1].end() :]
