"""Acts that a rule forbids in words instead of code: a push with force, a skipped hook.

Invariant: an act is only counted if the ban is about every such act. A branch, a case or another
unknown word beside the ban restricts it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from reflector.counts.around import Around
from reflector.counts.clauses import is_for_a_case, reaches
from reflector.counts.shell import BEGIN, FORCED_PUSH, OPTIONS, PLAIN_FORCED_PUSH
from reflector.counts.spellings import with_any_options
from reflector.text.lazy import lazy_pattern


class Deed(NamedTuple):
    """An act.

    name      the text of its token
    shown     the act on a page, after the name of the agent
    said      matches it in a rule
    commands  matches the commands that do it
    words     each such command contains one of them
    case      matches its name in a condition that is always met: "when pushing"
    on_main   matches the commands that do it on the main branch
    milder    a word of rules that permit a milder act; "" if there is none
    """

    name: str
    shown: str
    said: str
    commands: str
    words: tuple[str, ...]
    case: str = r"(?!)"
    milder: str = ""
    on_main: str = ""

    def is_milder_in(self, text: str) -> bool:
        """Return whether a rule permits a milder act, so that it only forbids the command."""
        return self.milder != "" and self.milder in text


def _command(text: str) -> str:
    return BEGIN + with_any_options(text, OPTIONS)


_THE = r"(?:(?:an?|the|any|your|our|all|existing|old|git|pre-commit|database|db|schema|new) )*"
_PUSHING = r"push(?:ing|es)?"
_COMMITTING = r"(?:committing|(?:mak(?:e|ing) (?:an?y? )?)?commits?)"
_CHANGES = r"(?:(?:changes|code|commits|anything|directly|straight) )*"
_MAIN = (
    r"(?:the )?`?(?:main|master)`?(?:(?: ?/ ?| or | and )`?(?:main|master)`?)?(?: branch)?"
    r"(?: directly)?"
)
_COMMIT = rf"{BEGIN}git{OPTIONS} +commit(?![\w.-])"
_PUSH_MAIN = rf"{BEGIN}git{OPTIONS} +push\b[^;&|\n]*? (?:\S+:)?(?:main|master)(?![^\s;&|\"'])"
#: A push that does not name a branch.
_PLAIN_PUSH = (
    rf"{BEGIN}git{OPTIONS} +push(?: +-\S+)*(?: +origin(?: +HEAD)?)?(?= *(?:\Z|[;&|)\n]|\d?>))"
)
_SKIPPING = rf"(?:skip|bypass|disabl)(?:p?ing|e)? {_THE}(?:hooks?|pre-commit(?: checks?)?)"
_FORCE = Deed(
    "git push -f",
    "pushed with force",
    r"force[- ]?push(?:ing|es)?",
    FORCED_PUSH,
    ("push",),
    _PUSHING,
    "lease",
)
#: A rule that names the option permits `--force-with-lease`.
_FORCE_AS_CODE = _FORCE._replace(
    name="git push --force", said="git push (?:--force|-f)", commands=PLAIN_FORCED_PUSH
)
_DEEDS = (
    _FORCE,
    _FORCE_AS_CODE,
    Deed(
        "git push --delete",
        "deleted a remote branch",
        rf"delet(?:e|ing) (?:{_THE}remote branch(?:es)?"
        rf"|{_THE}branch(?:es)? (?:on|from) (?:the )?(?:remote|origin|server|github))",
        rf"{_command('git push --delete')}|{BEGIN}git{OPTIONS} +push\b[^;&|\n]*?\s[\"']?:\w",
        ("push",),
    ),
    Deed(
        "git commit --amend",
        "amended a commit",
        rf"amend(?:ing)? {_THE}commits?|(?:git commit )?--amend",
        rf"{BEGIN}git{OPTIONS} +commit\b[^;&|\n]*?\s--amend(?![\w-])",
        ("amend",),
        _COMMITTING,
    ),
    Deed(
        "git commit --no-verify",
        "skipped git hooks",
        rf"{_SKIPPING}|(?:git commit )?--no-verify|git commit -n",
        rf"{_command('git commit --no-verify')}|{BEGIN}git\b[^;&|\n]*?\s--no-verify(?![\w-])",
        ("commit", "verify"),
        rf"{_COMMITTING}|to {_SKIPPING}",
    ),
    Deed(
        "migrate",
        "ran a migration",
        rf"(?:run|apply|execut)(?:n?ing|e)? {_THE}migrations?",
        rf"{BEGIN}(?:[^;&|\n]*?[\s/])?(?:(?:manage\.py|artisan|flyway) +migrate"
        rf"|alembic{OPTIONS} +upgrade|(?:rails|rake|sequelize(?:-cli)?) +db:migrate"
        r"|prisma +migrate +(?:dev|deploy)|knex +migrate:latest|diesel +migration +run"
        r"|sqlx +migrate +run|typeorm +migration:run|mix +ecto\.migrate|goose\b[^;&|\n]* up)"
        r"(?![\w:-])",
        ("migrate", "migration", "alembic", "goose"),
    ),
    Deed(
        "git push main",
        "pushed to the main branch",
        rf"{_PUSHING} {_CHANGES}to {_MAIN}",
        _PUSH_MAIN,
        ("main", "master"),
        on_main=_PLAIN_PUSH,
    ),
    Deed(
        "git commit main",
        "committed on the main branch",
        rf"(?:{_COMMITTING}|work(?:ing)?) {_CHANGES}(?:to|on|onto|in) {_MAIN}",
        r"(?!)",
        ("commit",),
        on_main=_COMMIT,
    ),
    Deed(
        "git commit main; git push main",
        "committed on the main branch or pushed to it",
        rf"(?:{_COMMITTING}(?: to)? or {_PUSHING}|{_PUSHING}(?: to)? or {_COMMITTING}) "
        rf"{_CHANGES}(?:to|on) {_MAIN}",
        _PUSH_MAIN,
        ("main", "master"),
        on_main=rf"{_COMMIT}|{_PLAIN_PUSH}",
    ),
    Deed(
        "npm install -g",
        "installed a package globally",
        rf"install(?:ing)? {_THE}(?:(?:npm|packages?|dependencies|tools?|anything|modules?) )*"
        r"globally",
        rf"{_command('npm install -g')}|{BEGIN}pnpm +(?:add|i|install)\b[^;&|\n]*? (?:-g|--global)"
        rf"(?![\w-])|{BEGIN}yarn +global +add\b",
        ("npm", "pnpm", "yarn"),
    ),
    Deed(
        "gh pr merge",
        "merged a pull request",
        rf"merg(?:e|ing) {_THE}(?:pull requests?|PRs?)",
        rf"{BEGIN}(?:gh{OPTIONS} +pr|glab{OPTIONS} +mr) +merge\b",
        ("merge",),
    ),
)
SAID = "|".join(f"(?:{deed.said})" for deed in _DEEDS)
_BY_NAME = {deed.name: deed for deed in _DEEDS}

#: The end of a ban on every act. Other words may restrict it to some branches.
_EVERY = lazy_pattern(
    r"(?:(?<=`)\)|[`\"'*_]*)(?:\s*(?:/|,? (?:or|and)|,|with|using|via)\s*`[^`\n]*`)*\s*"
    r"(?:yourself|on your own|(?:to|on) (?:any|the|your) (?:branch(?:es)?|remote|repo\w*))?"
    r"(?:\Z|[.;:!?—–]|\(`|(?:,\s+)?(?:because|since|it|as|so|even|just|always|never|instead)\b"
    r"|,\s+(?:create|make|open|use|work|switch)\b)",
    re.IGNORECASE,
)
#: A branch in the sentence of a ban.
_BRANCH_BEFORE = lazy_pattern(
    r"\b(?:main|master|branch(?:es)?|shared|protected|public|releases?|production)\b[^.;]*\Z",
    re.IGNORECASE,
)
#: The beginning and the end of a condition that is met at each act.
_CASE_BEGIN = r"(?:(?:when|while|before|after|on|if you)(?: (?:ever|you|re|are|do))* )?"
_CASE_END = (
    r"(?: (?:to|your|the|an?|any|new|more|changes?|updates?|commits?|fixes|PRs?|pull requests?"
    r"|code|work|up|remote|it))*"
)


def is_in_words(written: str) -> bool:
    """Return whether a part of a rule names a deed in words instead of code."""
    is_code = re.search(r"(?<!\w)-|\bgit ", written) is not None
    return not is_code and deed_said(written) is not None


@cache
def deed_said(written: str) -> Deed | None:
    """Return the deed that a part of a rule names; None if it names none."""
    said = (deed for deed in _DEEDS if re.fullmatch(deed.said, written, re.IGNORECASE))
    return next(said, None)


def deed_in(written: str, text: str) -> Deed | None:
    """Return the deed that a part of a rule's text names; None if it names none. An option in
    brackets after the words does not restrict them.
    """
    deed = deed_said(written)
    return _FORCE if deed is _FORCE_AS_CODE and is_said_in(_FORCE, text) else deed


def deed_named(name: str) -> Deed:
    """Return the deed with this name, which is the text of its token."""
    return _BY_NAME[name]


def is_said_in(deed: Deed, words: str) -> bool:
    """Return whether words of yours name a deed."""
    return re.search(deed.said, words, re.IGNORECASE) is not None


def is_banned(deed: Deed, around: Around) -> bool:
    """Return whether a rule is against every such act."""
    case = rf"{_CASE_BEGIN}(?:{deed.case}){_CASE_END}"
    earlier = (around.text[start:end] for start, end in around.earlier_conditions())
    if not all(re.fullmatch(rf"{case}\W*", words, re.IGNORECASE) for words in earlier):
        return False
    own_case = re.match(rf"[`\"'*_]*\s+{case}(?![\w-])", around.after, re.IGNORECASE)
    end = around.end + (own_case.end() if own_case else 0)
    is_restricted = (
        around.asks_you()
        or _BRANCH_BEFORE.search(around.text[: around.start])
        or is_for_a_case(around.text)
    )
    own_words = rf"\b(?:{deed.said}|{deed.case})\b"
    is_reached = reaches(re.sub(own_words, "", around.reach, flags=re.IGNORECASE))
    return _EVERY.match(around.text, end) is not None and not is_restricted and is_reached
