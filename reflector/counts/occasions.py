"""The occasions of rules: a commit, tests, files of a kind. A rule can be followed or broken only
in a session in which its occasion came up.

Invariant: an occasion follows from the rule's own words. A rule whose occasion is not known has
none, and then nothing is claimed about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from reflector.counts.calls import Act
from reflector.counts.tokens import Token


class Occasion(NamedTuple):
    """An occasion of rules.

    label     the sessions in which it comes up
    named     matches its name in a rule
    commands  matches a command at which it comes up; "" for none
    files     matches the path of a changed file at which it comes up; "" for none
    """

    label: str
    named: str
    commands: str = ""
    files: str = ""


#: In the order in which they are looked for: a rule has the first that it names.
_OCCASIONS = (
    Occasion("sessions that pushed", r"\bpush|推送|プッシュ|\bempuj", r"\bgit\b[^|;&\n]*\bpush\b"),
    Occasion(
        "sessions that opened a pull request",
        r"\b(?:pull|merge) requests?\b|\b[PM]Rs?\b|合并请求|拉取请求|プルリク",
        r"\bgh pr (?:create|new)|\bglab mr (?:create|new)",
    ),
    Occasion(
        "sessions that published",
        r"\breleas|\bpublish|发布|發布|リリース|\bpublica(?:r|ção)|\blanzamiento",
        r"\b(?:publish|twine upload|gh release create|git tag)\b",
    ),
    Occasion("sessions that committed", r"\bcommit|提交|コミット", r"\bgit\b[^|;&\n]*\bcommit\b"),
    Occasion(
        "sessions that made a branch",
        r"\bbranch|分支|ブランチ|\bramas?\b",
        r"\bgit (?:checkout -[bB]|switch -[cC]|branch [^-\s]|worktree add)",
    ),
    Occasion(
        "sessions that changed migrations",
        r"\bmigrations?\b|迁移|遷移|マイグレ|\bmigraci|\bmigraç",
        files=r"migrat",
    ),
    Occasion(
        "sessions that added a dependency",
        r"\bdependenc|依赖|依賴|依存|\bdependênc",
        r"\b(?:npm|pnpm|yarn|bun|cargo|uv|poetry|pip3?|gem|composer)"
        r" (?:install|i|add|require) +[^-\s]"
        r"|\bgo get\b",
        r"(?:^|/)(?:package\.json|Cargo\.toml|pyproject\.toml|go\.mod|requirements\w*\.txt)$",
    ),
)
_TESTS = Occasion(
    "sessions that ran or changed tests",
    r"\btests?\b|\btesting\b|测试|測試|テスト|\bpruebas?\b|\btestes?\b",
    r"\b(?:pytest|vitest|jest|rspec|phpunit|ctest|tox|nox|nextest)\b"
    r"|\b(?:go|cargo|npm|pnpm|yarn|bun|deno|dotnet|mix|swift|make|just|task|rake|mise)"
    r"(?: -\S+| run)* (?:\w+:)?test\b|\b(?:mvn|mvnw|gradlew?)\b[^|;&\n]*\b(?:test|verify|check)\b",
    r"(?:^|/)(?:tests?|__tests__|spec)/|(?:^|/)test_|[._-](?:test|tests|spec)\.\w+$|Tests?\.\w+$",
)
#: Endings of files by the language that a rule names.
_LANGUAGES = {
    r"\bTypeScript\b": r"\.[cm]?tsx?$",
    r"\bJavaScript\b": r"\.[cm]?jsx?$",
    r"\bPython\b": r"\.pyi?$",
    r"\bGo (?:code|files?)\b|\bGolang\b": r"\.go$",
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
_SUCH_FILES = "sessions that changed such files"
_CODE = re.compile(r"`[^`\n]*`")
#: The parts of a pattern of files, escaped, and their expressions.
_PATTERN = {r"\*\*/": r"(?:.+/)?", r"\*\*": r".+", r"\*": r"[^/]*"}


def occasion_of(text: str, tokens: Iterable[Token]) -> Occasion | None:
    """Return the occasion of a rule; None if its words name none."""
    prose = _CODE.sub(" ", text)
    for occasion in _OCCASIONS:
        if re.search(occasion.named, prose, re.IGNORECASE):
            return occasion
    paths = [_path_expression(token.text) for token in tokens if token.is_path]
    if paths:
        return Occasion(_SUCH_FILES, "", files="|".join(paths))
    endings = [ending for name, ending in _LANGUAGES.items() if re.search(name, prose)]
    if endings:
        return Occasion(_SUCH_FILES, "", files="|".join(endings))
    return _TESTS if re.search(_TESTS.named, prose, re.IGNORECASE) else None


def _path_expression(path: str) -> str:
    """Return an expression for the files that a rule's path or pattern describes."""
    end = r"/" if path.endswith("/") else r"(?:/|$)"
    expression = re.escape(path.removeprefix("./").rstrip("/"))
    for written, meant in _PATTERN.items():
        expression = expression.replace(written, meant)
    return rf"(?:^|/){expression}{end}"


def comes_up_with(occasion: Occasion, act: Act) -> bool:
    """Return whether an occasion comes up with a command, or with the change of a file."""
    expression = occasion.commands if act.command else occasion.files
    return expression != "" and re.search(expression, act.command or act.file) is not None
