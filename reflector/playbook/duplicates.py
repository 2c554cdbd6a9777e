"""Pairs of bullets that may say the same, and pairs that contradict each other.

Invariant: a pair is a duplicate only where both texts have the same words in the same order, apart
from words that carry no advice of their own, a few synonyms and the order of a list; a long text
may have a word more. A word in the place of another one is never overlooked: no threshold of a
similarity separates restatements from one template with other content. Numbers, names, paths,
commands and negations have to be equal. So has the section, unless the texts differ in their
writing only. Pairs are never joined to groups, and nothing here merges.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from reflector.playbook.bullet import Bullet, best_first
from reflector.text.words import clusters, is_unspaced

Kind = Literal["exact", "normalised", "near", "contradiction"]

#: Words of advice in which the longer text may have one word more.
_WORDS_A_MORE: Final = 12
#: Shorter texts are duplicates only where nothing but their writing differs.
_LEAST_WORDS: Final = 3
#: The most texts that one is compared with for a word of its own.
_MOST_MEETINGS: Final = 50

_PHRASES: Final = (
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
_REWRITES: Final = tuple(
    (re.compile(rf"(?<![\w-])(?:{old})(?![\w-])"), new) for old, new in _PHRASES
)

#: The same of scripts without spaces. What may be left out, that need not be done, and words that
#: limit stay.
_UNSPACED_PHRASES: Final = (
    # Japanese says by two negations that something has to be done.
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
_UNSPACED_REWRITES: Final = tuple(
    (unicodedata.normalize("NFKC", old), new) for old, new in _UNSPACED_PHRASES
)

_NOT: Final = frozenset("not no never avoid without none nothing neither nor cannot".split())
#: Words that carry no advice of their own.
_EMPTY: Final = frozenset(
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
#: Words that limit what is said: a text that has one more of them says something else.
_LIMITS: Final = frozenset(
    "if when whenever while unless until except only before after during from into over than may "
    "might can could "
    "but some most first last again instead optional optionally where once just off out up "
    "down".split()
)
_GROUPS: Final = (
    "use utilize utilise employ leverage prefer favor favour implement",
    "with using via",
    "run execute",
    "remove delete",
    "check verify confirm double-check",
    "folder directory",
    "repo repository",
    "docs documentation",
    "config configuration",
    "database db",
    "change modify edit alter",
    "start begin",
    "keep maintain",
    "large big",
    "descriptive meaningful",
    "dependency dep",
    "parameter param",
    "app application",
)
_PLACES: Final = frozenset("in inside within on at for by".split())
_NUMBERS: Final = {
    word: str(number)
    for number, word in enumerate(
        ("two three four five six seven eight nine ten eleven twelve").split(), start=2
    )
}
#: Marks of a list or a heading, and of emphasis.
_MARKS: Final = re.compile(
    (
        r"^\s*(?:[-*+>•]\s+|#+\s+|\[[ "
        r"xX]\]\s+|\d+[.)]\s+)+|\*\*|~~|(?<!\w)\*(?=\w)|(?<=[\w.,:;!?)])\*(?!\w)"
    ),
    re.M,
)
_LINK: Final = re.compile(r"\[([^\]\n]+)\]\(([^)\s]+)\)")
#: What is quoted is a name, a command or somebody's words.
_QUOTED: Final = re.compile(r"`+([^`\n]+)`+|\"([^\"\n]+)\"|(?<!\w)'([^'\n]+)'(?!\w)")
_TYPOGRAPHY: Final = str.maketrans(
    {"’": "'", "‘": "'", "“": '"', "”": '"', "–": " - ", "—": " - ", "…": " ", "→": "->"}
)
_EDGES: Final = ".,;:!?()[]{}\"'*`。、「」『』《》〈〉【】・។៕၊။"
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|\n+")
#: A condition in front of what it limits.
_FRONTED: Final = re.compile(
    (
        r"^\W*((?:before|when|whenever|after|if|while|once|until"
        r"|unless)\b[^,]*),\s*(?:then\s+)?(.+?)\W*$"
    ),
    re.S,
)
_SEPARATOR: Final = re.compile(r"(,(?=\s)|、|\s(?:and|or|&)\s)")
_CAPITALISED: Final = re.compile(r"(?<=[\w,] )[A-Z]\w+")
_NO: Final = "¬"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two live bullets, the better one first, and why they meet.

    text      what a merge of them says: the words of the better one, or of the one that says more;
              null where none can be proposed, as the two contradict each other or are in different
              sections
    proposal  the id of the proposal of that merge, `move` the command after which bullets of two
              sections can be merged; null where there is none
    """

    kind: Kind
    why: str
    bullets: tuple[Bullet, ...]
    text: str | None = None
    proposal: str | None = None
    move: str | None = None

    @property
    def names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.bullets)


class _Read(NamedTuple):
    """A text as it is compared: its words as written, those that carry its advice, and its
    names.
    """

    written: tuple[str, ...]
    #: With a comma between the members of a list.
    listed: tuple[str, ...]
    #: Names, paths and commands as they are written, by their lower case.
    names: dict[str, frozenset[str]]
    #: Capitalised words that begin no sentence.
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


def duplicates(bullets: Iterable[Bullet], kept: Collection[frozenset[str]] = ()) -> list[Pair]:
    """Return the pairs that may be the same advice, and those that contradict each other, in the
    order of the bullets.

    kept  pairs of names that a person decided to keep apart.
    """
    listed = list(bullets)
    reads = [_read(one.text) for one in listed]
    found = (_pair(listed[i], reads[i], listed[j], reads[j]) for i, j in _meetings(listed, reads))
    return [pair for pair in found if pair is not None and pair.names not in kept]


def near(text: str, section: str, bullets: Iterable[Bullet]) -> list[Pair]:
    """Return the pairs that a new text of a section makes with bullets; its own bullet has the
    name "".
    """
    new, read = Bullet("", section, text), _read(text)
    found = (_pair(new, read, one, _read(one.text)) for one in bullets)
    return [pair for pair in found if pair is not None]


def alike(text: str, bullet: Bullet) -> bool:
    """Return whether a text says what a bullet says, whatever section it would be put in."""
    return any(pair.kind != "contradiction" for pair in near(text, bullet.section, [bullet]))


def _meetings(bullets: list[Bullet], reads: list[_Read]) -> Iterator[tuple[int, int]]:
    """Yield pairs of numbers that are worth a comparison: one holds the rarest word of the other.

    Where too many texts hold that, as those of one template do, it meets the next ones with all of
    its words.
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
        if len(others) > _MOST_MEETINGS:
            others = made_of[read.in_any_order]
            begin = bisect_right(others, number)
            others = others[begin : begin + _MOST_MEETINGS]
        for other in others:
            is_near = (
                bullets[other].section == bullets[number].section
                or reads[other].written == read.written
            )
            if other != number and is_near:
                seen.add((min(number, other), max(number, other)))
    yield from sorted(seen)


def _pair(a: Bullet, read_a: _Read, b: Bullet, read_b: _Read) -> Pair | None:
    kind, why = _same(a.text, read_a, b.text, read_b)
    if a.section != b.section:
        kind, why = (
            kind if kind in ("exact", "normalised") else None,
            f"{why}; their sections differ",
        )
    if kind is None:
        return None
    if a.section == b.section and _verdict(a) * _verdict(b) < 0:
        kind, why = "contradiction", f"{why}; one helped and the other did harm"
    first, second = sorted((a, b), key=best_first)
    is_mergeable = kind != "contradiction" and a.section == b.section
    text = (
        max(first.text, second.text, key=lambda text: len(_read(text).words))
        if is_mergeable
        else None
    )
    return Pair(kind, why, (first, second), text)


def _verdict(bullet: Bullet) -> int:
    return (bullet.helpful > bullet.harmful) - (bullet.helpful < bullet.harmful)


def _same(text_a: str, a: _Read, text_b: str, b: _Read) -> tuple[Kind | None, str]:
    """How two texts say the same, and why; None where they do not."""
    if text_a == text_b:
        return "exact", "the same text"
    if any(a.names[name].isdisjoint(b.names[name]) for name in a.names.keys() & b.names.keys()):
        return None, ""
    if a.written == b.written and a.written:
        return "normalised", "only case, punctuation or markup differ"
    if min(len(a.affirmed), len(b.affirmed)) < _LEAST_WORDS:
        return None, ""
    if _relations(a) != _relations(b):
        return None, ""
    if a.words == b.words or _same_lists(a.listed, b.listed):
        return "near", _difference(a, b)
    if (_NO in a.words) != (_NO in b.words) and _without_use(a.affirmed) == _without_use(
        b.affirmed
    ):
        return "contradiction", "one says to do it, the other not to"
    short, long = sorted((a, b), key=lambda one: len(one.words))
    more = len(long.words) - len(short.words)
    if not 0 < more <= len(short.words) // _WORDS_A_MORE or not _is_within(short.words, long.words):
        return None, ""
    added = Counter(long.words) - Counter(short.words)
    # Of a script without spaces, nobody knows whether a cluster more is a word of its own or makes
    # another one.
    if any(
        word in _LIMITED or word in long.names or word in long.proper or is_unspaced(word)
        for word in added
    ):
        return None, ""
    return "near", _difference(a, b)


def _relations(read: _Read) -> tuple[int, bool, bool]:
    """Of what the words that carry no advice leave out: how often a text names a place or an aim,
    whether it leaves a choice, and whether it asks.
    """
    choice = "or" in read.written and _NO not in read.listed
    return sum(word in _PLACES for word in read.written), choice, read.asks


def _same_lists(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Whether two texts differ only in the order of a list: the words before and behind it are
    the same.
    """
    if Counter(a) != Counter(b):
        return False
    head = next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), 0)
    tail = next((i for i, (x, y) in enumerate(zip(a[::-1], b[::-1], strict=True)) if x != y), 0)
    members = (sorted(" ".join(one[head : len(one) - tail]).split(" , ")) for one in (a, b))
    return head > 0 and next(members) == next(members)


def _without_use(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words without the verb that a negation swallows: `use mocks`, `avoid mocks`."""
    return tuple(word for word in words if word not in _USES)


def _is_within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    rest = iter(long)
    return all(word in rest for word in short)


def _difference(a: _Read, b: _Read) -> str:
    if any(map(is_unspaced, (*a.written, *b.written))):
        differ = _stretches(a.written, b.written)
    else:
        only = (Counter(one.written) - Counter(other.written) for one, other in ((a, b), (b, a)))
        differ = sorted(word for counter in only for word in counter)
    return (
        f"the same words but for: {', '.join(differ)}"
        if differ
        else "the same words in another order"
    )


def _stretches(a: tuple[str, ...], b: tuple[str, ...]) -> list[str]:
    """Return what one of two texts without spaces has and the other has not, each stretch once."""
    from difflib import SequenceMatcher  # most texts have spaces

    found: list[str] = []
    for kind, start_a, end_a, start_b, end_b in SequenceMatcher(
        None, a, b, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            found += filter(None, ("".join(a[start_a:end_a]), "".join(b[start_b:end_b])))
    return sorted(set(found))


@lru_cache(maxsize=4096)
def _read(text: str) -> _Read:
    plain = unicodedata.normalize("NFKC", text.translate(_TYPOGRAPHY))
    plain = _MARKS.sub("", _LINK.sub(r"\1 \2", plain))
    names: dict[str, set[str]] = defaultdict(set)
    for match in _QUOTED.finditer(plain):
        for token in _tokens(next(filter(None, match.groups()))):
            if not is_unspaced(token):
                names[token.casefold()].add(token)
    for token in _tokens(plain):
        is_word = is_unspaced(token) or (
            token[0] != "-" and token.replace("-", "").replace("'", "").isalpha()
        )
        if not is_word or (token[1:] != token[1:].lower() and not token.isupper()):
            names[token.casefold()].add(token)
    folded = plain.casefold()
    written = tuple(_tokens(folded))
    proper = {_stem(word.casefold()) for word in _CAPITALISED.findall(plain)}
    words: list[str] = []
    for sentence in _SENTENCE.split(folded):
        fronted = _FRONTED.match(sentence)
        moved = f"{fronted[2]} {fronted[1]}" if fronted else sentence
        for pattern, new in _REWRITES:
            moved = pattern.sub(new, moved)
        for old, new in _UNSPACED_REWRITES if is_unspaced(moved) else ():
            moved = re.sub(old, new, moved)
        for number, part in enumerate(_SEPARATOR.split(moved)):
            if number % 2 and words and words[-1] != ",":
                words.append(",")
            for token in _tokens(part):
                _add(words, token, token in names)
    forms = {name: frozenset(found) for name, found in names.items()}
    return _Read(
        written,
        tuple(words),
        forms,
        frozenset(proper),
        plain.rstrip(_EDGES.replace("?", "")).endswith("?"),
    )


def _tokens(text: str) -> Iterator[str]:
    for piece in text.split():
        parts = clusters(piece)
        for part in parts:
            yield from _divided(part if len(parts) == 1 else part.lstrip(_EDGES.replace(".", "")))


def _divided(piece: str) -> Iterator[str]:
    """Yield the tokens of what is between white space, without its punctuation."""
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
    """Append a token as it is compared, unless it says nothing of its own."""
    token = _NUMBERS.get(token, token)
    if not is_name and token in _NOT:
        words.append(_NO)
        return
    if not is_name and token in _EMPTY:
        return
    word = token if is_name else _SAME.get(_stem(token), _stem(token))
    if words and word in _USES and words[-1] in (_NO, *_USES):
        return
    words.append(word)


def _stem(word: str) -> str:
    """A word without the ending of its number or tense. `important` is not `import`: only such
    endings are cut.
    """
    if not word.isascii() or not word.isalpha() or len(word) < 4:
        return word
    for ending, new in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ing", ""),
        ("ied", "y"),
        ("ed", ""),
        ("s", ""),
    ):
        root = word.removesuffix(ending)
        if (
            root == word
            or len(root) < 3
            or set(root).isdisjoint("aeiouy")
            or word.endswith(("ss", "us", "is"))
        ):
            continue
        word = root + new
        if ending in ("ing", "ed") and word[-1] == word[-2] and word[-1] not in "lsz":
            word = word[:-1]
        break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


_SAME: Final = {_stem(word): _stem(group.split()[0]) for group in _GROUPS for word in group.split()}
_USES: Final = frozenset((_stem("use"), "with"))
_LIMITED: Final = {_stem(word) for word in _LIMITS} | {_NO}
