"""The occasions of rules, for example a commit, a test run or an edit of a kind of file. A session
can follow or break a rule only if its occasion came up.

Invariant: an occasion follows from the rule's own words. If the occasion of a rule is unknown,
nothing is claimed about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from reflector.counts.calls import Act
from reflector.counts.clauses import (
    conditions_of,
    purposes_in,
    restricts,
    sentences_in,
    without_code,
)
from reflector.counts.forms import SCRIPT
from reflector.counts.globs import glob_expression
from reflector.counts.token import Token
from reflector.text.lazy import lazy_pattern


class Occasion(NamedTuple):
    """An occasion of rules.

    label     the sessions in which it comes up
    named     matches its name in a rule
    commands  matches a command at which it comes up; "" for none
    files     matches the path of a changed file at which it comes up; "" for none
    needs     matches the path of a file that must be changed before; "" if none must
    """

    label: str
    named: str
    commands: str = ""
    files: str = ""
    needs: str = ""

    @property
    def met(self) -> Occasion:
        """The occasion after the change that it needs."""
        return self._replace(needs="")


#: git with its own options, before one of its commands.
_GIT = r"\bgit(?: +-\S+(?: +[^-\s]\S*)??)*?"
#: The end of a task or of a change, if the words are about every task or change.
_DONE = (
    r"\bend of (?:an?|each|every|the|your|any) (?:\w+ )?(?:task|session|turn|change|work)\b"
    r"|\b(?:after|once|when|before|upon)\b(?: you(?:'re| are|'ve| have)?)?"
    r" (?:finish(?:ed|ing)?|complet(?:ed?|ing)|done|making|ma[dk]e|handing off)"
    r"(?: (?:with |an? |the |your |each |any |all |every )?(?:\w+ )?"
    r"(?:tasks?|work|changes?|edits?|implementation))?{end}"
    r"|\b(?:after|on) (?:each|every|any|all|your)? ?(?:code )?"
    r"(?:changes?|edits?|modifications?){end}"
    r"|\bif you (?:have )?(?:changed|edited|modified|touched) (?:any )?files?{end}"
    r"|(?:任务完成|完成任务|每次修改|修改代码|改完)(?:之)?后|作業完了時|変更後"
).format(end=r"(?=\s*(?:$|[*_,.;:)(—–]|(?:in|to) (?:the|this|your) (?:repo\w*|code\w*|project)\b))")
_END_OF_WORK = Occasion(
    "sessions that changed files",
    _DONE,
    rf"{_GIT} commit(?![\w.-])",
    r"^(?!/(?:private/)?tmp/[^/]+$).",
)
_AFTER_CODE = _END_OF_WORK._replace(
    label="sessions that changed code",
    commands="",
    files=r"^(?!/(?:private/)?tmp/[^/]+$)(?!.*\.(?:mdx?|txt|rst|adoc)$).",
)
#: The description of a command: "`make watch` - builds on changes".
_DESCRIPTION = lazy_pattern(
    r"(?<=`)\s+[-–—]\s+(?!(?:[\w*]+\s+){0,3}(?:before|after|when(?:ever)?|once|if|each"
    r"|every|for)\b).*",
    re.IGNORECASE | re.DOTALL,
)
#: In the order of the search: a rule has the first occasion that it names.
_OCCASIONS = (
    Occasion(
        "sessions that pushed",
        r"(?<![\w-])push|推送|プッシュ|\bempuj",
        rf"{_GIT} push(?![\w.-])",
    ),
    Occasion(
        "sessions that opened a pull request",
        r"\b(?:pull|merge) requests?\b|\b[PM]Rs?\b|合并请求|拉取请求|プルリク",
        r"\bgh pr (?:create|new)|\bglab mr (?:create|new)",
    ),
    Occasion(
        "sessions that published",
        r"\breleas|\bpublish|发布|發布|リリース|\bpublica(?:r|ção)|\blanzamiento",
        r"\b(?:npm|pnpm|yarn|bun|cargo|poetry|uv|flit|hatch) publish\b|\btwine upload\b"
        rf"|\bgh release create\b|{_GIT} tag +(?:-[asfmu]\S* +)*[^-\s;&|]",
    ),
    Occasion("sessions that committed", r"\bcommit|提交|コミット", rf"{_GIT} commit(?![\w.-])"),
    Occasion(
        "sessions that made a branch",
        r"\bbranch|分支|ブランチ|\bramas?\b",
        r"\bgit (?:checkout -[bB]|switch -[cC]|branch [^-\s]|worktree add)",
    ),
    Occasion(
        "sessions that changed migrations",
        r"\bmigrations?\b|迁移|遷移|マイグレ|\bmigraci|\bmigraç",
        files=r"(?:^|/)migrat\w*/|migrat[^/]*\.(?:py|sql|rb|[jt]s|go|php|cs|java|kt|exs?)$",
    ),
    Occasion(
        "sessions that added a dependency",
        r"\bdependenc|依赖|依賴|依存|\bdependênc",
        r"\b(?:npm|pnpm|yarn|bun|cargo|uv|poetry|pip3?|gem|composer)"
        r" (?:install|i|add|require) +[^-\s]"
        r"|\bgo get\b",
        r"(?:^|/)(?:package\.json|Cargo\.toml|pyproject\.toml|go\.mod|requirements\w*\.txt)$",
    ),
    _END_OF_WORK,
)
#: An order about an occasion: "commit with `git commit -s`", "for each pull request".
_ORDERED = (
    r"\A\W*(?:\w+\W+){{0,2}}(?:{0})"
    r"|\b(?:each|every|for|open(?:ing)?|creat(?:e|ing)|submit(?:ting)?)\b"
    r"(?:\W+\w+){{0,2}}?\W+(?:{0})"
)
_TESTS = Occasion(
    "sessions that ran or changed tests",
    r"\btests?\b|\btesting\b|测试|測試|テスト|\bpruebas?\b|\btestes?\b",
    r"\b(?:pytest|vitest|jest|rspec|phpunit|ctest|tox|nox|nextest)\b"
    r"|\b(?:go|cargo|npm|pnpm|yarn|bun|deno|dotnet|mix|swift|make|just|task|rake|mise)"
    r"(?: -\S+| run)* (?:\w+:)?test\b|\b(?:mvn|mvnw|gradlew?)\b[^|;&\n]*\b(?:test|verify|check)\b",
    r"(?:^|/)(?:tests?|__tests__|spec)/|(?:^|/)test_|[._-](?:test|tests|spec)\.\w+$|Tests?\.\w+$",
)
#: An expression for the files of tests.
TEST_FILES = _TESTS.files
_TEST_FILE = r"(?=.*(?:test|spec))"
#: Kinds of tests by their names in a rule, and by the paths of their files.
_KINDS_OF_TESTS = {
    r"\bintegra\w+ tests?\b|\b(?:pruebas|testes) de integra|集成测试|統合テスト": "integ",
    r"\b(?:e2e|end-to-end)\b|端到端|E2Eテスト": r"e2e|end[-_]?to[-_]?end",
    r"\bunit tests?\b|\bpruebas unitarias|\btestes unit|单元测试|単体テスト|ユニットテスト": "unit",
    r"\bacceptance tests?\b": r"accept",
    r"\b(?:smoke|regression|snapshot|performance|functional|browser|load|contract) tests?\b": "",
}
#: A rule about tests alone: "don't use `time.Sleep` in tests".
_IN_TESTS = (
    r"(?<![\w-])(?:in|inside|within|en|em|n[oa]s)[ \t]+(?:\w+[ \t]+)?"
    r"(?:tests?|specs|pruebas|testes)\b(?![ \t]+(?!code|files?)\w)"
    r"|(?:测试|テスト)(?:代码|コード)?(?:中|里|内|で|の中)"
)
#: A rule about all code except tests.
_IN_PRODUCT = lazy_pattern(
    r"\bin (?:production|library|application|non-test) code\b", re.IGNORECASE
)
_TEST_CODE = r"\btests?[- ](?:code|files?)\b|测试代码|テストコード|\bcódigo de (?:prueba|teste)"
#: A rule that asks for something before its occasion: "before you commit", "提交之前".
_BEFORE = (
    r"(?:\b(?:before|prior to|ahead of|antes)\b[^.!?;]{{0,40}}?(?:{named}))"
    r"|(?:{named})(?:[^。，,.]{{0,8}}?(?:之前|以前|前)"
    r"|[^.!?;]{{0,60}}?\b(?:without|until|unless|only (?:after|once)|sin|sem|hasta|até)\b"
    r"|[^.!?;]{{0,60}}?\bonly (?:if|when)\b[^.;]*\b(?:pass|succeed|green))"
)
#: An occasion at one place only, as in "never commit to `main`": no command shows the place.
_AT_PLACE = (
    r"(?:{named})\w*(?:[ \t]+\w+)?[ \t]+(?:to|on|onto|into|against)[ \t]+(?:the[ \t]+|an?[ \t]+)?"
    r"(?:\w+[ \t]+branch\b|`|main\b|master\b|trunk\b)"
)
#: Endings of file names by the language that a rule names.
_LANGUAGES = {
    r"\bTypeScript\b": r"\.[cm]?tsx?$",
    r"\bJavaScript\b": r"\.[cm]?jsx?$",
    r"\bPython\b": r"\.pyi?$",
    r"\bGo (?:code|files?|changes?|sources?)\b|\bGolang\b": r"\.go$",
    r"\bTerraform (?:code|files?|changes?)\b": r"\.tf$",
    r"\bshell scripts?\b": r"\.(?:sh|bash|zsh)$",
    r"\bRust\b": r"\.rs$",
    r"\bSwift\b": r"\.swift$",
    r"\bKotlin\b": r"\.kts?$",
    r"\bJava\b": r"\.java$",
    r"\bRuby\b": r"\.rb$",
    r"\bC#|\.NET\b": r"\.cs$",
    r"\bCSS\b": r"\.s?css$",
    r"\bSQL\b": r"\.sql$",
    r"\bMarkdown\b": r"\.mdx?$",
}
#: A heading that names the case in which its rules apply: "When Modifying Strategies".
_CASE = lazy_pattern(
    r"(?:when(?:ever)?|while|before|after|if|during)\b|当|當|.*[时時]$", re.IGNORECASE
)
#: The words of a heading about a commit, a push or a pull request, and nothing else.
_PHASE = lazy_pattern(
    r"(?:when(?:ever)?|before|after)(?: (?:you|we|each|every|any|an?|the|your|open(?:ing)?"
    r"|creat(?:e|ing)|submit(?:ting)?|mak(?:e|ing)|commit(?:s|ting)?|push(?:es|ing)?|and|or"
    r"|(?:pull|merge) requests?|[PM]Rs?|changes?|finish(?:ing)?|tasks?|work|done|are|to git))+",
    re.IGNORECASE,
)
#: An order that begins with its command, perhaps after a label: "Format: `make fmt`".
_PLAIN_ORDER = lazy_pattern(
    r"\W*(?:(?!do|don|never|no|not|avoid)\w+(?: \w+){0,2}\W*:\W*)?"
    r"(?:(?:always|also|then|first|please|finally|(?:re-?)?run|execute|ensure|make sure|verify"
    r"|that|check|the|tests|linter|formatter|with|and)[ ,]*)*`",
    re.IGNORECASE,
)
#: A condition about other files than those that it names.
_OTHERS = lazy_pattern(r"\b(?:only|non|not|no|except|without|other)\b|n['’]t\b", re.IGNORECASE)
#: The highest number of paths or languages in a label.
_MOST_NAMED = 2
_CODE = lazy_pattern(r"`[^`\n]*`")
_BEFORE_GIT = lazy_pattern(
    r"(?P<before>\b(?:before|prior to)\b[^`.;:\n]{0,30})`git (?P<act>push|commit)`", re.IGNORECASE
)
#: The parts of a pattern of files, escaped, and their expressions.


def names_case(heading: str) -> bool:
    """Return whether a heading names the case in which its rules apply."""
    return _CASE.match(heading.strip()) is not None


def phase_in(*titles: str) -> str:
    """Return the first of the titles that names only an occasion of nearly every session, such as
    "Before you commit"; "" if none does. Words after a comma only order: ", always run".
    """
    phases = (re.split(r"[,:]", title.strip())[0] for title in titles)
    return next(filter(_PHASE.fullmatch, phases), "")


def with_phase(text: str, phase: str, tokens: Sequence[Token]) -> str:
    """Return a rule's text after the occasion that its titles name. A rule that does more than ask
    for a command, or that names an act of its own, such as a push, does not have that occasion.
    """
    if not phase or _PLAIN_ORDER.match(text) is None:
        return text
    own = occasion_of(text, tokens)
    return text if own is not None and own.commands else f"{phase}: {text}"


def occasion_of(text: str, tokens: Iterable[Token]) -> Occasion | None:
    """Return the occasion of a rule; None if its words name none.

    If a rule asks for a command, only the sentence with the command names its occasion, and a
    condition that is about more leaves the occasion unknown.
    """
    commands = [
        token for token in tokens if token.is_command and not (token.negated or token.scope)
    ]
    if not commands:
        return _occasion_in(text, tokens, [])
    sentence = _DESCRIPTION.sub("", _sentence_with(commands[0].text, text))
    conditions = [sentence[clause.start : clause.end] for clause in conditions_of(sentence)]
    occasion = _occasion_in(sentence, tokens, conditions, is_order=True)
    return _restricted(occasion, [*conditions, *purposes_in(sentence)], tokens)


def occasion_of_ban(tokens: Iterable[Token]) -> Occasion | None:
    """Return the occasion at which a forbidden command could run, such as a push for a push with
    force; None if it is unknown. Commands do not show the branch of a commit.
    """
    banned = [f"{token.text} x" for token in tokens if token.is_command and not token.needs_branch]
    occasions = (
        occasion
        for occasion in _OCCASIONS
        if occasion.commands and any(re.search(occasion.commands, command) for command in banned)
    )
    return next(occasions, None)


def _restricted(
    occasion: Occasion | None, clauses: Sequence[str], tokens: Iterable[Token]
) -> Occasion | None:
    """Return an occasion with the files that the clauses of its rule name; None if a clause is
    about more than the occasion and files.
    """
    for clause in clauses if occasion else ():
        files = None if _OTHERS.search(clause) else _files_of(clause, tokens, is_order=True)
        if files and occasion and occasion.commands:
            occasion = occasion._replace(needs=files.files)
        elif occasion is None or restricts(clause, occasion.named):
            return None
    return occasion


def _is_meant(occasion: Occasion, order: str) -> bool:
    """Return whether an order is about an occasion without naming it in a condition. "Install all
    dependencies" is not about an added dependency.
    """
    # An order that names a kind of file is about these files, not about a change of them.
    if occasion.files:
        return occasion is _END_OF_WORK
    ordered = _ORDERED.format(occasion.named)
    return is_before(order, occasion) or re.search(ordered, order, re.IGNORECASE) is not None


def _prose_of(text: str) -> str:
    """Return a text without its code, except for an act of git before which something is done."""
    return _CODE.sub(" ", _BEFORE_GIT.sub(r"\g<before>\g<act>", text))


def _sentence_with(command: str, text: str) -> str:
    for start, end in sentences_in(without_code(text)):
        if command in text[start:end]:
            return text[start:end]
    return text


def _occasion_in(
    text: str, tokens: Iterable[Token], conditions: Sequence[str], *, is_order: bool = False
) -> Occasion | None:
    """Return the first occasion that a text names.

    is_order  whether the rule asks for a command. Then files are its occasion only if a condition
              names them
    """
    prose = _prose_of(text)
    place = " ".join(conditions) if is_order else text
    for occasion in _OCCASIONS:
        if named := re.search(occasion.named, prose, re.IGNORECASE):
            is_at_place = _AT_PLACE.format(named=occasion.named)
            is_unknown = _is_deed_of(occasion, tokens) or re.search(is_at_place, text, re.I)
            is_meant = _is_meant(occasion, prose) or re.search(occasion.named, place, re.I)
            if occasion is _END_OF_WORK and "code" in named[0].casefold():
                occasion = _AFTER_CODE
            return occasion if is_meant and not is_unknown else None
    files = _files_of(place, tokens, is_order=is_order)
    if files is not None:
        return files
    if not re.search(_TESTS.named, prose, re.IGNORECASE):
        return None
    tests = _tests_of(prose)
    if tests is _TESTS and is_order and _is_deed_of(_TESTS, tokens):
        is_change = re.search(_TESTS.named, place, re.IGNORECASE)
        return (
            _TESTS._replace(label="sessions that changed tests", commands="") if is_change else None
        )
    return tests


def _files_of(text: str, tokens: Iterable[Token], *, is_order: bool) -> Occasion | None:
    """Return the occasion of a rule about files, by a path or a language; None without one."""
    asked_for = [token for token in tokens if not token.scope]
    is_only_path = asked_for != [] and all(
        token.is_path and not token.is_pattern for token in asked_for
    )
    paths = {
        token.text for token in tokens if token.is_path and token.text.removeprefix("*") in text
    }
    if paths and (is_order or not is_only_path):
        named = "|".join(re.escape(path.removeprefix("*")) for path in sorted(paths))
        label = _changed([f"`{path}`" for path in sorted(paths)], "")
        return Occasion(label, named, files="|".join(map(path_expression, sorted(paths))))
    prose = _prose_of(text)
    languages = {name: match[0] for name in _LANGUAGES if (match := re.search(name, prose))}
    if languages:
        endings = "|".join(_LANGUAGES[name] for name in languages)
        titles = [words.split()[0] for words in languages.values()]
        return Occasion(_changed(titles, " files"), "|".join(languages), files=endings)
    return None


def _changed(names: Sequence[str], kind: str) -> str:
    """Return the label of the sessions that changed some files."""
    if len(names) > _MOST_NAMED:
        return "sessions that changed the files that the rule names"
    return f"sessions that changed {' or '.join(names)}{kind}"


def _is_deed_of(occasion: Occasion, tokens: Iterable[Token]) -> bool:
    """Return whether a command that a rule asks for is also its occasion. Then the occasion shows
    nothing. A script may run tests.
    """
    asked_for = [
        token
        for token in tokens
        if token.is_command and not token.negated and token.scope != "condition"
    ]
    runs_tests = occasion is _TESTS and any(token.form == SCRIPT for token in asked_for)
    return occasion.commands != "" and (
        runs_tests or any(re.search(occasion.commands, f"{token.text} x") for token in asked_for)
    )


def _tests_of(prose: str) -> Occasion | None:
    """Return the occasion of a rule about tests. If the rule names a kind of tests, the occasion is
    a change of their files; None if paths do not show the kind.
    """
    kinds = {
        re.sub(r" tests?$", "", match[0], flags=re.IGNORECASE): path
        for name, path in _KINDS_OF_TESTS.items()
        if (match := re.search(name, prose, re.IGNORECASE))
    }
    if not all(kinds.values()):
        return None
    if kinds:
        files = rf"(?i)^{_TEST_FILE}.*(?:{'|'.join(kinds.values())})"
        return Occasion(_changed([*kinds], " tests"), _TESTS.named, files=files)
    if re.search(f"{_TEST_CODE}|{_IN_TESTS}", prose, re.IGNORECASE):
        return _TESTS._replace(label="sessions that changed tests", commands="")
    return _TESTS


def is_before(text: str, occasion: Occasion) -> bool:
    """Return whether a rule asks for something before its occasion."""
    named = occasion.named and _BEFORE.format(named=occasion.named)
    return bool(named) and re.search(named, _prose_of(text), re.IGNORECASE) is not None


def scope_of(text: str, tokens: Iterable[Token]) -> str:
    """Return an expression for the files to which a rule is restricted; "" for all files."""
    if _IN_PRODUCT.search(_prose_of(text)):
        return rf"^(?!.*(?:{_TESTS.files}))"
    places = [token for token in tokens if token.scope == "place"]
    if not places and re.search(_IN_TESTS, _prose_of(text), re.IGNORECASE):
        return _TESTS.files
    return "|".join(
        path_expression(token.text)
        if token.is_path or token.is_pattern
        else rf"(?:^|/){re.escape(token.text)}(?:/[^/]+|\.\w+)$"
        for token in places
    )


#: `re` looks an expression up more slowly, which counts for each act of a session.
_compiled = cache(re.compile)


def place_in_act(occasion: Occasion, act: Act) -> int:
    """Return the index of an occasion in a command, or in the path of a changed file; -1 if it does
    not come up, or if another change must come first.
    """
    return dict(places_in_act([occasion], act)).get(occasion, -1)


def places_in_act(occasions: Iterable[Occasion], act: Act) -> Iterator[tuple[Occasion, int]]:
    """Yield the occasions that come up in an act, each with its index as in `place_in_act`."""
    text = act.command or act.file
    if not text:  # the act only reads
        return
    for occasion in occasions:
        if occasion.needs:
            continue
        expression = occasion.commands if act.command else occasion.files
        match = _compiled(expression).search(text) if expression else None
        if match:
            yield occasion, match.start()


@cache
def path_expression(path: str) -> str:
    """Return an expression for the files that a rule's path or pattern describes."""
    end = r"/" if path.endswith("/") else r"(?:/|$)"
    return rf"(?:^|/){glob_expression(path)}{end}"
