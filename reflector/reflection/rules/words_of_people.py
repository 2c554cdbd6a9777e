# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""Rows for what people write: approval, acceptance, objection, symptoms, resuming, questions.

Invariant: a row reads one message only; what the message is about is decided elsewhere, so the
vocabulary can grow without touching the judgement.
"""

from __future__ import annotations

from reflector.reflection.rules.table import Rule
from reflector.reflection.rules.table import person_row as row

_THING = r"(?:it|that|this|all(?: of (?:it|this))?|everything|(?:the|your|my) [\w-]+(?: [\w-]+)?|now|which)"
_NOT = r"(?:not|n[o']?t|never|cannot|can'?t|won'?t|doesn'?t|didn'?t|isn'?t|aren'?t|wasn'?t|don'?t)"

RULES: tuple[Rule, ...] = (
    row(
        "works",
        "approves",
        3,
        "says that it works now",
        rf"\b(?:{_THING}(?:'s| is| are| has been)? (?:(?:all|now|finally|indeed|actually) )*"
        rf"(?:work(?:s|ed)|working|fixed|solved|resolved|passing|green)|{_THING}(?:'s| is| are| looks| feels) (?:(?:all|now|so|much|way|far) )*better|works(?: now| well| great| fine| perfectly"
        r"| like a charm|(?=[!.,;])|$)|(?:is|are|looks?) (?:right|fine|good|ok|okay|correct|gone|back|better) now|(?:working|fixed|solved) now|^(?:all )?(?:fixed|solved|resolved)\b|did the trick|(?:that|this|it) (?:fixed|solved|did) it|(?:ah+|oh+|yes|yep|yeah|ok)[,.! ]+(?:yes[,.! ]+)?that(?:'s| was) it"
        r"|now (?:it )?works|(?:error|warning|exception|problem|issue|bug|crash|symptom|lag|flicker\w*|failure)s? (?:is|are|has|have)(?: now| all| finally| indeed)* (?:gone|disappeared|vanished|went away|resolved|solved|fixed)\b|(?:ran|runs|went|goes|passed|came) (?:through|thru)\b|(?:finally|now) works|up and running|no (?:more|longer any) (?:errors?|warnings?|failures?)|confirmed working|(?:it|that|this|everything|ci|(?:the )?(?:build|app|tests?)) (?:now |all )*(?:pass(?:es)?|compiles|builds|runs|loads|starts)(?: now| fine| again|(?=[.!,])|$)|(?:shows?|showing) up now|i (?:can )?see (?:it|them) now|got it working|all green|(?:ci|it|build) is green)(?!\w)",
        "ok, that is working now",
        "a workshop about offline uploads",
    ),
    row(
        "praises",
        "approves",
        3,
        "praises the result",
        r"(?:👍|🎉|🙌|💯|🚀|❤|😍|🥳)|(?:nice|great|good|glad|cool|happy|awesome|love|amazing) (?:that (?:it(?:'?s)?|this|you|we|the)|to see|we)\b|(?:(?:oh|ah|ha|wow|ok|okay|yes|yeah|nice|cool|hey)[,.!]* )*\b(?:perfect(?:ly|o)?|excellent|awesome|amazing|brilliant|fantastic|wonderful|beautiful|flawless|stellar|superb"
        r"|(?:great|good|nice|fine|solid|fantastic|excellent|incredible) (?:job|work|stuff|fix|one|catch|find|solution|call)"
        r"|well done|love (?:it|this|that|the)|exactly (?:right|what i (?:want|need|mean|had in mind)\w*)|spot on|nailed it"
        r"|you(?:'re| are) (?:a|the) (?:genius|best|legend)|(?:that|this)(?:'s| is) (?:really |very |so |just )*"
        r"(?:great|good|perfect|awesome|excellent|amazing|nice|cool|exactly|lovely|impressive|better)|(?:good|glad|nice) (?:that )?you (?:ask|check|notic|caught|test|thought|saw)\w*|(?:that'?s |what )?an? (?:huge|massive|big|enormous|great|clear) (?:difference|improvement|speed-?up|win))\b(?! (?:question|point|but\b))",
        "perfect, exactly what I wanted",
        "find the perfect hash function for this",
        "clause",
    ),
    row(
        "praises-part",
        "approves",
        2,
        "praises one named part",
        r"\b(?:(?:the )?[\w-]+(?: [\w-]+)?|the [\w-]+(?: [\w-]+){1,2}|(?:first|second|left|right|top) one) (?:is|are|looks?|works?|feels?) (?:really |very |so |just |all |super )*(?:great|good|perfect|awesome|excellent|amazing|nice|cool|lovely|fine|ok|okay|correct|right|handy|helpful|useful|neat|beautiful|readable|brilliant|exactly (?:what|how|right))\b(?! (?:for|to|if|enough))",
        "the error page is great",
        "the left one is for admins",
        "clause",
    ),
    row(
        "looks-good",
        "approves",
        2,
        "says that it looks good",
        r"\b(?:(?:looks?|looking|sounds?|seems?|reads?) (?:really |very |pretty |quite |much |all |so )*"
        r"(?:good|great|fine|right|correct|nice|okay|ok|better|clean|solid|reasonable|perfect|awesome)"
        r"|lgtm|all good|so far so good|good to go|i like (?:it|this|that|the|your|how|where)|(?:it )?feels? (?:much |so |really |way |a lot )?(?:better|smooth\w*|faster|instant|snappy|snappier|great)|(?:way|so much|much) (?:better|faster|smoother|cleaner|snappier|nicer|quicker)|nice!|great!|cool!|good!)",
        "looks good to me",
        "which of the two looks is the default?",
    ),
    row(
        "thanks",
        "approves",
        2,
        "thanks, at the start or in a short message",
        r"(?:many |ok,? |okay,? |great,? |cool,? |nice,? )?(?:thanks|thank you|thx|ty|cheers|much appreciated)\b(?! (?:in advance|to the|for (?:waiting|the context)))",
        "thanks! next, the footer",
        "thanks in advance for looking at the log",
        "start",
    ),
    row(
        "one-word-praise",
        "approves",
        2,
        "a message that starts with a word of praise",
        r"(?:(?:yes|yeah|yep|ok|okay|oh|ah|wow)[,.!]* )?(?:great|nice|cool|good|sweet|neat|yay|wow|superb|lovely|excellent|impressive|hooray|woohoo|yes!+|exactly|correct"
        r"|agreed|bravo)\b(?=\s*(?:[.,!:;…\-—)]|$|\band\b|now\b|job|so\b))(?!\s*(?:question|point|idea would))",
        "great, now the settings page",
        "good names for the module would be welcome",
        "start",
    ),
    row(
        "good-idea",
        "approves",
        2,
        "calls the idea or the answer good, or agrees with it",
        r"\b(?:(?:that|this|it|which)?(?:'s| is| would be)? ?a? ?(?:good|great|nice|excellent|brilliant|solid) (?:idea|point|plan|approach|suggestion|direction)"
        r"|makes (?:total |perfect |a lot of )?sense|i agree(?: with)?|in favou?r of|you(?:'re| are|r) (?:absolutely |totally )?right)",
        "it's a good idea to move it to the server",
        "is there a plan for the migration?",
    ),
    row(
        "ship-it",
        "builds_on",
        2,
        "asks to commit, push, merge or release what was made",
        r"(?:(?:ok|okay|yes|good|great|now|and|then|please|alright|fine|so|perfect|cool|nice),? )*(?:(?:let'?s|you can|can you|could you|please|go ahead and|now) )*"
        r"(?:(?:commit|push|merge|ship|deploy|release|publish)(?:(?: and (?:push|commit|merge|deploy|tag|release|continue|go on|open|create|make)| this| it| that| all| everything| now| please| your (?:work|changes)| the (?:changes?|branch|pr|work|code|fix|feature)| to (?:main|master|prod\w*|staging|the|origin|git\w*)| with (?:a|the)| as)\b|(?= *(?:[.,!;]|$)))"
        r"|(?:open|create|make|raise|submit) (?:a |the )?(?:pr\b|pull request)(?! (?:description|template|title|comment|review)))",
        "ok commit and push",
        "commit messages are wrong in the list",
        "start",
    ),
    row(
        "go-ahead",
        "builds_on",
        2,
        "tells the agent to go ahead with what it proposed",
        r"(?:(?:ok|okay|yes|yep|yeah|sure|good|great|fine|alright|perfect|cool)[,.!]? )*(?:please )?(?:go ahead|go for it|do it|do that|do both|do all|"
        r"proceed|make it so|implement (?:it|this|that|the plan)|ship it|let'?s do (?:it|this|that)|let'?s go(?: with)?|sounds good|that works|approved|"
        r"build it|apply (?:it|this|that|them)|start (?:with|on|implement)|lets go)\b(?!-)",
        "yes, go ahead",
        "go ahead-of-time compilation is slow",
        "start",
    ),
    row(
        "same-again",
        "builds_on",
        2,
        "wants the same elsewhere, or wants it kept",
        r"\b(?:(?:do|apply|use|repeat|make|add) (?:the same|this too|it too|the same thing|that too|this (?:pattern|approach) )(?:to|for|in|with|on|everywhere|here|there)?|(?:let'?s |please )?keep (?:it (?:like this|this way|as is)|this (?:version|approach|one)|that (?:version|approach|one))|let'?s (?:keep|stick with|go with) (?:this|that|it|option|your|the)|i(?:'ll| will)? (?:take|like|choose|pick|go with) (?:option|direction|version|variant|the (?:first|second|third|last)))\b",
        "now do the same for the invoices page",
        "the same colour is used twice",
    ),
    row(
        "takes-back",
        "approves",
        3,
        "takes an objection back",
        r"(?:\b(?:never ?mind|false alarm|ignore (?:that|me|my last (?:message|comment|question|one))(?= *(?:[.,!;:)]|$))|scratch that|my (?:bad|mistake|fault)|i was wrong|it was my (?:fault|mistake|cache|browser|config)\w*|(?:oh|ah|wait|sorry)[,.]? (?:wait[,.]? )?(?:it|that|this) (?:does|is there|was (?:just )?(?:me|my|the cache|cached)|actually (?:does|works)))\b)",
        "never mind, it was my cache",
        "the mind map has five nodes",
    ),
    row(
        "fix-it",
        "builds_on",
        1,
        "has the agent fix what it found",
        r"(?:(?:ok|okay|yes|yep|yeah|sure|good|great|please)[,.!]? )*fix (?:it|them|that|those|these|all)(?: all)?\b",
        "ok fix them all",
        "fixtures live in one folder",
        "start",
    ),
    row(
        "yes",
        "builds_on",
        1,
        "says yes",
        r"(?:yes|yep|yeah|yup|sure|absolutely|definitely|of course|correct|right|ok|okay|y|k|alright|exactly)\b(?! (?:but|however|i (?:still|don'?t)))",
        "yes, all of them",
        "yesterday's export is empty",
        "start",
    ),
    row(
        "not-what-i-asked",
        "corrects",
        3,
        "says that this was not asked for, meant or wanted",
        r"\b(?:(?:that|this|it)(?:'s| is| was)? ?(?:not|n't|isn'?t|wasn'?t) (?:what|how|where|why|the way|the one|right|correct|true|quite right|good|acceptable|enough|it\b|necessary|needed|working)|makes? no sense|(?:second|third|fourth|fifth|nth|tenth|hundredth|100th) time (?:now|today|that|this|i|already|you)|how (?:many times|often) (?:do|must|did|should) i"
        r"|not what i|(?:bit|bites|bitten|burned|burnt|hurt) us\b|i (?:did ?n[o']?t|never|don'?t) (?:ask|want|mean|say|tell|need|like|see (?:any|the|it|why))\w*"
        r"|i (?:said|told you|asked (?:you )?(?:for|to)|meant|was (?:talking|asking|referring)|already (?:told|said|asked|have|did)|explicitly|specifically)\b"
        r"|i (?:only|just) (?:wanted|asked|meant|needed|said)\b|(?:did i|who|nobody|no one) (?:ever )?ask(?:ed)?\b|let'?s not\b|you(?:'re| are| were) (?:overthinking|not supposed|using the (?:old|wrong)|missing the point|confusing|mixing|guessing|assuming|repeating)|you (?:got|have|had) (?:it|this|that) (?:backwards|wrong|mixed)"
        r"|(?:the|those|these) [\w-]+ (?:you|that you|you've) (?:just )?(?:wrote|made|added|created|used|chose|generated|picked|built) (?:do|does|is|are|was|were|did) ?(?:n[o']?t)?\b|that'?s (?:the (?:old|wrong|other)|a lot of)"
        r"|you (?:misunderstood|missed|forgot|ignored|skipped|broke|removed|deleted|lost|changed|overwrote|messed|ruined|keep|kept|still|should(?:n'?t| not)? have|were supposed|"
        r"did ?n[o']?t|have ?n[o']?t|are not|aren'?t|can'?t just|don'?t (?:need|have) to|never)\b)",
        "I was talking about the other section",
        "the report shows what users asked",
    ),
    row(
        "calls-it-wrong",
        "corrects",
        3,
        "calls the result wrong, bad or too much",
        r"\b(?:(?:that|this|it|which|you|your [\w-]+|the [\w-]+(?: [\w-]+)?|[\w-]+\.[\w.-]+)(?:'s|'re| is| are| was| looks?| seems?| feels?)(?: \w+){0,2} "
        r"(?:wrong|incorrect|bad|terrible|horrible|awful|stupid|ridiculous|ugly|nonsense|useless|overkill|over-?engineered|over-?complicated|confusing|misleading"
        r"|backwards|unacceptable|silly|a mess|worse|hallucinat\w+|lying|cheating|lazy|(?:way |far |much )?too (?:much|many|big|small|slow|long|short|complex|complicated|verbose|wide|narrow|dark|bright|large|close|high|low))"
        r"|(?:is|are|feels?|seems?|looks?)(?: like)? (?:a (?:lot|bit much)\b(?! (?:of|better|faster|nicer|cleaner|easier))|excessive|a no[- ]?go)|a no[- ]?go\b|completely (?:wrong|broken|off)|bullshit|wtf|what the (?:hell|fuck)|ffs|for fuck|fuck(?:ing|ed)?\b|shit(?:ty)?\b|dumb|stupid|jesus christ|garbage)\b",
        "this is completely wrong",
        "return 1 when the password is rejected",
    ),
    row(
        "take-it-back",
        "corrects",
        3,
        "asks to undo the work",
        r"\b(?:put|change|move|switch|set|turn) (?:it|that|this|them|those|the [\w-]+(?: [\w-]+)?|[\w-]+[./][\w./-]+) back\b|\b(?:it |that |this )?(?:was |were |liked |worked |looked )(?:it |that |this |them )?(?:much |way |a lot |far )?better before\b|\bback to (?:how|what|the way) it was\b|\b(?:revert|undo|roll ?back|bring (?:it|that|them|back)|restore) (?:that|this|it|the|your|my|all|everything|to|back|those|these|them|what)\b|\b(?:revert|undo)\b(?=\s*(?:[.,!]|$))|"
        r"\bgo back to (?:the|how|what)\b|\bget rid of (?:that|this|it|those|these)\b",
        "please revert that change",
        "add a button with an undo icon",
    ),
    row(
        "stop",
        "corrects",
        3,
        "stops the agent",
        r"(?:no[,.!]* )*(?:please )?(?:stop\b(?! (?:the|at|button|when|word|position))|wait\b(?! (?:for|until|time)|,? (?:so |and |but )?(?:how|what|where|which|who|when|is|are|does|do|can|could|if|should|would)\b)|hold on|don'?t do (?:that|this)|cancel (?:that|this)|abort|halt)",
        "stop, you are editing the wrong file",
        "stop the dev server first",
        "start",
    ),
    row(
        "no",
        "corrects",
        2,
        "starts with a no",
        r"(?:(?:h+m+|m+m+|uh+|oh|ah|eh|er|well|ok|hey|sorry)[,.]* )*(?:no|nope|nah|nooo+|not (?:quite|really|exactly|like that|there|yet)|negative|incorrect|wrong|false)\b(?! (?:problem|worries|rush|need to (?:worry|apolog)|idea|one|matter|longer|more))"
        r"(?=\s*(?:[,.!:;…\-—]|$|\bthe\b|\bi\b|\bthat|\bthis|\bit|\bdon'?t|\byou|\bwe|\bnot\b|\bno\b|\buse\b|\bjust\b|\brevert|\bundo|\bput\b|\bkeep\b|\bleave\b|\bgo back\b|\bdice\b))",
        "no, use the other table",
        "no problem, take your time",
        "start",
    ),
    row(
        "why-question",
        "corrects",
        2,
        "a question that is an objection",
        r"(?:(?:but|and|so|ok|wait|hm+|then|also|hey|well)[,.]* )*(?:why (?:are|is|was|were|did(?! (?:you|we|it) (?:use|choose|pick|decide|go\b|need))|do(?! (?:we|you|they) (?:need|have|use|want) (?!this|that|these|those|another|so|yet))|not (?:just|simply)|does(?! (?:it|this|that|the [\w-]+) (?:use|need|matter|take|work|have|return|require))|the|have|has|can'?t|so|isn'?t|aren'?t|don'?t|doesn'?t|didn'?t|won'?t|wouldn'?t|you|it)\b"
        r"|how come|are you sure|did you (?:even|actually|really|not|forget)|didn'?t (?:you|we|i)|"
        r"should(?:n'?t| not) (?:it|this|that|we|you|the|there)|(?:would|could|can)(?:n'?t) (?:it|we|you|this|that)|(?:do|did|does) (?:we|you|it|i) (?:really|actually|even) (?:need|have|want)|(?:is|are|was) (?:this|that|it|these|those|all (?:of )?(?:this|that)) (?:really|actually|even) |have you (?:actually|even|really)|(?:can|could) (?:we|you) (?:not|do (?:this|it|that) without|avoid|simplify|make (?:it|this) (?:simpler|shorter|smaller|less))|what (?:is|are) (?:this|that|these|those)(?: \w+){0,2} doing|isn'?t (?:it|this|that|there|the)|aren'?t (?:we|you|they|these|there)|don'?t (?:we|you) (?:need|have|already|want)|"
        r"doesn'?t (?:it|this|that|the)|wasn'?t (?:it|this|that|the)|what(?: the)? (?:are you doing|happened (?:to|with)|did you do|went wrong)|where (?:is|are|did) (?:the|my|all|that)(?: \w+){0,4} (?:go|gone|went)\b|"
        r"where(?:'s| is| are) (?:my|the (?:[\w-]+ ){0,2}(?:button|link|icon|image|logo|menu|tab|column|row|header|footer|title|label|dropdown|checkbox|section|popup|modal|tooltip|badge|chart|legend|scrollbar|sidebar|toolbar|spinner|toast))s?\b(?=\s*(?:[?.!,;]|$|(?:i|you|we|that|on|at|now|then|to)\b))|who (?:told|asked) you|do you (?:really|honestly|seriously|actually) (?:think|believe|want)|where did you get)",
        "why is the header showing twice?",
        "what does the last column mean?",
        "clause",
    ),
    row(
        "prefers-otherwise",
        "corrects",
        2,
        "wants it otherwise",
        r"\b(?:(?:use|do|try|make|go with|prefer|want)\b[^.!?\n]{0,60}\binstead\b|i(?:'d| would)? (?:rather|prefer(?! the visual))|rather (?:than|not)|(?:we|you|this|that|it|these|those) (?:should ?(?:not|n'?t)|must ?(?:not|n'?t)|ought not)\b|should be\b[^.!?\n]{0,40}\bnot\b|(?:we|i) do(?:n'?t| not) (?:need|want) (?:it|this|that|these|those|any of|to)\b|remove (?:that|this|those|these)\b|simplify (?:this|it|that)\b|please simplify|(?:can|could|should|please|let'?s)(?: (?:we|you))? stick (?:to|with) (?:the|our|what|how)|too verbose|shorten (?:it|this|that)|(?:cut|trim|strip|tone|slim) (?:it|this|that|these) down|(?:nobody|no one|noone) (?:reads?|needs?|wants?|uses?)\b|(?!users?\b|people\b|customers?\b|guests?\b|visitors?\b|admins?\b)[\w-]+ should(?:n'?t| not) (?:be(?! able| allowed| possible)|have|do|go|use|return|get|show)\b"
        r"|should(?:'ve| have) been|was(?:n'?t)? supposed to|supposed to be|\w+, not (?:the |an? |in |on |with |by |for |to |from |as |via )*(?!only|just|sure|yet|necessarily|sure|counting|including)\w{3,}"
        r"|(?:there(?:'s| is) )?no (?:reason|need|point) (?:to|in|for)|doesn'?t (?:make sense|seem|look|feel|match|fit)|does not (?:make sense|seem|look|feel|match|fit)"
        r"|too (?:complicated|complex|much|verbose|long|slow|fragile|hacky)|overkill|unnecessar(?:y|ily)|(?:seems?|feels?|looks?|is|'s) (?:too |overly |a bit |kind of |very |quite |really |rather )*(?:hacky|complicated|complex|convoluted|messy|heavy|fragile|brittle|redundant|excessive|weird|odd|off|strange|unreadable|inconsistent)|not (?:a fan|sure (?:about|that|this|i|we)|convinced|ideal|great|happy)|i do(?:n'?t| not) (?:think|like|understand why|get why|agree))\b",
        "use the existing helper instead",
        "the parser returns instances of Node",
    ),
    row(
        "dont",
        "corrects",
        2,
        "forbids, contradicts or sighs, at the start of a clause",
        r"(?:actually,? (?:no\b|i (?:want|need|meant|think|prefer)|let'?s|use|it|that|the|we|please)\b|(?:almost|close|nearly|not quite)\b[^.!?\n]{0,12}\b(?:but|except)\b|(?:ugh|argh+|sigh|omg|oh no|bruh|dude|seriously|come on|jeez|sheesh|oof|yikes)\b)|(?:please |pls |and |but )*no (?:more )?[\w-]+(?: [\w-]+)? (?:though|tho|please|pls|here|anymore|any more)\b|(?:please|pls) no (?!problem|worries)|(?:please |no,? |but |and |also )?(?:do ?n[o']?t|never|avoid)\b(?! (?:worry|forget|hesitate|bother (?:me|replying)|know|mind|implement yet|(?:write|change|edit|modify|touch|make) (?:any|anything)))",
        "don't hardcode the url",
        "don't worry about the tests",
        "clause",
    ),
    row(
        "leave-it",
        "corrects",
        2,
        "wants a thing left alone, or only one of those that were changed",
        r"(?:(?:please |and |but )?leave (?:the|it|that|this|those|them|all|my|[\w.-]+\.\w+)\b[^.!?\n]{0,30}\b(?:alone|as (?:it|they) (?:is|was|are|were)|as[- ]is|untouched)|(?:just|only) (?:the|this|that|on|for|in)\b[^.!?\n]{1,30}\b(?:one|ones|please|page|file|part|case)\b|(?:and )?not (?:all|every|everywhere|the (?:whole|entire|other)|in (?:every|all))\b)",
        "leave the other pages alone",
        "only the owner can delete a project",
        "clause",
    ),
    row(
        "states-convention",
        "corrects",
        2,
        "says how it is always or never done here",
        r"(?:(?:no|but|hm+|hey|please|fyi|nope)[,.]* )?(?:we|i|this (?:repo|project|codebase|team)) (?:never|always|don'?t (?:ever )?(?:use|mock|write|commit|put|add|want|allow|do|create|import|store|test)|do not (?:use|mock|write|commit|put|add|want|allow|do|create|import|store|test)|(?:only|usually|normally) (?:use|write|put|do))\b",
        "we never mock the database here",
        "can we always show the newest first?",
        "start",
    ),
    row(
        "wonders-why",
        "corrects",
        1,
        "asks why or whether something was done: an objection only if the agent takes it as one",
        r"(?:(?:but|and|so|ok|wait|hm+|then|also|hey|well)[,.]* )*(?:why\b|did you (?:run|test|check|verify|read)\b|(?:we|you|there(?:'s| is)|i) already (?:have|had|has|got|an?|is)\b)",
        "why not use a map for this?",
        "I wonder where it is stored",
        "start",
    ),
    row(
        "this-not-that",
        "corrects",
        2,
        "starts with but, or tells to use one thing and not another",
        r"(?:please |and |so )?(?:use|call|name|put|make|do|take|keep)\b[^.!?\n]{1,40},? not\b|but (?:the|that|this|it|what|there|we|i|you|if|then|why|isn'?t|doesn'?t)\b|actually,? i want\b",
        "use pnpm, not npm",
        "notes go below the table",
        "start",
    ),
    row(
        "cant-work",
        "corrects",
        2,
        "explains why the proposal does not work",
        rf"\b(?:(?:option|approach|solution|fix|idea|way|plan|change|code|that|this|it|which|step|method)(?: \w+)? (?:{_NOT}|will not|would not|does not|is not|cannot) (?:quite |really |actually |going to )*"
        r"(?:work|help|fix|solve|possible|feasible|compile|apply|scale|needed|enough)|does ?n[o']?t work|won'?t work|isn'?t (?:working|possible|right|correct|enough|true)|not possible|not true|not correct|not right|not enough)",
        "Option 1 doesn't work since ids change",
        "list what works on mobile",
    ),
    row(
        "hesitates",
        "corrects",
        1,
        "hesitates, doubts or starts with but, actually, hm",
        r"(?:hm+|uh+|um+|but|actually|however|well,|except|although|although|wait,|hang on|ehm|huh)\b",
        "hmm, the list is one column now",
        "buttons need a hover state",
        "start",
    ),
    row(
        "still",
        "symptom",
        3,
        "reports that the problem persists or is back",
        rf"\b(?:(?:just |exactly |same )?(?:like|as) before(?= *(?:tbh|though|too|again|now)? *(?:[.!,;]|$))|still (?:\w+ )?(?:{_NOT}|no\b|the same|fail\w*|get(?:ting|s)?|see(?:ing|s)?|show(?:s|ing)?|have|having|has|is|are|there|broken|wrong|an? (?:issue|error|problem)|missing|happen\w*|crash\w*|return\w*|error\w*|hang\w*|empty|red|says?|stuck|slow|doesn'?t|can'?t)|(?<!while )still (?!want|need|think|prefer|wonder|like|use|work|be\b|to\b|support|able|allow|possible|open|keep|on\b|in\b|at\b|a\b|the\b|with|and|for|as\b|if\b|image|good|fine|ok|valid|relevant|true|remember|learning)[a-z]+"
        r"|(?<!do the )(?<!apply the )(?<!use the )(?<!with the )(?<!want the )(?<!need the )(?<!make the )(?<!doing the )same (?:error|issue|problem|result|thing|behaviou?r|failure|bug|exception)|(?:not|isn'?t|wasn'?t) (?:fixed|solved|resolved|gone)|(?:problem|issue|bug|error) (?:persists|remains|is back|came back|again|still)"
        r"|(?:error|fails?|failed|failing|broken|broke|crash\w*|happen\w*|wrong) again|(?:does ?n[o']?t|didn'?t|did not) (?:fix|help|solve|change anything)|no (?:change|difference|effect|luck)\b|keeps? (?:failing|crashing|happening|showing|getting|doing)|again the same|(?:i|we|it|they|users?|customers?)(?: \w+){0,6} (?:got|gets?|see|saw|had|happen(?:ed|s)|received?)\b[^.!?\n]{1,40}\bagain(?= *(?:[.!,;]|$))|^same[.!]?$|nothing (?:changed|happens|happened|works))",
        "scrolling still does not work",
        "are there still open pull requests?",
    ),
    row(
        "does-not-work",
        "symptom",
        3,
        "says that it does not work",
        r"\b(?:(?:it|this|that|which|everything) (?:used to (?:work|show|be|load|run)|(?:worked|was working|was fine|was ok) before|worked (?:yesterday|until|fine (?:before|yesterday)))|(?:does|do|did|is|are|was|has|have) ?(?:not|n[o']?t) (?:\w+ )?(?:work\w*|start\w*|load\w*|run\w*|show\w*|appear\w*|render\w*|respond\w*|compile|build|connect|update\w*|display\w*|visible|save\w*|open\w*|seem to|pass\w*|deploy\w*|available|there)"
        r"|(?:doesn'?t|don'?t|didn'?t|isn'?t|aren'?t|doesnt|dont|didnt|isnt|won'?t|can'?t|cannot) (?:\w+ )?(?:work\w*|start\w*|load\w*|run(?:ning)?\b|show\w*|appear\w*|render\w*|respond\w*|compile|build|connect|update\w*|display\w*|visible|open|save|pass|find|see (?:it|the|any|that|them|my)|click|scroll|deploy|seem to|be found)"
        r"|not (?:working|showing|loading|rendering|visible|updating|appearing|responding|displayed|saved|starting|found|running|aligned|centered|rendered|updated)\b|stopped working|(?<!error )(?<!errors )(?<!warning )(?<!warnings )(?<!exception )(?<!problem )(?<!issue )(?<!bug )(?<!crash )(?<!lag )(?:is|are|was|got|looks?|it'?s|totally|now) (?:\w+ )?(?:broken|busted|messed up|blank|empty|crashing|failing|hanging|frozen|gone|missing|stuck)\b|there (?:are|is) (?:none|nothing)\b|(?:is|are|was|were)(?:n'?t| not) (?:being )?(?:\w+ing|displayed|rendered|updated|saved|loaded|shown|applied|triggered|called|fired|detected|recogni[sz]ed|sent|stored|hidden|closed|sorted)\b|(?:^(?=d[oi][ed])|\b(?:it|this|that|which|(?:the|my|your) (?!users?\b|person|customer|client|developer)[\w-]+(?: [\w-]+)?) )(?:does|did|do)(?:n'?t| not)\b|crash(?:es|ed) (?:with|when|on|after|at)\b|(?:throws|hangs|freezes) (?:an?|when|on|after|at|with)\b|(?:it|this|that) never (?:\w+s|gets?|did|does)\b|no longer (?:work|show|load|run|build|compile|display)\w*)",
        "the popup isn't showing on mobile",
        "describe how the cache works",
    ),
    row(
        "reports-error",
        "symptom",
        2,
        "reports an error that was met",
        r"\b(?:(?:i(?:'m| am)?|we(?:'re)?|it|now|this|that|also|but|and|you|just) (?:just |now |also |am |still )*(?:get(?:s|ting)?|got|see(?:ing)?|saw|have|had|hit|ran into|throws?|threw|gives?|gave|shows?|says?|fail(?:s|ed)|crash(?:es|ed)|error(?:s|ed))\b[^.?!\n]{0,40}\b(?:errors?|exceptions?|warnings?|failures?|traceback|stack trace|4\d\d|5\d\d|undefined|null|blank|empty|nothing|failed|crash\w*|timeout|time out)\b"
        r"|it (?:fails?|failed|crash(?:es|ed)|hangs?|errors?|broke|freezes|times? out)\b|(?:ci|build|tests?|pipeline|deploy(?:ment)?|lint|workflow|job|check|action|migration|install)s? (?:is |are |has |have |just |now |still |all )*(?:fail(?:s|ed|ing)?|broke(?:n)?|red|crash\w*|error\w*)\b|there(?:'s| is| are) (?:(?:an?|some|now|still|two|several|many|\d+) )?(?:\w+ )?(?:errors?|bugs?|issues?|problems?|failures?|regressions?)\b|(?:the )?(?:\w+ )?review(?:er)?s?(?: bot)? (?:says?|said|found|complain\w*|flagged|pointed|noted|rejected|wants)|errors? (?:out|when|on|in the console|after)\b|fix (?:the |these |this |those )?(?:\w+ )?(?:failing|broken|failures?|errors?)\b)",
        "I get a 500 error when I save",
        "add an error boundary around the list",
    ),
    row(
        "only-half",
        "symptom",
        2,
        "reports what is missing or only half there",
        r"[😐😕🙁😞😡🤦😠😢😭😩😬]|\b(?:(?:is|are|'s|'re|still|now|looks?) (?:off\b(?! by default)|missing|duplicated|truncated|cut off|misaligned|overlapping|unreadable|invisible|out of (?:sync|date|place)|off by|hidden)\b|i (?:only|just|now) see\b|i see (?:two|double|duplicate\w*|no|only|nothing|an? (?:empty|blank|error))\b|(?:^(?:h+m+|huh|uh-?oh)[,. ]*(?:but )?now (?!let|can|we|add|do|make|i\b|please|please|how|what|where|show|run|go)|\bnow (?:the|all|every|my|it'?s|they'?re|everything)\b[^.!?,\n]{0,40}\b(?:huge|tiny|gone|empty|blank|duplicated|twice|cut off|overlap\w*|too \w+|misaligned|squashed|stretched|unreadable)\b)|(?:has|have|is|are|did|does|it'?s|its) (?:\w+ ){0,3}(?:disappeared|vanished)|i (?:can'?t|cannot|don'?t|do not|couldn'?t) (?:see|find|click|select|open|access|reach|log ?in|scroll)|(?:now|only|it) shows? (?:up )?(?:only|twice|the wrong|an? (?:empty|blank|old)|nothing)|(?:shows?|showing|appears?|displays?) (?:twice|nothing|the wrong|as (?:blank|empty))|where did (?:the|my|all)\b[^.?!\n]{1,30}\bgo\b)",
        "the labels are cut off on the right",
        "a missing key raises KeyError",
    ),
    row(
        "continue",
        "continues",
        1,
        "resumes the work",
        r"(?:please |ok,? |yes,? )?(?:continue|go on|keep going|carry on|resume|try again|retry|next|proceed|pick up where|where were we|keep working)\b(?! (?:page|to (?:fail|show)))",
        "continue",
        "continuation tokens expire after a day",
        "start",
    ),
    row(
        "asks",
        "asks",
        1,
        "asks for an explanation",
        r"(?:(?:and|ok|so|hey|hi|also|but|now)[,.]* )*(?:what|how|where|which|who|when|can you (?:explain|tell|show)|could you (?:explain|tell)|explain|describe|tell me|is (?:there|it|this|that)|are there|do (?:we|you|i)|does|should (?:we|i)|would (?:it|this)|i wonder|i have a question|question:)\b",
        "what value is shown in the last column?",
        "whatever you add must be tested",
        "start",
    ),
)
