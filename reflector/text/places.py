"""Secrets that their place gives away: a URL's user, a header, a command's option, a password file.

Invariant: what the group `secret` of a rule matches goes, the rest of the match stays. A value that is a reference
(`$TOKEN`, `<token>`, `{token}`) or is redacted already does not match. Each repetition is bounded or possessive, and a
rule that fails at the end of a long run cannot start again inside that run.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from reflector.text.tokens import BREAK


class _Rule(NamedTuple):
    """A rule runs on texts that hold its literal (in lower case), and is compiled for the first of them.

    `accepts` looks at what the pattern cannot.
    """

    literal: str
    kind: str
    pattern: str
    accepts: Callable[[re.Match[str]], bool] = bool


def _is_basic(match: re.Match[str]) -> bool:
    secret = match["secret"]
    # "Basic functionality" is prose; only what decodes to user:password is a credential.
    try:
        decoded = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and decoded.isascii()


def _is_mixed(match: re.Match[str]) -> bool:
    secret = match["secret"]
    return any(c.isdigit() for c in secret) and any(c.isalpha() for c in secret)


def _is_password(match: re.Match[str]) -> bool:
    from reflector.text.assignments import is_placeholder  # it compiles expressions

    return not is_placeholder(match["secret"])


#: An argument of a command, quoted or bare.
_ARGUMENT = r"\\{0,3}['\"]?(?P<secret>[^\s'\"$\[<\{\\-][^\s'\"\\]{2,255})"

_BETWEEN = rf"(?:[ ]{{1,8}}|{BREAK})"
_DATABASE = re.compile(r"(?i)(?:sql|postgres|maria|mongo|redis|amqp|oracle)[a-z0-9+_]{0,16}\Z")


def _before_option(option: str) -> str:
    """Return the pattern between a command and its option, which spans no other command."""
    return rf"[ ](?:(?:(?!{option})[^\n|;&]){{0,200}}[ ])?{option}"


_RULES = (
    _Rule(
        "://",
        "url-password",
        r"://(?P<keep>[^\s/:@\[\]\"'<>]{0,128}+:)(?P<secret>(?!\*)[^\s/\"'<>$\{\[][^\s/\"'<>]{0,255})@",
    ),
    # A password with a slash is one of a database: of a web address it would be a port and a path.
    _Rule(
        "://",
        "url-password",
        r"://[^\s/:@\[\]\"'<>]{0,128}+:(?P<secret>(?!\*|[0-9]{1,5}/)[^\s/\"'<>$\{\[][^\s\"'<>\[]{0,255})@",
        lambda match: _DATABASE.search(match.string, max(0, match.start() - 24), match.start()) is not None,
    ),
    _Rule("://", "url-token", r"://(?P<secret>[A-Za-z0-9_]{20,255}+)@", _is_mixed),
    _Rule(
        "authorization",
        "authorization",
        r"(?i:authorization)(?:\\?[\"']?\]?\s{0,4}[:=,]\s{0,4}\\?[\"']?"
        r"(?:(?i:bearer|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)\s{1,4})?)"
        r"(?P<secret>(?=[A-Za-z0-9+/=._~-]{0,255}[0-9=+/])(?=[0-9+/=._~-]{0,255}[A-Za-z])"
        r"[A-Za-z0-9+/=._~-]{8,}+)(?![(\[])",
    ),
    _Rule(
        "authorization",
        "authorization",
        r"(?i:authorization)\\?[\"']?\s{0,4}[:=,]\s{0,4}\\?[\"']?(?i:bearer|token)[ ]"
        r"(?P<secret>[A-Za-z]{20,}+)(?![A-Za-z0-9_.(\[])",
    ),
    _Rule(
        "bearer",
        "bearer-token",
        r"(?i:bearer)\s{1,4}(?P<secret>(?=[A-Za-z+/=._~-]{0,255}[0-9])[A-Za-z0-9+/=._~-]{16,}+)",
    ),
    _Rule(
        "basic",
        "basic-auth",
        r"(?i:basic)\s{1,4}(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})(?![A-Za-z0-9_-])",
        _is_basic,
    ),
    _Rule(
        "cookie",
        "cookie",
        r"(?i:cookie)\\?[\"']?:\s{0,4}\\?[\"']?[A-Za-z0-9_.-]{1,64}+="
        r"(?P<secret>[^\s\"'\[<$\{\\][^\r\n\"'\\]{7,}+)",
    ),
    # `docker run -u 1000:1000` names a user and a group.
    _Rule(
        "-u",
        "password",
        r"(?<![^\s(])(?:-u|--user)[ =]['\"]?[^\s:'\"$\[]{1,128}+:(?P<secret>[^\s'\"$\[<\{][^\s'\"]{3,}+)",
        lambda match: not match["secret"].isdigit(),
    ),
    _Rule("sshpass", "password", r"sshpass[ ]{1,4}-p[ ]{0,4}" + _ARGUMENT, _is_password),
    _Rule("mysql", "password", r"mysql[a-z]{0,12}+" + _before_option("-p") + _ARGUMENT, _is_password),
    _Rule("mariadb", "password", r"mariadb[a-z-]{0,12}+" + _before_option("-p") + _ARGUMENT, _is_password),
    _Rule("redis-cli", "password", r"redis-cli" + _before_option("-a[ ]") + _ARGUMENT, _is_password),
    _Rule("docker login", "password", r"docker login" + _before_option("-p[ ]") + _ARGUMENT, _is_password),
    _Rule("pass:", "password", r"-pass(?:in|out)?[ ]{1,4}\\?['\"]?pass:" + _ARGUMENT, _is_password),
    _Rule(
        "htpasswd",
        "password",
        r"htpasswd[ ](?=-[A-Za-z]{0,8}b)(?:-[A-Za-mo-z]{1,8}+[ ][^\s]{1,200}+|-(?=[A-Za-z]{0,8}n)[A-Za-z]{1,8}+)[ ]"
        r"[^\s]{1,128}+[ ]" + _ARGUMENT,
        _is_password,
    ),
    _Rule(
        "machine",
        "password",
        rf"machine[ ][^\s\\]{{1,128}}+{_BETWEEN}login[ ][^\s\\]{{1,128}}+{_BETWEEN}password[ ]" + _ARGUMENT,
    ),
    # .pgpass: host:port:database:user:password
    _Rule(
        ":",
        "password",
        r"(?:(?<![^\s\"'→|+>])|(?<=\\n))[A-Za-z0-9_.*-]{1,128}+:(?:543[0-9]|6432|\*):[A-Za-z0-9_.*-]{1,64}+:[A-Za-z0-9_.*-]{1,64}+:"
        r"(?P<secret>(?![\[$<\{])[^\s\"'\\]{4,255})",
    ),
    _Rule(
        "$",
        "password-hash",
        r"\$(?P<secret>(?:apr1|2[abxy]|[156y]|argon2(?:id?|d))\$[./A-Za-z0-9$,=+-]{20,}+)",
    ),
    _Rule("{s", "password-hash", r"\{SS?HA\}(?P<secret>[A-Za-z0-9+/]{20,}+={0,2})"),
)


_compiled = cache(re.compile)


def redact_places(text: str) -> str:
    """`text` with the values at these places replaced by `[redacted:kind]`."""
    folded = text.lower()
    for rule in _RULES:
        if rule.literal in folded:
            text = _compiled(rule.pattern).sub(_replacement(rule), text)
    return text


def _replacement(rule: _Rule) -> Callable[[re.Match[str]], str]:
    marker = f"[redacted:{rule.kind}]"

    def replace(match: re.Match[str]) -> str:
        if not rule.accepts(match):
            return match[0]
        start, end = match.span("secret")
        return match.string[match.start() : start] + marker + match.string[end : match.end()]

    return replace
