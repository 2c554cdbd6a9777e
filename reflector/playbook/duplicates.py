"""Pairs of bullets that may mean the same, and pairs that contradict each other.

Invariant: a pair is a duplicate only if both texts have the same words in the same order. Words
without advice of their own, a few synonyms and the order of a list are ignored, and a long text may
have one more word. A word in the place of another one always counts, because no threshold of a
similarity separates restatements from one template with other content. Numbers, names, paths,
commands and negations must be equal. So must the section, unless the texts differ only in their
spelling. Pairs are never joined to groups, and this module merges nothing.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from reflector.playbook.bullet import Bullet, best_first
from reflector.text.synonyms import stem, usual_word
from reflector.text.words import clusters, is_unspaced

Kind = Literal["exact", "normalised", "near", "contradiction"]

#: The longer text may have one more word for this many words of advice in the shorter one.
_WORDS_A_MORE = 12
#: Shorter texts are duplicates only if they differ in nothing but case, punctuation or markup.
_LEAST_WORDS = 3
#: The most texts that a text is compared with because of one word.
_MAX_MEETINGS = 50

_PHRASES = (
    (r"important:|note:|remember:", " "),
    (r"(?:make|be) sure(?: that| to)?|remember to|(?:don't|do not) forget(?: to)?", " "),
    (
        (
            r"(?:it is|it's) (?:very "
            r")?(?:important|essential|critical|crucial|necessary|required)(?: "
            r"that| to)"
        ),
        " ",
    ),
    (r"prior to|ahead of", " before "),
    (r"rather than|instead of|in place of|in preference to", " over "),
    (r"can't|can ?not|cannot", " not can "),
    (r"won't", " not "),
    (r"(?:do|does|did|is|are|was|were|should|must|would|need|has|have|had)n't", " not "),
    (r"(?:do|does|should|must|shall|will|may) not|refrain from|under no circumstances", " not "),
    (r"env(?:ironment)?\.? var(?:iable)?s?", " envvar "),
    (r"in order to|so as to|as well as|such as|e\.g\.|i\.e\.|for example|for instance", " "),
    (r"pull requests?|\bprs?\b", " pullrequest "),
    (r"adheres? to|adhering to|stick to|sticking to|conforms? to|comply with", " follow "),
)
#: The same for scripts without spaces. Phrases for `may be omitted` and `need not be done`, and
#: words that limit, are not replaced.
_UNSPACED_PHRASES = (
    # Japanese expresses an obligation by two negations.
    (r"し?(?:なければ|ないと)(?:なりません|ならない|いけません|いけない)", " "),
    (
        r"し?(?:ないでください|ないで下さい|ないこと|てはいけません|てはいけない|てはならない|てはなりません)",
        " not ",
    ),
    (
        r"(?:す|する)?べきでは(?:ない|ありません)|べからず|し?ません|(?<!少)し?ない|禁止(?:する|です)?",
        " not ",
    ),
    (
        r"し?てください|し?て下さい|(?:する|す)?べき(?:です)?|し?ましょう|すること|します|する|です|ます|こと",
        " ",
    ),
    (r"必ず|常に|いつも|すべて|全て|を|は|の(?=[前後])", " "),
    (r"利用|用いて|使って", "用"),
    # Chinese
    (
        r"不要|不得|不可以?|不能|不应该?|不應該?|不应当|不應當|不许|不許|切勿|请勿|請勿|严禁|嚴禁|避免|勿",
        " not ",
    ),
    (r"(?<![类類级級区區分特性个個])[别別](?![名的人])", " not "),
    (
        r"请(?!求)|請(?!求)|必须|必須|务必|務必|一定要|应该|應該|应当|應當|(?<!不)需要|始终|始終|总是|總是|一律",
        " ",
    ),
    (r"所有|全部|每[个個次]|每一[个個次]|(?<![只主重必不])要(?![求么麼])|的|了|吧", " "),
    (r"[之以]前", "前"),
    (r"[之以](?:后|後)", "后"),
    (r"使用|采用|採用", "用"),
    (r"执行|執行|運行", "运行"),
    # Thai
    (r"ห้าม|อย่า|ไม่ควร|ไม่(?!ต้อง|จำเป็น)", " not "),
    (
        (
            r"กรุณา|โปรด|ควรจะ|ควร|จะต้อง|(?<!ไม่)(?<!จำเป็น)ต้อง|เสมอ|ทุกครั้ง|ทั้งหมด|ทุก|ครับ"
            r"|ค่ะ"
            r"|นะคะ"
        ),
        " ",
    ),
    (r"ใช้งาน", "ใช้"),
    # Lao
    (r"ຫ້າມ|ຢ່າ|ບໍ່ຄວນ|ບໍ່(?!ຕ້ອງ|ຈຳເປັນ)", " not "),
    (r"ກະລຸນາ|ຄວນຈະ|ຄວນ|ຈະຕ້ອງ|(?<!ບໍ່)(?<!ຈຳເປັນ)ຕ້ອງ|ສະເໝີ|ທຸກຄັ້ງ|ທັງໝົດ|ທຸກ|ເດີ້", " "),
    # Khmer
    (r"កុំ|ហាម|មិនត្រូវ|មិនគួរ|មិន(?!ចាំបាច់)", " not "),
    (r"សូម|ត្រូវតែ|ត្រូវ|គួរតែ|គួរ|ជានិច្ច|ទាំងអស់|គ្រប់|នូវ", " "),
)
_NOT = frozenset("not no never avoid without none nothing neither nor cannot".split())
#: Words that carry no advice of their own.
_EMPTY = frozenset(
    "a an the this that these those is are be been being was were am to of in on at for by as and "
    "or it its "
    "there we our us you your yours will would shall should must have has had do does did so then "
    "also "
    "very really please always ensure every all any each both need needs needed here which who "
    "given inside within "
    "proper properly appropriate appropriately correct correctly already still clearly carefully "
    "explicitly simply "
    "exactly".split()
)
#: Words that limit a statement: with one more of them, a text means something else.
_LIMITS = frozenset(
    "if when whenever while unless until except only before after during from into over than may "
    "might can could "
    "but some most first last again instead optional optionally where once just off out up "
    "down".split()
)
_PLACES = frozenset("in inside within on at for by".split())
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ("two three four five six seven eight nine ten eleven twelve").split(), start=2
    )
}
#: Marks of a list, a heading or emphasis. This pattern and the next ones are compiled at their
#: first use, because only commands that look for duplicates need them.
_MARKS = (
    r"(?m)^\s*(?:[-*+>•]\s+|#+\s+|\[[ xX]\]\s+|\d+[.)]\s+)+"
    r"|\*\*|~~|(?<!\w)\*(?=\w)|(?<=[\w.,:;!?)])\*(?!\w)"
)
_LINK = r"\[([^\]\n]+)\]\(([^)\s]+)\)"
#: Quoted text: a name, a command or a quotation.
_QUOTED = r"`+([^`\n]+)`+|\"([^\"\n]+)\"|(?<!\w)'([^'\n]+)'(?!\w)"
_TYPOGRAPHY = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": " - ", "—": " - ", "…": " ", "→": "->"}
)
_EDGES = ".,;:!?()[]{}\"'*`。、「」『』《》〈〉【】・។៕၊။"
_SENTENCE = r"(?<=[.!?;])\s+|\n+"
#: A condition before the clause that it limits.
_FRONTED = (
    r"(?s)^\W*((?:before|when|whenever|after|if|while|once|until|unless)\b[^,]*)"
    r",\s*(?:then\s+)?(.+?)\W*$"
)
_SEPARATOR = r"(,(?=\s)|、|\s(?:and|or|&)\s)"
_CAPITALISED = r"(?<=[\w,] )[A-Z]\w+"
_NO = "¬"


@dataclass
class Pair:
    """Two similar rules of the playbook, the better rule first, and the reason why they are a pair.

    text      the text for a merge of both: the text of the rule with more words of advice, or of
              the better rule; null if the two contradict each other or are in different sections
    proposal  the id of the proposal to merge them; null without a proposal
    move      the command that moves one of them, so that rules of two sections can be merged; null
              without such a command
    """

    kind: Kind
    why: str
    bullets: tuple[Bullet, ...]
    text: str | None = None
    proposal: str | None = None
    move: str | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset(bullet.name for bullet in self.bullets)


class _Read(NamedTuple):
    """A text prepared for comparison: its words as written, the words that carry its advice, and
    its names.
    """

    written: tuple[str, ...]
    #: With a comma between the members of a list.
    listed: tuple[str, ...]
    #: Names, paths and commands as they are written, by their lower case.
    names: dict[str, frozenset[str]]
    #: Capitalised words that do not begin a sentence.
    proper: frozenset[str]
    asks: bool

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for word in self.listed if word != ",")

    @property
    def affirmed(self) -> tuple[str, ...]:
        return tuple(word for word in self.words if word != _NO)

    @property
    def in_any_order(self) -> tuple[str, ...]:
        return tuple(sorted(_without_use(self.affirmed) or self.written))


def duplicates(bullets: Iterable[Bullet], apart: Collection[frozenset[str]] = ()) -> list[Pair]:
    """Return the pairs that may be the same advice or contradict each other, in the order of the
    bullets.

    apart  pairs of names that you decided to keep apart
    """
    listed = list(bullets)
    reads = [_read(bullet.text) for bullet in listed]
    meetings = _meetings(listed, reads)
    pairs = [_pair(listed[i], reads[i], listed[j], reads[j]) for i, j in meetings]
    return [pair for pair in filter(None, pairs) if pair.names not in apart]


def near(text: str, section: str, bullets: Iterable[Bullet]) -> list[Pair]:
    """Return the pairs that a new text in a section makes with bullets. The text is in them as a
    bullet with the name "".
    """
    new = Bullet("", section, text)
    read = _read(text)
    pairs = [_pair(new, read, bullet, _read(bullet.text)) for bullet in bullets]
    return [pair for pair in pairs if pair is not None]


def alike(text: str, bullet: Bullet) -> bool:
    """Return whether a text gives the same advice as a bullet, in any section."""
    return any(pair.kind != "contradiction" for pair in near(text, bullet.section, [bullet]))


def _meetings(bullets: list[Bullet], reads: list[_Read]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of indexes that are worth a comparison: one text contains the rarest word of
    the other.

    Many texts of one template may contain that word. Then a text is compared only with the next
    ones that have the same words in any order.
    """
    holding: dict[str, list[int]] = defaultdict(list)
    made_of: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, read in enumerate(reads):
        made_of[read.in_any_order].append(number)
        for word in set(read.affirmed or read.written):
            holding[word].append(number)
    seen: set[tuple[int, int]] = set()
    for number, read in enumerate(reads):
        rarest = min(
            set(read.affirmed or read.written),
            key=lambda word: (len(holding[word]), word),
            default=None,
        )
        others = holding[rarest] if rarest is not None else []
        if len(others) > _MAX_MEETINGS:
            others = made_of[read.in_any_order]
            begin = bisect_right(others, number)
            others = others[begin : begin + _MAX_MEETINGS]
        for other in others:
            is_near = (
                bullets[other].section == bullets[number].section
                or reads[other].written == read.written
            )
            if other != number and is_near:
                seen.add((min(number, other), max(number, other)))
    yield from sorted(seen)


def _pair(a: Bullet, read_a: _Read, b: Bullet, read_b: _Read) -> Pair | None:
    """Return two bullets as a pair; None if they neither repeat nor contradict each other. In
    different sections, only bullets with the same words are a pair.
    """
    kind, why = _same(a.text, read_a, b.text, read_b)
    if kind is None:
        return None
    first, second = sorted((a, b), key=best_first)
    if a.section != b.section:
        if kind not in ("exact", "normalised"):
            return None
        return Pair(kind, f"{why}; their sections differ", (first, second))
    if _verdict(a) * _verdict(b) < 0:
        kind = "contradiction"
        why = f"{why}; one rule helped and the other harmed"
    if kind == "contradiction":
        return Pair(kind, why, (first, second))
    text = max(first.text, second.text, key=lambda text: len(_read(text).words))
    return Pair(kind, why, (first, second), text)


def _verdict(bullet: Bullet) -> int:
    return (bullet.helpful > bullet.harmful) - (bullet.helpful < bullet.harmful)


def _same(text_a: str, a: _Read, text_b: str, b: _Read) -> tuple[Kind | None, str]:
    """Return the kind of a pair of texts, and the reason; None and "" if they are not a pair."""
    if text_a == text_b:
        return "exact", "the same text"
    if _differ_in_a_name(a, b):
        return None, ""
    if a.written == b.written and a.written:
        return "normalised", "only case, punctuation or markup differ"
    is_short = min(len(a.affirmed), len(b.affirmed)) < _LEAST_WORDS
    if is_short or _relations(a) != _relations(b):
        return None, ""
    if a.words == b.words or _same_lists(a.listed, b.listed) or _is_longer(a, b):
        return "near", _difference(a, b)
    negates_one = (_NO in a.words) != (_NO in b.words)
    if negates_one and _without_use(a.affirmed) == _without_use(b.affirmed):
        return "contradiction", "one rule demands the action that the other forbids"
    return None, ""


def _differ_in_a_name(a: _Read, b: _Read) -> bool:
    """Return whether two texts write the same name with different capitals."""
    common = a.names.keys() & b.names.keys()
    return any(a.names[name].isdisjoint(b.names[name]) for name in common)


def _is_longer(a: _Read, b: _Read) -> bool:
    """Return whether the longer of two texts has all words of the other in the same order. It may
    have a few more words that do not limit it.
    """
    short, long = sorted((a, b), key=lambda read: len(read.words))
    more = len(long.words) - len(short.words)
    is_near = 0 < more <= len(short.words) // _WORDS_A_MORE
    if not is_near or not _is_within(short.words, long.words):
        return False
    added = (Counter(long.words) - Counter(short.words)).keys()
    # In a script without spaces, an added cluster may be a word of its own or change another word.
    matter = _LIMITED | long.names.keys() | long.proper
    return matter.isdisjoint(added) and not any(map(is_unspaced, added))


def _relations(read: _Read) -> tuple[int, bool, bool]:
    """Return facts that only the ignored words show. These are the number of words for a place or
    an aim, whether the text leaves a choice, and whether it asks.
    """
    choice = "or" in read.written and _NO not in read.listed
    return sum(word in _PLACES for word in read.written), choice, read.asks


def _same_lists(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Return whether two texts differ only in the order of a list, with the same words before and
    after it.
    """
    if Counter(a) != Counter(b):
        return False
    head = _same_words_in_front(a, b)
    tail = _same_words_in_front(a[::-1], b[::-1])
    return head > 0 and _members(a, head, tail) == _members(b, head, tail)


def _same_words_in_front(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    """Return the number of words with which both texts begin; 0 if all words are the same."""
    differences = (i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
    return next(differences, 0)


def _members(words: tuple[str, ...], head: int, tail: int) -> list[str]:
    return sorted(" ".join(words[head : len(words) - tail]).split(" , "))


def _without_use(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words without the verb that is missing after a negation: `use mocks`, `avoid
    mocks`.
    """
    return tuple(word for word in words if word not in _USES)


def _is_within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


def _difference(a: _Read, b: _Read) -> str:
    """Return a sentence about the words that only one of two duplicates has."""
    if any(map(is_unspaced, (*a.written, *b.written))):
        differ = _stretches(a.written, b.written)
    else:
        counts_a = Counter(a.written)
        counts_b = Counter(b.written)
        differ = sorted([*(counts_a - counts_b), *(counts_b - counts_a)])
    if not differ:
        return "the same words in another order"
    return f"the same words, apart from: {', '.join(differ)}"


def _stretches(a: tuple[str, ...], b: tuple[str, ...]) -> list[str]:
    """Return the parts of texts without spaces that only one of two has, without duplicates."""
    from difflib import SequenceMatcher  # most texts have spaces

    stretches: set[str] = set()
    for kind, *ends in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if kind != "equal":
            stretches |= {"".join(a[ends[0] : ends[1]]), "".join(b[ends[2] : ends[3]])}
    return sorted(stretches - {""})


@lru_cache(maxsize=4096)
def _read(text: str) -> _Read:
    """Return a text in the forms in which texts are compared."""
    plain = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY))
    plain = re.sub(_MARKS, "", re.sub(_LINK, r"\1 \2", plain))
    names = _names_in(plain)
    folded = plain.casefold()
    words: list[str] = []
    for sentence in re.split(_SENTENCE, folded):
        for number, part in enumerate(re.split(_SEPARATOR, _rewritten(sentence))):
            is_separator = number % 2 == 1
            if is_separator and words and words[-1] != ",":
                words.append(",")
            for token in _tokens(part):
                _add(words, token, token in names)
    return _Read(
        written=tuple(_tokens(folded)),
        listed=tuple(words),
        names=names,
        proper=frozenset(stem(word.casefold()) for word in re.findall(_CAPITALISED, plain)),
        asks=plain.rstrip(_EDGES.replace("?", "")).endswith("?"),
    )


def _names_in(plain: str) -> dict[str, frozenset[str]]:
    """Return the names, paths and commands in a text as they are written, by their lower case."""
    names: dict[str, set[str]] = defaultdict(set)
    for match in re.finditer(_QUOTED, plain):
        for token in _tokens(next(filter(None, match.groups()))):
            if not is_unspaced(token):
                names[token.casefold()].add(token)
    for token in _tokens(plain):
        if not _is_word(token):
            names[token.casefold()].add(token)
    return {name: frozenset(forms) for name, forms in names.items()}


def _is_word(token: str) -> bool:
    """Return whether a token is a word. A name has a digit, a sign, or a capital inside."""
    has_capital_inside = token[1:] != token[1:].lower() and not token.isupper()
    if has_capital_inside:
        return False
    is_plain = token.replace("-", "").replace("'", "").isalpha()
    return is_unspaced(token) or (is_plain and token[0] != "-")


def _rewritten(sentence: str) -> str:
    """Return a sentence with a leading condition moved to its end, and with one phrase for each
    meaning.
    """
    fronted = re.match(_FRONTED, sentence)
    text = f"{fronted[2]} {fronted[1]}" if fronted else sentence
    for pattern, phrase in _rewrites():
        text = pattern.sub(phrase, text)
    if is_unspaced(text):
        for pattern, phrase in _unspaced_rewrites():
            text = pattern.sub(phrase, text)
    return text


@cache
def _rewrites() -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(rf"(?<![\w-])(?:{old})(?![\w-])"), new) for old, new in _PHRASES]


@cache
def _unspaced_rewrites() -> list[tuple[re.Pattern[str], str]]:
    rewrites = [(unicodedata.normalize("NFKC", old), new) for old, new in _UNSPACED_PHRASES]
    return [(re.compile(old), new) for old, new in rewrites]


def _tokens(text: str) -> Iterator[str]:
    for piece in text.split():
        parts = clusters(piece)
        for part in parts:
            yield from _divided(part if len(parts) == 1 else part.lstrip(_EDGES.replace(".", "")))


def _divided(piece: str) -> Iterator[str]:
    """Yield the tokens of a piece of text that has no white space, without their punctuation."""
    token = (
        piece.lstrip("([{\"'*`")
        .rstrip(_EDGES)
        .removesuffix("'s")
        .rstrip("/")
        .replace("`", "")
        .replace('"', "")
    )
    if not any(map(str.isalnum, token)):
        token = token.strip("-_.,;:'")
    if token:
        is_joined = token.replace("-", "").isalpha() and token[0] != "-"
        yield from filter(None, token.split("-")) if is_joined else (token,)


def _add(words: list[str], token: str, is_name: bool) -> None:
    """Append a token in the form that is compared, unless it carries no advice of its own."""
    token = _NUMBERS.get(token, token)
    if not is_name and token in _NOT:
        words.append(_NO)
        return
    if not is_name and token in _EMPTY:
        return
    word = token if is_name else usual_word(token)
    if words and word in _USES and words[-1] in (_NO, *_USES):
        return
    words.append(word)


_USES = frozenset((stem("use"), "with"))
_LIMITED = {stem(word) for word in _LIMITS} | {_NO}
