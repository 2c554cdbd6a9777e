"""Secrets that their own form reveals (a provider's prefix, a JWT, a bot's token), or their place:
a URL's user, a header, a command's option, a password file.

Invariant: a redacted text contains no token. After a replacement the rules run again, because the
token may have ended another one. Tokens with dashes come after those without. At a place, the group
`secret` of a rule is removed, and the rest of the match stays. A value that is a reference
(`$TOKEN`, `<token>`, `{token}`) or is already redacted does not match. Each repetition is bounded
or possessive, and a run that fails a rule contains no second start of that rule, so each rule is
linear.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from reflector.text.bounds import BREAK
from reflector.text.lazy import lazy_pattern

# A token may follow a word character only if that is the end of an escape: `\n` in JSON source, or
# `ESC[31m` in coloured output. The look-behind comes after the literal, which keeps the literal
# search fast.
_ESCAPED = r"(?<=\\[nrt]{0})|(?<=\[m{0})|(?<=[;\[][0-9]m{0})|(?<=[;\[][0-9][0-9]m{0})"
_START = r"(?:(?<![A-Za-z0-9_]{0})|" + _ESCAPED + ")"
#: For tokens that may contain dashes.
_START_OF_DASHED = r"(?:(?<![A-Za-z0-9_-]{0})|(?<=[^A-Za-z0-9_]-{0})|" + _ESCAPED + ")"
_END = r"(?![A-Za-z0-9_])"

_WORD = r"[A-Za-z0-9]"
_DASHED = r"[A-Za-z0-9_-]"
_HEX = r"[0-9a-f]"

#: The kind, the literals with which a token may start, and the pattern after them. None of these
#: contains a dash after its last bound.
_PLAIN: tuple[tuple[str, str, str], ...] = (
    ("openai-key", "sk-", rf"(?=[a-z-]{{0,64}}[A-Z0-9]){_WORD}{{20,}}+"),
    ("aws-key-id", "AKIA ASIA ABIA ACCA", r"[0-9A-Z]{16}"),
    ("github-token", "ghp_ gho_ ghu_ ghr_", rf"{_WORD}{{30,}}+"),
    ("github-token", "github_pat_", r"[A-Za-z0-9_]{20,}+"),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_", rf"{_WORD}{{10,}}+"),
    ("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{20,}+"),
    ("npm-token", "npm_", rf"{_WORD}{{36,}}+"),
    ("rubygems-key", "rubygems_", rf"{_HEX}{{40,}}+"),
    ("huggingface-token", "hf_", rf"{_WORD}{{30,}}+"),
    ("twilio-key", "SK", rf"{_HEX}{{32}}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", rf"{_HEX}{{40,}}+"),
    ("databricks-token", "dapi", rf"{_HEX}{{32}}(?:-[0-9])?"),
    ("shopify-token", "shpat_ shpss_ shpca_ shppa_", r"[0-9a-fA-F]{32}"),
    ("groq-key", "gsk_", rf"{_WORD}{{32,}}+"),
    ("xai-key", "xai-", rf"{_WORD}{{40,}}+"),
    ("perplexity-key", "pplx-", rf"{_WORD}{{32,}}+"),
    ("replicate-token", "r8_", rf"{_WORD}{{32,}}+"),
    ("linear-key", "lin_api_ lin_oauth_", rf"{_WORD}{{32,}}+"),
    ("notion-token", "ntn_", rf"{_WORD}{{40,}}+"),
    ("postman-key", "PMAK-", rf"{_HEX}{{24}}-{_HEX}{{34}}"),
    ("grafana-token", "glsa_", rf"{_WORD}{{32}}_{_HEX}{{8}}"),
    ("newrelic-key", "NRAK-", r"[A-Z0-9]{27}"),
    ("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{40,}+"),
    ("supabase-token", "sbp_", rf"{_HEX}{{40,}}+"),
    ("doppler-token", "dp.pt. dp.ct. dp.sa. dp.scim. dp.audit.", rf"{_WORD}{{40,}}+"),
    ("doppler-token", "dp.st.", r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}+"),
    ("brevo-key", "xkeysib- xsmtpsib-", rf"{_HEX}{{64}}-{_WORD}{{16}}"),
    ("mailgun-key", "key-", rf"{_HEX}{{32}}"),
    ("facebook-token", "EAA", r"[A-Z]" + rf"(?={_WORD}{{0,80}}[0-9]){_WORD}{{40,}}+"),
    ("render-key", "rnd_", rf"(?={_WORD}{{0,80}}[0-9]){_WORD}{{24,}}+"),
    ("pulumi-token", "pul-", rf"{_HEX}{{40}}"),
    ("airtable-token", "pat", rf"{_WORD}{{14}}\.{_HEX}{{64}}"),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_", rf"{_HEX}{{32}}_{_HEX}{{10}}"),
    ("apify-token", "apify_api_", rf"{_WORD}{{30,}}+"),
    ("dynatrace-token", "dt0c01.", r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
)

#: The same for tokens that may contain dashes anywhere.
_WITH_DASHES: tuple[tuple[str, str, str], ...] = (
    ("anthropic-key", "sk-ant-", rf"{_DASHED}{{16,}}+"),
    ("openrouter-key", "sk-or-", rf"{_DASHED}{{16,}}+"),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin-", rf"{_DASHED}{{16,}}+"),
    ("github-token", "ghs_", r"[A-Za-z0-9._-]{30,}+"),
    (
        "gitlab-token",
        "glpat- gldt- glrt- glptt- glcbt- glft- glsoat- glagent- gloas- glimt- glffct- glrtr-",
        r"[A-Za-z0-9_.-]{20,}+",
    ),
    ("slack-token", "xox", r"[abeoprs][.-][A-Za-z0-9._-]{10,}+"),
    ("slack-token", "xapp-", rf"[0-9]-{_DASHED}{{10,}}+"),
    ("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}+"),
    (
        "discord-webhook",
        "discord.com/api/webhooks/ discordapp.com/api/webhooks/",
        rf"[0-9]{{15,20}}/{_DASHED}{{40,}}+",
    ),
    ("google-key", "AIza", rf"{_DASHED}{{35,}}+"),
    ("google-key", "GOCSPX-", rf"{_DASHED}{{20,}}+"),
    ("google-token", "ya29.", rf"{_DASHED}{{20,}}+"),
    ("pypi-token", "pypi-", rf"{_DASHED}{{32,}}+"),
    ("sendgrid-key", "SG.", rf"{_DASHED}{{16,}}+\.{_DASHED}{{16,}}+"),
    ("docker-token", "dckr_pat_ dckr_oat_", rf"{_DASHED}{{20,}}+"),
    ("vault-token", "hvs. hvb. hvr.", rf"{_DASHED}{{20,}}+"),
    ("atlassian-token", "ATATT3 ATCTT3", r"[A-Za-z0-9_=-]{40,}+"),
    ("tailscale-key", "tskey-", rf"[a-z]{{2,12}}-{_DASHED}{{16,}}+"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"[A-Za-z0-9_=.-]{30,}+"),
    ("frameio-token", "fio-u-", r"[A-Za-z0-9_=-]{40,}+"),
    ("fly-token", "fm2_ fm1r_ fm1a_ fo1_", r"[A-Za-z0-9+/=_-]{40,}+"),
    ("supabase-token", "sb_secret_", rf"{_DASHED}{{20,}}+"),
    ("sentry-token", "sntrys_ sntryu_", r"[A-Za-z0-9+/=_-]{40,}+"),
    ("figma-token", "figd_", rf"{_DASHED}{{30,}}+"),
    ("square-token", "sq0atp- sq0csp-", rf"{_DASHED}{{22,}}+"),
    ("contentful-token", "CFPAT-", rf"{_DASHED}{{40,}}+"),
    ("nvidia-key", "nvapi-", rf"{_DASHED}{{40,}}+"),
    ("private-key", "PRIVATE+KEY+", r"[^\s\"'\\]{4,}+"),  # of signed notes (Go's `note`)
    ("jwt", "eyJ", rf"{_DASHED}{{8,}}+\.{_DASHED}{{8,}}+(?:\.{_DASHED}*+){{0,3}}"),
)

#: The start of a token, for a pattern that begins with one character instead of a literal.
_BEHIND = _START.replace("{0}", ".")
#: Tokens with their literal inside: the kind, that literal, and the whole pattern. Each has a
#: bounded length.
_INSIDE: tuple[tuple[str, str, str], ...] = (
    ("telegram-token", ":AA", r"[0-9]" + _BEHIND + r"[0-9]{7,9}+:AA[A-Za-z0-9_-]{32,34}+" + _END),
    ("mailchimp-key", "-us", _HEX + _BEHIND + rf"{_HEX}{{31}}-us[0-9]{{1,2}}" + _END),
    (
        "azure-secret",
        "Q~",
        (
            r"[A-Za-z0-9_~.-](?:(?<![A-Za-z0-9_~.-].)"
            r"|(?<=\\[nrt].))[A-Za-z0-9_~.-]{2}[78]Q~[A-Za-z0-9_~.-]{31,37}+"
        )
        + _END,
    ),
    (
        "terraform-token",
        ".atlasv1.",
        _WORD + _BEHIND + rf"{_WORD}{{13}}\.atlasv1\.{_DASHED}{{60,70}}+" + _END,
    ),
    # The id of the bot in base64, a time, a signature.
    (
        "discord-token",
        ".",
        r"[MNO]"
        + _BEHIND
        + rf"(?=[A-Za-z]{{0,27}}[0-9]){_DASHED}{{23,27}}+\.{_DASHED}{{6,7}}+\.{_DASHED}{{27,40}}+"
        + _END,
    ),
)


@cache
def _rules() -> tuple[tuple[str, str, str], ...]:
    """Return each literal with its pattern and its replacement."""
    rules = [(literal, pattern, f"[redacted:{kind}]") for kind, literal, pattern in _INSIDE]
    for table, start in ((_PLAIN, _START), (_WITH_DASHES, _START_OF_DASHED)):
        for kind, literals, rest in table:
            for literal in literals.split():
                escaped = re.escape(literal)
                pattern = escaped + start.replace("{0}", escaped) + rest + _END
                rules.append((literal, pattern, f"[redacted:{kind}]"))
    return tuple(rules)


#: Compiled when a text contains its literal, because compiling all of them takes as long as the
#: imports of a short drain.
_compiled = cache(re.compile)


def redact_tokens(text: str) -> str:
    """Return `text` with every token of a known form replaced by `[redacted:kind]`."""
    redacted = text
    for literal, pattern, marker in _rules():
        if literal in redacted:
            redacted = _compiled(pattern).sub(marker, redacted)
    # Without its neighbor, a text may have become a token of a form that was checked before.
    return text if redacted == text else redact_tokens(redacted)


class _Place(NamedTuple):
    """A rule for texts that contain its literal in lower case. It is compiled for the first such
    text.

    `accepts` checks the parts of a match that the pattern cannot check.
    """

    literal: str
    kind: str
    pattern: str
    accepts: Callable[[re.Match[str]], bool] = bool


def _is_basic(match: re.Match[str]) -> bool:
    secret = match["secret"]
    # "Basic functionality" is prose; only a text that decodes to user:password is a credential.
    try:
        decoded = binascii.a2b_base64(secret + "=" * (-len(secret) % 4), strict_mode=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and decoded.isascii()


def _is_mixed(match: re.Match[str]) -> bool:
    secret = match["secret"]
    return any(map(str.isdigit, secret)) and any(map(str.isalpha, secret))


def _is_password(match: re.Match[str]) -> bool:
    from reflector.text.assignments import is_placeholder  # it compiles expressions

    return not is_placeholder(match["secret"])


#: An argument of a command, quoted or bare.
_ARGUMENT = r"\\{0,3}['\"]?(?P<secret>[^\s'\"$\[<\{\\-][^\s'\"\\]{2,255})"

_BETWEEN = rf"(?:[ ]{{1,8}}|{BREAK})"
_DATABASE = lazy_pattern(r"(?i)(?:sql|postgres|maria|mongo|redis|amqp|oracle)[a-z0-9+_]{0,16}\Z")


def _before_option(option: str) -> str:
    """Return the pattern between a command and its option, without another command in between."""
    return rf"[ ](?:(?:(?!{option})[^\n|;&]){{0,200}}[ ])?{option}"


_PLACES = (
    _Place(
        "://",
        "url-password",
        (
            r"://(?P<keep>[^\s/:@\[\]\"'<>]{0,"
            r"128}+:)(?P<secret>(?!\*)[^\s/\"'<>$\{\[][^\s/\"'<>]{0,"
            r"255})@"
        ),
    ),
    # A password with a slash belongs to a database, because in a web address it would be a port and
    # a path.
    _Place(
        "://",
        "url-password",
        (
            r"://[^\s/:@\[\]\"'<>]{0,128}+:(?P<secret>(?!\*"
            r"|[0-9]{1,5}/)[^\s/\"'<>$\{\[][^\s\"'<>\[]{0,255})@"
        ),
        lambda match: (
            _DATABASE.search(match.string, max(0, match.start() - 24), match.start()) is not None
        ),
    ),
    _Place("://", "url-token", r"://(?P<secret>[A-Za-z0-9_]{20,255}+)@", _is_mixed),
    _Place(
        "authorization",
        "authorization",
        r"(?i:authorization)(?:\\?[\"']?\]?\s{0,4}[:=,]\s{0,4}\\?[\"']?"
        r"(?:(?i:bearer|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)\s{1,4})?)"
        r"(?P<secret>(?=[A-Za-z0-9+/=._~-]{0,255}[0-9=+/])(?=[0-9+/=._~-]{0,255}[A-Za-z])"
        r"[A-Za-z0-9+/=._~-]{8,}+)(?![(\[])",
    ),
    _Place(
        "authorization",
        "authorization",
        r"(?i:authorization)\\?[\"']?\s{0,4}[:=,]\s{0,4}\\?[\"']?(?i:bearer|token)[ ]"
        r"(?P<secret>[A-Za-z]{20,}+)(?![A-Za-z0-9_.(\[])",
    ),
    _Place(
        "bearer",
        "bearer-token",
        r"(?i:bearer)\s{1,4}(?P<secret>(?=[A-Za-z+/=._~-]{0,255}[0-9])[A-Za-z0-9+/=._~-]{16,}+)",
    ),
    _Place(
        "basic",
        "basic-auth",
        r"(?i:basic)\s{1,4}(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})(?![A-Za-z0-9_-])",
        _is_basic,
    ),
    _Place(
        "cookie",
        "cookie",
        r"(?i:cookie)\\?[\"']?:\s{0,4}\\?[\"']?[A-Za-z0-9_.-]{1,64}+="
        r"(?P<secret>[^\s\"'\[<$\{\\][^\r\n\"'\\]{7,}+)",
    ),
    # `docker run -u 1000:1000` names a user and a group.
    _Place(
        "-u",
        "password",
        (
            r"(?<![^\s(])(?:-u|--user)[ "
            r"=]['\"]?[^\s:'\"$\[]{1,128}+:(?P<secret>[^\s'\"$\[<\{][^\s'\"]{3,}+)"
        ),
        lambda match: not match["secret"].isdigit(),
    ),
    _Place("sshpass", "password", r"sshpass[ ]{1,4}-p[ ]{0,4}" + _ARGUMENT, _is_password),
    _Place(
        "mysql", "password", r"mysql[a-z]{0,12}+" + _before_option("-p") + _ARGUMENT, _is_password
    ),
    _Place(
        "mariadb",
        "password",
        r"mariadb[a-z-]{0,12}+" + _before_option("-p") + _ARGUMENT,
        _is_password,
    ),
    _Place(
        "redis-cli", "password", r"redis-cli" + _before_option("-a[ ]") + _ARGUMENT, _is_password
    ),
    _Place(
        "docker login",
        "password",
        r"docker login" + _before_option("-p[ ]") + _ARGUMENT,
        _is_password,
    ),
    _Place(
        "pass:", "password", r"-pass(?:in|out)?[ ]{1,4}\\?['\"]?pass:" + _ARGUMENT, _is_password
    ),
    _Place(
        "htpasswd",
        "password",
        r"htpasswd[ ](?=-[A-Za-z]{0,8}b)(?:-[A-Za-mo-z]{1,8}+[ "
        r"][^\s]{1,200}+|-(?=[A-Za-z]{0,8}n)[A-Za-z]{1,8}+)[ ]"
        r"[^\s]{1,128}+[ ]" + _ARGUMENT,
        _is_password,
    ),
    _Place(
        "machine",
        "password",
        rf"machine[ ][^\s\\]{{1,128}}+{_BETWEEN}login[ ][^\s\\]{{1,128}}+{_BETWEEN}password[ ]"
        + _ARGUMENT,
    ),
    # .pgpass: host:port:database:user:password
    _Place(
        ":",
        "password",
        r"(?:(?<![^\s\"'→|+>])|(?<=\\n))[A-Za-z0-9_.*-]{1,128}+:(?:543[0-9]|6432"
        r"|\*):[A-Za-z0-9_.*-]{1,64}+:[A-Za-z0-9_.*-]{1,64}+:"
        r"(?P<secret>(?![\[$<\{])[^\s\"'\\]{4,255})",
    ),
    _Place(
        "$",
        "password-hash",
        r"\$(?P<secret>(?:apr1|2[abxy]|[156y]|argon2(?:id?|d))\$[./A-Za-z0-9$,=+-]{20,}+)",
    ),
    _Place("{s", "password-hash", r"\{SS?HA\}(?P<secret>[A-Za-z0-9+/]{20,}+={0,2})"),
)


def redact_places(text: str) -> str:
    """Return `text` with the values at these places replaced by `[redacted:kind]`."""
    folded = text.lower()
    for rule in _PLACES:
        if rule.literal in folded:
            text = _compiled(rule.pattern).sub(_replacement(rule), text)
    return text


def _replacement(rule: _Place) -> Callable[[re.Match[str]], str]:
    marker = f"[redacted:{rule.kind}]"

    def replace(match: re.Match[str]) -> str:
        if not rule.accepts(match):
            return match[0]
        start, end = match.span("secret")
        return match.string[match.start() : start] + marker + match.string[end : match.end()]

    return replace
