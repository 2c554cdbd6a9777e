# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""What a person's message says about the work before it: approval, objection, a symptom, or nothing.

Invariant: most messages are the next task and say nothing. A word counts only where people judge:
at the start of a message or a clause, in the first lines of a long one, outside pasted text, and
not behind "if", "make sure" or a negation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from reflector.reflection.rules.table import Rule, found
from reflector.reflection.rules.topics import content_words
from reflector.reflection.rules.words_of_agents import RULES as AGENT_RULES
from reflector.reflection.rules.words_of_people import RULES

Bearing = Literal["approves", "builds_on", "corrects", "symptom", "mixed", "continues", "asks", "other"]


@dataclass(frozen=True, slots=True)
class Stance:
    """`quote` is what the person wrote, from the decisive clause on. `about` are the words to compare topics by.

    deictic   the message points at the work without naming it: "this is wrong", or says too little to name it
    good, bad the words of the praising and of the objecting part of a mixed message
    answers   the agent had asked before it
    more      a weak approval with more behind it that is not the next task
    """

    bearing: Bearing
    strength: int
    quote: str
    rule: str
    about: frozenset[str] = frozenset()
    words: int = 0
    deictic: bool = False
    good: frozenset[str] = frozenset()
    bad: frozenset[str] = frozenset()
    more: bool = False
    answers: bool = False

    @property
    def objects(self) -> bool:
        """True for an objection or a reported symptom."""
        return self.bearing in ("corrects", "symptom")


_NOTHING = Stance("other", 0, "", "")

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_TAG = re.compile(r"<([\w-]+)[^<>]*>.*?</\1>|\[Image[^\]]*\]|\[Pasted text[^\]]*\]", re.DOTALL)
_LOG_LINE = re.compile(
    r"^\s*(?:at \S+ ?\(|FATAL(?: ERROR)?\b|ERROR\b|\d+: 0x|-{3,} \S|<-{2,}|#\d+ +0x|File \"|[\d:TZ.\-/ ]{8,}[\[ ]|[$>❯%] |\||[│┌└├╭╰━═─]{2}|\S+:\d+:\d+|(?:\w+\.)*\w*(?:Error|Exception): |error\b.*:|warning\b.*:|npm |\[\w+\] |[+-]{3} |@@ |diff --git|Traceback|Caused by|\d+ *[|│→]|⏺|⎿|✗|✘|×|FAIL|ERR!)",
    re.IGNORECASE,
)
_PASTED_ERROR = re.compile(
    r"Traceback \(most recent|\w+(?:Error|Exception)\b ?[:(]|\berror(?:\[\w+\])?: |npm (?:ERR|error)|\bFAIL(?:ED)?\b|panic:|fatal:|FATAL|✗|✘|Uncaught |Failed to |exit code [1-9]|error TS\d+|ERROR|status (?:code )?[45]\d\d|Cannot (?:find|read)|undefined is not|not found\b"
)
_TASK = re.compile(
    r"(?:implement the following plan|## |# |you are (?:a|an|the|working)|your task|this session is being continued|please (?:implement|create|write|build|review)|(?:create|write|build|design|generate|review|analy[sz]e|investigate|refactor|implement|research|read|look at|check out|set ?up|prepare) (?:a|an|the|all|this|that|these|every|each|our|my|@|https?:)|i want (?:you )?to (?:build|create|make|add|write|analy[sz]e|implement|do|start|plan|work)|(?:now |then |also |next[,:]? |and |ok,? |okay,? )*(?:add|create|implement|write|build|rename|document|make a|generate|introduce|support|let'?s (?:work|add|create|build|start|move|do|now|implement|make|also)) )",
    re.IGNORECASE,
)
_ADVERSATIVE = re.compile(
    r"\b(?:but|however|except|although|though|only|unfortunately|yet)\b",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"\b(?:can (?:we|you|i)|could (?:we|you)|let'?s|make|please|should|need|needs|want|would like|would prefer|change|fix|remove|move|use|add|update|replace|try|maybe|why|what about|how about|there(?:'s| is| are)|missing|too|not|n't|no|doesn'?t|isn'?t)\b",
    re.IGNORECASE,
)
_UNREAL = re.compile(
    r"(?:\b(?:if|whether|make sure|ensure|so that|until|once|unless|check(?:ing)?|verify|test|see|when|how|why|which|explain|confirm|want|wants|needs? to|should|would|could|must|may|might|will|does|did|is|are|supposed to|expect\w*|in case|before|tell me|know)\b|n't|\bnot\b|\bno\b|\bnever\b)[^.!?\n,;]{0,24}$",
    re.IGNORECASE,
)
#: "if it does not load, show …", "what else is missing": a case to handle, not one that was met.
_CASE = re.compile(
    r"\b(?:if|in case|whenever|make sure|ensure|so that|unless|until|what(?: else)?|whether|check (?:if|that)|(?:nice|good|great|glad|happy|cool|relieved) (?:that|how|to see|it|we))\b[^.!?\n,;]{0,24}$",
    re.IGNORECASE,
)
#: "works, but a question: …", "but now how do I …": what follows is a question, not an objection.
_QUESTION = re.compile(
    r"\W*(?:(?:i have |just |now |still |one |another |a |my |quick |next |small )*questions?\b)", re.IGNORECASE
)
_DOUBT = re.compile(
    r"\W*(?:(?:and|so|ok|but|hm+|wait|also)\b\W*)*(?:do|does|did|is|are|was|were|would|should|could|can|will|what|how|why|which|who|where|when|since when)\b",
    re.IGNORECASE,
)
#: "works, but swap it for …".
_SWAP = re.compile(
    r"\b(?:swap|replace|switch|rewrite|redo|rework|convert|drop|remove) (?:it|this|that|them)\b", re.IGNORECASE
)
#: What follows praise of one part and is the next task, not a word on the other parts.
_NEXT = re.compile(
    r"\W*(?:(?:ok|okay|and|so|then|now|next|also|please|great|thanks|cool)\b\W*)*(?:now|next|also|then|thanks|thank you|thx|can you|could you|let'?s|please|commit|push|merge|ship)\b",
    re.IGNORECASE,
)
#: "the first is kept, the second isn't".
_HALF = re.compile(
    r"(?!why|how|what|if|is|are|does|make|please)[^.!?\n]{3,80}\b(?:is|are|works?|shows?|does|do|did|loads?|looks?|fits?)\b[^.!?\n]{0,60}(?:,| but| and) [^.!?,\n]{2,60} (?:isn'?t|aren'?t|doesn'?t|don'?t|didn'?t|is not|are not|does not|do not|did not|won'?t|not)[.! ]*$",
    re.IGNORECASE,
)
#: "the numbers are also wrong": another thing, which is named.
_ALSO = re.compile(
    r"(?:(?:ok|okay|and|so|btw|hey|oh|thanks)[,.!]* )*(?:also[,:]? (?:the|our|my|when|on|in)\b|(?:the|our|my|some|all) [\w-]+(?: [\w-]+){0,5} (?:is|are|was|were|does|do) also\b)",
    re.IGNORECASE,
)
#: A change of plans: what was done is not wanted any more, whatever it was worth.
_PLANS = re.compile(
    r"\b(?:changed (?:my|our|their) minds?|plans? (?:have |has )?changed|after all\b|not (?:a )?priority|no longer (?:need|want|relevant)|(?:talked|spoke|discussed) (?:to|with|it with) (?:the |my |our )?\w+|(?:boss|team|client|pm|management|marketing|legal|product) (?:decided|cancell?ed|dropped|changed))",
    re.IGNORECASE,
)
_NEW_REPORT = re.compile(
    r"(?:help me|users? (?:report|say|complain|are)|we have an? (?:issue|bug|problem)|investigate|debug|diagnose|look (?:at|into) (?:issue|#|https?:)|fix (?:issue|#|https?:)|(?:(?:ok|okay|and|so|now|thanks|thx|great|cool|good|fine|alright)\b[,.!:]* )*(?:next(?: up| thing| one)?[:,]|on to\b|moving on\b|(?:something|one thing|thing) (?:else|unrelated)|unrelated\b|separate(?:ly)?\b|different (?:topic|thing|question)|by the way[, ]+(?:i|we|the)\b(?! still))|(?:a|another|new|next) (?:issue|bug|problem|task|question|thing)\b|bug report)",
    re.IGNORECASE,
)
_DEICTIC = re.compile(
    r"\b(?:it|its|it'?s|this|that|that'?s|these|those|you|your|all|everything|still|again|now)\b", re.IGNORECASE
)
_HURRIED = re.compile(
    r"\b(that|there|here|what|who|it(?=s (?:not|still|too|just|now|gone|broken|wrong|way|so)\b))(s)\b"
    r"|\b((?:do|does|did|is|are|was|were|wo|ca|could|should|would|have|has|had)n)(t)\b|\b(you|they)(re)\b|\b(i|you|we)(ve)\b|\b(i)(m)\b",
    re.IGNORECASE,
)
#: A remark whose subject is a pronoun, or that has none, is about what was just done.
_POINTS = re.compile(
    r"(?:(?:h+m+|ok|okay|no|nope|but|and|well|now|ugh|hey|sorry|uh|yeah|wait)[,.]* )*(?:it|its|it'?s|that'?s?|this|these|those|they|they'?re|nothing|still|same|again|doesn'?t|didn'?t|isn'?t|not)\b",
    re.IGNORECASE,
)
#: A question about facts: what it asks about is not thereby reported.
_ASKING = re.compile(
    r"(?:(?:and|ok|okay|so|but|also|hey|now|wait|then)[,.]* )*(?:how (?:many|much|long|often|do|does|can|should|would|to|is|are)|which|what(?:'s| is| are| was| happens| does| do| would| if| about)|when|who|where|is there|are there|any|do we|do i|can i|should|if)\b",
    re.IGNORECASE,
)
#: Beyond this many characters a message is a brief, not a remark: only its first clauses are read.
_REMARK = 700
#: Characters of a message that are read at all.
_READ = 16 * 1024


def read_stance(text: str, *, refused: bool = False, answers: bool = False) -> Stance:
    """Return what this message says about the work before it.

    refused   the message is the reason given with a refused tool call
    answers   the agent had asked a question, so a plain yes or no is its answer
    """
    text = text[:_READ]
    written, pasted = _prose(text)
    prose = _spelled(written)
    about = content_words(text)
    count = len(prose.split()) if prose.isascii() else max(len(prose.split()), len(prose) // 3)
    if not prose:
        if pasted:
            return Stance("symptom", 2, _quote(text), "pasted-error", about, 0)
        return replace(_NOTHING, about=about)
    hits = list(_hits(prose, brief=len(prose) > _REMARK, answers=answers))
    stance = _weighed(prose, hits)
    if stance.bearing in ("other", "asks", "continues") and pasted and count < 60:
        stance = Stance("symptom", 2, _quote(text), "pasted-error")
    if stance.rule == "stop" and count <= 3 and not refused:
        return Stance("continues", 1, _quote(prose), "bare-stop", about, count)
    if refused and not stance.objects and stance.bearing not in ("continues", "approves", "builds_on", "asks"):
        stance = Stance("corrects", 3, _quote(prose), "refused-with-reason")
    deictic = len(about) <= 1 or (len(about) <= 4 and _DEICTIC.search(prose) is not None)
    points = stance.objects and count <= 16 and _POINTS.match(prose) is not None
    return replace(
        stance,
        quote=_as_written(stance.quote, written, prose) or _quote(written),
        about=about,
        words=count,
        deictic=deictic or points,
        answers=answers,
    )


def _spelled(prose: str) -> str:
    """With the apostrophes that hurried people leave out, so that no row has to know both spellings."""
    straight = prose.replace("’", "'")
    return _HURRIED.sub(lambda match: "'".join(part for part in match.groups() if part), straight)


def _as_written(quote: str, written: str, prose: str) -> str:
    """Return the quote in the person's own spelling."""
    if prose == written or not quote:
        return quote
    plain = " ".join(written.split())
    at = " ".join(prose.split()).find(quote)
    return plain[at - _added(plain, at) :][:200] if at >= 0 else quote


def _added(plain: str, at: int) -> int:
    """Return how many apostrophes `_spelled` put in front of position `at`."""
    added = 0
    for match in _HURRIED.finditer(plain):
        if match.start() + added >= at:
            break
        added += 1
    return added


def read_reaction(text: str) -> Literal["concedes", "glad", ""]:
    """Return how the agent's first words after a message take it: as a correction, as thanks, or neither."""
    head = " ".join(text[:400].split())
    for rule in AGENT_RULES:
        if rule.id in ("concedes", "reads-person-as-unhappy", "glad"):
            match = found(rule, head)
            if match is None:
                continue
            if rule.id == "glad":
                return "glad"
            if match.start() < (250 if rule.id == "reads-person-as-unhappy" else 120):
                return "concedes"
    return ""


def _prose(text: str) -> tuple[str, bool]:
    """Return what the person wrote themselves, and whether what they pasted holds an error."""
    bare = _FENCE.sub("\n", _TAG.sub(" ", text))
    kept: list[str] = []
    dropped: list[str] = _FENCE.findall(text)[:4]
    for line in bare.splitlines():
        (dropped if _LOG_LINE.match(line) and len(line) > 12 else kept).append(line)
    pasted = any(_PASTED_ERROR.search(part[:2000]) for part in dropped[:40])
    prose = "\n".join(line.strip() for line in kept if line.strip())
    return re.sub(r"https?://\S+", "", prose).strip(), pasted


def _clauses(prose: str) -> Iterator[tuple[int, str]]:
    start = 0
    for match in re.finditer(
        r"[.!?;:…]+(?=\s|$)|[。！？；，、]|\n|, | - | – | — |\s(?=(?:but|however|although|because|and then)\b)", prose
    ):
        yield start, prose[start : match.end()]
        start = match.end()
    yield start, prose[start:]


def _hits(prose: str, *, brief: bool, answers: bool) -> Iterator[tuple[int, Rule]]:
    """Positions and rules that match, at most one per rule."""
    head = prose[:240] if brief else prose[:_REMARK]
    lead = head.lstrip("\"'*_-–—•> ")
    offset = len(head) - len(lead)
    clauses = [(at, clause.lstrip(" \"'*_-–—•>")) for at, clause in _clauses(head)][:16]
    for rule in RULES:
        if answers and rule.id in ("no", "dont", "hesitates"):
            continue
        if rule.place == "start":
            match = found(rule, lead)
            if match is not None:
                yield offset, rule
            continue
        if rule.place == "clause":
            at = next(
                (
                    at
                    for at, part in clauses
                    if found(rule, part) and not (_asked(rule, part) or _doubted(rule, head, at))
                ),
                None,
            )
            if at is not None:
                yield at, rule
            continue
        match = found(rule, head)
        if match is None:
            continue
        guard = _UNREAL if rule.signal in ("approves", "builds_on") else _CASE
        if guard.search(head[: match.start()]):
            continue
        if _doubted(rule, head, match.start()):
            continue
        if any(at <= match.start() < at + len(clause) and _asked(rule, clause) for at, clause in clauses):
            continue
        yield match.start(), rule


def _doubted(rule: Rule, head: str, at: int) -> bool:
    """Return whether the approval at this place is only asked about: "is this really a good idea?"."""
    if rule.signal != "approves":
        return False
    start = max(head.rfind(mark, 0, at) for mark in ".!?\n") + 1
    end = next((place for place in range(at, len(head)) if head[place] in ".!?\n"), len(head))
    return head[end : end + 1] == "?" and _DOUBT.match(head[start:end]) is not None


def _asked(rule: Rule, clause: str) -> bool:
    """Return whether a symptom is only asked about: "how many tests are failing now?"."""
    return rule.signal == "symptom" and rule.id != "still" and _ASKING.match(clause) is not None


def _weighed(prose: str, hits: list[tuple[int, Rule]]) -> Stance:
    good = _best(hits, ("approves", "builds_on"))
    bad = _best(hits, ("symptom", "corrects"))
    task = _TASK.match(prose) is not None
    if bad and task and (len(prose) > 200 or bad[1].strength < 3) and bad[1].id != "reports-error":
        bad = None  # a task says what it wants not to happen
    if bad and bad[1].signal == "corrects" and _PLANS.search(prose):
        bad = None
    if bad and (_NEW_REPORT.match(prose) or (_ALSO.match(prose) and not _POINTS.match(prose))):
        bad = None
    if bad and bad[1].strength == 1 and not good:
        bad = bad if len(prose) < 200 else None
    if good and bad:
        turned = _ADVERSATIVE.search(prose, good[0])
        if good[1].id == "praises-part" and bad[0] > good[0]:
            cut = turned.start() if turned and turned.start() < bad[0] else bad[0]
            return _mixed(prose, f"{good[1].id}+{bad[1].id}", cut)
        if turned and _QUESTION.match(prose, turned.end()) and bad[0] > turned.start():
            return _stance(prose, good)
        if bad[0] < good[0] and bad[1].strength <= good[1].strength and good[1].signal == "approves":
            return _stance(prose, good)
        if good[1].id.startswith("works") and bad[1].strength >= 2 and turned:
            return _mixed(prose, f"{good[1].id}+{bad[1].id}", max(bad[0], turned.start()))
        if good[1].strength == 3 and bad[1].strength < 3:
            return _stance(prose, good)
        if turned and bad[0] >= turned.start():
            liked, blamed = content_words(prose[: turned.start()]), content_words(prose[turned.start() :])
            return replace(_stance(prose, bad), good=liked, bad=blamed)
        return _stance(prose, bad)
    if good:
        turned = _ADVERSATIVE.search(prose, good[0])
        more = _more(prose[good[0] :])
        if good[1].id == "praises-part" and more:
            return _mixed(prose, "praises-part+rest", good[0] + more)
        if good[1].id.startswith("works") and turned and _SWAP.search(prose, turned.end()):
            return Stance("mixed", 2, _quote(prose), f"{good[1].id}+swap")
        if good[1].id.startswith("works") and re.search(r"\b(?:except|apart from|other than|aside from)\b", prose):
            return Stance("mixed", 2, _quote(prose), f"{good[1].id}+except")
        if turned and good[1].signal == "approves" and good[1].strength < 3:
            rest = prose[turned.end() : turned.end() + 200]
            if _WISH.search(rest) and good[1].id == "good-idea":
                return Stance("mixed", 2, _quote(prose), "good-idea+but")
            if _WISH.search(rest):
                liked, blamed = content_words(prose[: turned.start()]), content_words(rest)
                return Stance("corrects", 2, _quote(prose), f"{good[1].id}+but", good=liked, bad=blamed)
        return replace(_stance(prose, good), more=good[1].strength < 3 and more > 0)
    if bad:
        return _stance(prose, bad)
    if _HALF.match(prose):
        return Stance("mixed", 2, _quote(prose), "one-not-the-other")
    for signal in ("continues", "asks"):
        other = _best(hits, (signal,))
        if other:
            return _stance(prose, other)
    return _NOTHING


def _more(praise: str) -> int:
    """Return where more is said behind the praise that is not the next task; 0 where nothing is."""
    end = re.search(r"[.!?;,\n](?=\s|$)", praise)
    rest = praise[end.end() :] if end else ""
    return (
        end.end() if end and len(rest.split()) >= 4 and not _NEXT.match(rest) and not _TASK.match(rest.strip()) else 0
    )


def _mixed(prose: str, rule: str, cut: int) -> Stance:
    """Praise up to the clause of `cut`, an objection from there on."""
    cut = max(prose.rfind(mark, 0, cut) for mark in ".!?;,\n") + 1 or cut
    return Stance("mixed", 2, _quote(prose), rule, good=content_words(prose[:cut]), bad=content_words(prose[cut:]))


def _best(hits: list[tuple[int, Rule]], signals: tuple[str, ...]) -> tuple[int, Rule] | None:
    """Return the strongest hit, the earliest of equals."""
    wanted = [hit for hit in hits if hit[1].signal in signals]
    return min(wanted, key=lambda hit: (-hit[1].strength, hit[0]), default=None)


def _stance(prose: str, hit: tuple[int, Rule]) -> Stance:
    at, rule = hit
    start = max(prose.rfind("\n", 0, at), prose.rfind(". ", 0, at)) + 1
    bearing: Bearing = rule.signal  # type: ignore[assignment]
    return Stance(bearing, rule.strength, _quote(prose[start:]), rule.id)


def _quote(text: str) -> str:
    return " ".join(text.split())[:200]
