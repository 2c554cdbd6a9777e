# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""Rows for what the agent itself says: conceding, finding, expecting a failure, reverting, confirming.

Invariant: the agent's words never decide alone. They explain the person's message or the result that
stands before them; only a find or a revert is evidence of its own.
"""

from __future__ import annotations

from reflector.reflection.rules.table import Place, Rule, Signal, Strength


def _row(
    id: str,
    signal: Signal,
    strength: Strength,
    looks_for: str,
    pattern: str,
    example: str,
    counter: str,
    place: Place = "anywhere",
) -> Rule:
    return Rule(id, "agent", signal, strength, looks_for, pattern, example, counter, place)


RULES: tuple[Rule, ...] = (
    _row(
        "concedes",
        "concedes",
        3,
        "the agent concedes an error to the person",
        r"\b(?:I(?:'m| am)? (?:sincerely |deeply |really |so |very )*(?:apologi[sz]e|sorry|apologies)|my (?:mistake|apologies|bad|error|fault)|apologies\b|sorry(?:,| about| for)|I (?:misunderstood|misread|misinterpreted|was wrong|had (?:it|that) (?:wrong|backwards)|got (?:it|that) (?:wrong|backwards)|overcomplicated|over-?engineered|shouldn'?t have|should have|made (?:a|an) (?:mistake|error)|jumped the gun|overstepped|went too far|missed (?:that|the point))|you(?:'re| are) (?:absolutely |completely |totally |quite |entirely )?right(?! to (?:ask|wonder))|(?:good|great|nice) catch|fair (?:point|enough|criticism)|let me step back|point taken|touch[eé]\b|lo siento|tienes (?:toda la )?razón|perd[oó]n\b|vous avez raison|tu as raison|désolé|du hast recht|sie haben recht|entschuldig|você tem razão|desculp|hai ragione|mi scuso|scusa\b|вы правы|ты прав|извин|прошу прощения)|申し訳|すみません|ご指摘|おっしゃる通り|その通りです|你说得对|您说得对|抱歉|对不起|죄송|맞습니다|말씀이 맞",
        "You're right, that table is not needed.",
        "The right margin is set to zero.",
    ),
    _row(
        "reads-person-as-unhappy",
        "concedes",
        3,
        "the agent's thinking says that the person objects, corrects or still sees the problem",
        r"\bthe user (?:is|was|seems|says|said|wants me to (?:stop|revert|undo)|has|doesn'?t|does not|didn'?t|rejected|interrupted|clarif\w+|correct\w*|report\w*|notice[ds]?)\b(?: that)?(?: \w+){0,4}? ?(?:frustrat\w+|upset|angry|annoyed|unhappy|not happy|dissatisf\w+|correct(?:ing|ed) me|point(?:s|ing) out (?:that )?(?:\w+ ){0,5}(?:issue|problem|bug|mistake|error|flaw|wrong|incorrect|missing|broken|not|isn'?t|doesn'?t)\b|complain\w*|criticiz\w+|still (?:see\w*|get\w*|ha\w+|not|doesn'?t|fail\w*)|not working|doesn'?t work|stop(?:ped)?\b|object\w*|push(?:ing|ed) back|disagree\w*|rejected|corrected)|\bthe user(?:'s| is) (?:absolutely |completely |totally )?(?:right|correct)\b",
        "The user is frustrated with the layout.",
        "The user is asking about the layout.",
    ),
    _row(
        "glad",
        "approves",
        2,
        "the agent answers that it is glad it works",
        r"(?:glad (?:it|that|to hear|you|everything)|happy (?:it|that|to hear|everything)|you'?re welcome|the user (?:is (?:happy|satisfied|pleased)|confirm\w+ (?:that )?(?:it|this|the \w+) (?:is |now )*work\w*|likes|approves|approved|is thanking|thanked))",
        "Glad it works now!",
        "The glade theme is the default.",
    ),
    _row(
        "finds",
        "finds",
        3,
        "the agent found the cause or what it looked for",
        r"(?:\b(?:good|glad|lucky)(?: thing| call)?(?: that)? (?:i|we) (?:look|check|ran|run|ask|test|measur|profil|search|read|verif|tried|did)\w*|\b(?:found (?:it\b|the (?:issue|problem|bug|cause|root cause|culprit|error|bottleneck|mismatch|reason|real|actual|exact))|(?:here'?s|that'?s|there'?s|this is|and there it is|there it is:?|i see) (?:exactly )?(?:the (?:actual |real |underlying |root )?(?:issue|problem|bug|root cause|culprit|smoking gun)|why\b)|(?:the )?root cause (?:is|found|identified|confirmed|was)|smoking gun|(?:^|[.!] )(?:that'?s it|there it is|bingo|aha)(?:[:!]| [—–-])|(?:the|here'?s the) (?:cause|culprit|reason) (?:is|was)\b|(?:introduced|caused|broke) (?:it|the (?:bug|regression|problem|slowdown|failure))\b|(?:is|are) (?:to blame|the (?:cause|culprit|first bad commit))\b|now i (?:see|understand|know) (?:the (?:actual |real |root )?(?:issue|problem|bug|cause)|why|what(?:'s| is) (?:wrong|happening|going on))|now i can see (?:the )?(?:actual|real|true|exact)|identified the (?:issue|problem|bug|cause|root cause)|(?:real|actual) (?:bug|issue|problem|culprit) (?:is|was)\b|this (?:explains|confirms) (?:the|why|that|it)|caught (?:a|an|the|two|three|four|five|several|\d+) (?:\w+ )?(?:bugs?|issues?|problems?|errors?|things?|mistakes?|regressions?|defects?)|(?:review|test|tests|linter|lint|check|build|compiler|audit|verification|it) (?:caught|found|revealed|uncovered|surfaced|flagged|turned up) (?:a|an|the|two|three|four|five|several|real|\d+)\b)|原因(?:が|は|を)(?:分か|特定|判明)|問題(?:が|を)(?:見つ|特定)|找到(?:了)?(?:问题|原因|根因)|问题(?:找到|在于|出在)|원인(?:을|이|은) (?:찾|발견|파악)|нашёл (?:проблему|причину|баг)|encontr[eé] el (?:problema|error)|j'ai trouvé|problem gefunden|ursache gefunden)",
        "Found the issue: the index is read before it is built.",
        "Let me look for the issue.",
    ),
    _row(
        "expected-failure",
        "expected",
        3,
        "the failure was expected: a red phase, or proof that a check bites",
        r"(?:fail(?:s|ed|ing|ure|ures)?,? (?:\w+ )?(?:as expected|as intended|as it should|correctly|for the right reason|because .{0,40}(?:not (?:yet )?(?:implemented|exist)|doesn'?t exist yet|missing))|(?:as )?expected(?:ly)? (?:to )?(?:fail\w*|red\b|error)|expected,? (?:since|because|as) |(?:red|RED)(?: phase| state| step)?(?: is)? (?:confirmed|verified|as expected)|tests? (?:should|will|must) fail|confirm(?:s|ed|ing)? (?:that )?(?:the |it |they |all )*(?:\w+ )?(?:tests? )?fail|watch (?:it|them) fail|(?:good|great|perfect)[,.!—-]* (?:the |it |they |all )*(?:\w+ )*fail|reproduc(?:ed|es) (?:the|it|this|that|with|in)\b|\breproduced[:.!]|bug (?:is )?reproduced|now (?:i'll |let me )?(?:implement|make (?:it|them|the tests?) pass))",
        "The new tests fail as expected. Now the implementation.",
        "The tests fail because of a typo.",
    ),
    _row(
        "unrelated-failure",
        "expected",
        2,
        "the failure was there before or has another cause",
        r"(?:pre-?existing|already (?:failing|broken|failed)|(?:unrelated|not related|nothing to do) (?:to|with)|\bunrelated(?=[:.,;)])|\bunrelated (?:\w+ )?(?:failure|error|problem|issue|test|warning|job)s?\b|(?:not|n't) (?:caused|introduced|from|because of|due to|related to|broken by|coming from) (?:by )?(?:my|our|this|these)\b|fail(?:s|ing|ed)? (?:on|without) (?:main|master|my change)|flaky|(?:due to|because of|caused by) (?:the |a |an )?(?:new(?:er)?|latest|recent|upstream|outdated|stale|expired) |(?:which )?I (?:have ?n[o']?t|did ?n[o']?t|never) (?:touch|chang|modif|edit)\w*|also fails (?:on|without)|environment(?:al)? (?:issue|problem|limitation)|was (?:failing|broken) before)",
        "These two failures are pre-existing and unrelated to my change.",
        "These two failures need a fix.",
    ),
    _row(
        "reverts",
        "reverts",
        3,
        "the agent takes back what it did",
        r"(?:\b(?:let me|i'?ll|i will|i need to|i should|i'm going to|going to|need to|i have to|must|better to|best to) (?:just |first |now |immediately |quickly )*(?:revert|undo|roll(?:ing)? back|back out|restore the (?:original|previous|old))\b|\b(?:reverted|reverting|restoring|undoing|rolled back|rolling back|backed out|backing out) (?:that|this|the|my|these|it|to)\b|そ?れ?を?(?:元に戻し|リバート)|回滚|撤销(?:刚才|之前|我的)|сделаю откат|откатываю|revierto|je reviens en arrière)",
        "That made it worse. Let me revert this change.",
        "The revert button is disabled.",
    ),
    _row(
        "abandons",
        "abandons",
        2,
        "the agent drops its way and tries another",
        r"\b(?:(?:let me|i'?ll|let's) try (?:a |an |another |some )?(?:different|another|other|alternative|simpler|new) ?(?:approach|way|method|strategy|tool|command)?|(?:that|this|it) (?:did ?n[o']?t|does ?n[o']?t|is ?n[o']?t|won'?t) (?:work|help|fix|available|possible|supported)|fall(?:ing)? back to|instead,? (?:i'll|let me|use)|\b(?:use|using|switch(?:ing)? (?:back )?to) [^.!?\n]{3,60} instead\b|switch(?:ing)? back to|(?:put|putting) (?:it|that|this|the \w+(?: \w+)?) back|(?:drop|dropp|scrapp|ditch|abandon)ing (?:it|that|this|the)\b|giving up on|leav(?:e|ing) (?:it|that|this|them) out\b|(?:is|are|it's) impossible\b|(?:is|was|it's|a) (?:a )?dead end\b|can(?:'t| ?not| never) (?:ever )?(?:work|succeed)\b|\bI(?:'ll| will| am|'m)? (?:remov|tak|dropp?|delet)(?:e|ing|p)? (?:it|that|this|them|the \w+)(?: out| again)?(?=[.,;:]| and|$)|[^.!?\n]{3,90} instead(?=[.:]|$)|\bI(?:'ll| will)? split (?:it|that|them|the)\b|split(?:ting)? (?:it|that|them|the \w+) (?:out|up|apart)|(?:i'll|let me) use .{0,40} instead|work ?around)",
        "That did not work. Let me try a different approach.",
        "Let me try the tests.",
    ),
    _row(
        "unavailable",
        "abandons",
        2,
        "what the step needed is not there: it says nothing about the advice",
        r"(?:\b(?:is|are) (?:not available|unavailable|not supported|not installed|not usable|blocked)|isn'?t (?:available|installed|supported|working)|not (?:available|installed) (?:here|in this|on this))",
        "docker is not installed here.",
        "The installer is available.",
    ),
    _row(
        "another-error",
        "moved_on",
        2,
        "the agent says that the error is another one now",
        r"\b(?:(?:a |an |it'?s a |now a )?(?:different|new|another) (?:error|failure|problem|issue|exception)(?: now| this time|:|,| [—–-])|(?:good |great |some |that'?s |we have )?progress\b(?=[:.,!]| [—–-])|(?:got|gets|get|getting|goes|went) (?:further|past (?:that|the|this))|one step further)",
        "A different error now: the topic does not match.",
        "Show the progress of the export.",
    ),
    _row(
        "confirms",
        "confirms",
        2,
        "the agent reads the result before as good",
        r"(?:\b(?:(?:all|the|everything|it|that|this|build|tests?|they|both|type ?check|lint|linting|compilation|deploy(?:ment)?|server|app|page|endpoint|api|ci|script|migration|fix|change)(?: \w+){0,3}? (?:pass(?:es|ed)?|passing|green|clean|work(?:s|ed|ing)|succe(?:eds?|eded|ssful\w*)|compiles|builds|verified|confirmed|fixed|correct(?:ly)?)\b(?! (?:yet|only if|unless))|all (?:clean|green|good|verified|passing|tests)|build (?:is )?(?:green|clean|succeed\w*|pass\w*|success\w*)|(?:verified|confirmed)[.:!,]|(?:works|working) (?:perfectly|correctly|as (?:expected|intended|designed)|now|end.to.end|great|fine|well)|as expected\b(?!.{0,20}fail)|no (?:errors|failures|issues|regressions|warnings)\b)|✅)",
        "All 40 tests pass. Now the linter.",
        "Let me see whether the build is ready.",
    ),
    _row(
        "reads-result-as-bad",
        "fails",
        2,
        "the agent reads the result before as bad",
        r"(?:\b(?:(?:still|tests?|build|it|that|this|they|command|script|request|page|server|compilation|lint|type ?check|deploy(?:ment)?|ci)(?: \w+){0,3}? (?:fail(?:s|ed|ing)?|crash(?:es|ed)|broken?|errors?(?: out)?|did ?n[o']?t (?:work|help|fix)|does ?n[o']?t (?:work|exist|help)|hangs?|timed out|not working|empty|wrong)\b|same (?:error|issue|problem|failure)|there(?:'s| is| are) (?:an?|still|some|\d+|several|one|two) (?:\w+ ){0,2}(?:error|failure|issue|problem|failing)s?|need to fix|missing (?:import|dependency|module|argument)|complain(?:s|ing)))",
        "The build still fails with the same error.",
        "The build took four seconds.",
    ),
)
