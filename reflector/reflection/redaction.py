"""Text from outside, made safe to keep and to show.

Invariant: `redact(redact(x)) == redact(x)`, in time linear in the text, and what is not a secret stays
as it was. A secret is known by its own form (a provider's prefix, a JWT, a key block) or by its place
(a header, a URL's password, an assignment to a name such as `DB_PASSWORD`). Randomness alone is never
enough: commit ids, UUIDs, digests and paths are what transcripts are made of.

Every repetition is bounded or possessive, and a rule that fails at the end of a long run cannot start again
inside that run, so no input makes a rule quadratic. Each rule runs only on texts that hold its literal.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache

from reflector.reflection.assignments import redact_assignments

# A token may follow a word character only where that is the tail of an escape: `\n` in JSON source, or
# `ESC[31m` in coloured output. The look-behind stands after the literal, which keeps the literal search fast.
_START = (
    r"(?:(?<![A-Za-z0-9_-]{0})|(?<=[^A-Za-z0-9_]-{0})|(?<=\\[nrt]{0})"
    r"|(?<=\[m{0})|(?<=[;\[][0-9]m{0})|(?<=[;\[][0-9][0-9]m{0}))"
)
_END = r"(?![A-Za-z0-9_])"

#: kind, the literal a token starts with, what follows it.
_TOKENS: tuple[tuple[str, str, str], ...] = (
    ("anthropic-key", "sk-ant-", r"[A-Za-z0-9_-]{16,}+"),
    ("openrouter-key", "sk-or-", r"[A-Za-z0-9_-]{16,}+"),
    ("openai-key", "sk-proj-", r"[A-Za-z0-9_-]{16,}+"),
    ("openai-key", "sk-svcacct-", r"[A-Za-z0-9_-]{16,}+"),
    ("openai-key", "sk-admin-", r"[A-Za-z0-9_-]{16,}+"),
    ("openai-key", "sk-", r"(?=[a-z-]{0,64}[A-Z0-9])[A-Za-z0-9]{20,}+"),
    ("aws-key-id", "AKIA", r"[0-9A-Z]{16}"),
    ("aws-key-id", "ASIA", r"[0-9A-Z]{16}"),
    ("github-token", "ghp_", r"[A-Za-z0-9]{30,}+"),
    ("github-token", "gho_", r"[A-Za-z0-9]{30,}+"),
    ("github-token", "ghu_", r"[A-Za-z0-9]{30,}+"),
    ("github-token", "ghs_", r"[A-Za-z0-9._-]{30,}+"),
    ("github-token", "ghr_", r"[A-Za-z0-9]{30,}+"),
    ("github-token", "github_pat_", r"[A-Za-z0-9_]{20,}+"),
    ("gitlab-token", "glpat-", r"[A-Za-z0-9_.-]{20,}+"),
    ("gitlab-token", "gldt-", r"[A-Za-z0-9_.-]{20,}+"),
    ("gitlab-token", "glrt-", r"[A-Za-z0-9_.-]{20,}+"),
    ("slack-token", "xox", r"[abeoprs][.-][A-Za-z0-9._-]{10,}+"),
    ("slack-token", "xapp-", r"[0-9]-[A-Za-z0-9_-]{10,}+"),
    ("slack-webhook", "hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/_-]{20,}+"),
    ("stripe-key", "sk_live_", r"[A-Za-z0-9]{10,}+"),
    ("stripe-key", "sk_test_", r"[A-Za-z0-9]{10,}+"),
    ("stripe-key", "rk_live_", r"[A-Za-z0-9]{10,}+"),
    ("stripe-key", "rk_test_", r"[A-Za-z0-9]{10,}+"),
    ("stripe-key", "whsec_", r"[A-Za-z0-9+/=]{20,}+"),
    ("google-key", "AIza", r"[A-Za-z0-9_-]{35}"),
    ("google-key", "GOCSPX-", r"[A-Za-z0-9_-]{20,}+"),
    ("google-token", "ya29.", r"[A-Za-z0-9_-]{20,}+"),
    ("npm-token", "npm_", r"[A-Za-z0-9]{36,}+"),
    ("pypi-token", "pypi-", r"[A-Za-z0-9_-]{32,}+"),
    ("huggingface-token", "hf_", r"[A-Za-z0-9]{30,}+"),
    ("sendgrid-key", "SG.", r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+"),
    ("twilio-key", "SK", r"[0-9a-f]{32}"),
    ("digitalocean-token", "dop_v1_", r"[0-9a-f]{40,}+"),
    ("databricks-token", "dapi", r"[0-9a-f]{32}(?:-[0-9])?"),
    ("docker-token", "dckr_pat_", r"[A-Za-z0-9_-]{20,}+"),
    ("shopify-token", "shpat_", r"[0-9a-fA-F]{32}"),
    ("shopify-token", "shpss_", r"[0-9a-fA-F]{32}"),
    ("groq-key", "gsk_", r"[A-Za-z0-9]{32,}+"),
    ("xai-key", "xai-", r"[A-Za-z0-9]{40,}+"),
    ("perplexity-key", "pplx-", r"[A-Za-z0-9]{32,}+"),
    ("replicate-token", "r8_", r"[A-Za-z0-9]{32,}+"),
    ("vault-token", "hvs.", r"[A-Za-z0-9_-]{20,}+"),
    ("linear-key", "lin_api_", r"[A-Za-z0-9]{32,}+"),
    ("notion-token", "ntn_", r"[A-Za-z0-9]{40,}+"),
    ("postman-key", "PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    ("grafana-token", "glsa_", r"[A-Za-z0-9]{32}_[0-9a-f]{8}"),
    ("newrelic-key", "NRAK-", r"[A-Z0-9]{27}"),
    ("atlassian-token", "ATATT3", r"[A-Za-z0-9_=-]{40,}+"),
    ("tailscale-key", "tskey-", r"[a-z]{2,12}-[A-Za-z0-9_-]{16,}+"),
    ("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{40,}+"),
    ("jwt", "eyJ", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){0,3}"),
)


@cache
def _token_rules() -> tuple[tuple[str, re.Pattern[str], str], ...]:
    """Each token's literal, its pattern and what takes its place. Compiled when a first text is redacted: that
    takes as long as the rest of a short drain's imports."""
    return tuple(
        (
            literal,
            re.compile(re.escape(literal) + _START.replace("{0}", re.escape(literal)) + rest + _END),
            f"[redacted:{kind}]",
        )
        for kind, literal, rest in _TOKENS
    )


# The id before a Telegram token's colon has no literal to search for; `:AA` has.
_TELEGRAM = re.compile(r"(?<![0-9])[0-9]{8,10}+:AA[A-Za-z0-9_-]{32,34}+" + _END)

# Rules whose secret is a part of the match: what is in the group `secret` goes, the rest stays. A value that
# is a reference (`$TOKEN`, `<token>`, `{token}`) or is redacted already does not match.
_URL = re.compile(r"://(?P<keep>[^\s/:@\[\]\"'<>]{0,128}+:)(?P<secret>(?!\*)[^\s/\"'<>$\{\[][^\s/\"'<>]{0,255})@")
_AUTHORIZATION = re.compile(
    r"(?i:authorization)(?P<keep>\\?[\"']?\]?\s{0,4}[:=,]\s{0,4}\\?[\"']?"
    r"(?:(?i:bearer|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)\s{1,4})?)"
    r"(?P<secret>(?=[A-Za-z0-9+/=._~-]{0,255}[0-9=+/])(?=[0-9+/=._~-]{0,255}[A-Za-z])"
    r"[A-Za-z0-9+/=._~-]{8,}+)(?![(\[])"
)
_BEARER = re.compile(r"(?i:bearer)(?P<keep>\s{1,4})(?P<secret>(?=[A-Za-z+/=._~-]{0,255}[0-9])[A-Za-z0-9+/=._~-]{16,}+)")
_BASIC = re.compile(r"(?i:basic)(?P<keep>\s{1,4})(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})")
_COOKIE = re.compile(
    r"(?i:cookie)(?P<keep>\\?[\"']?:\s{0,4}\\?[\"']?[A-Za-z0-9_.-]{1,64}+=)(?P<secret>[^\s\"'\[<$\{\\][^\r\n\"'\\]{7,}+)"
)
_CURL_USER = re.compile(
    r"(?<![^\s(])(?:-u|--user)(?P<keep>[ =]['\"]?[^\s:'\"$\[]{1,128}+:)"
    r"(?P<secret>[^\s'\"$\[<\{][^\s'\"]{3,}+)"
)

_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
#: What a key block holds when its end is missing: long runs of base64, between line breaks (real or escaped),
#: quotes and the line numbers that an agent's file reader adds.
_KEY_GAP = r"(?:\s|\\[nr]|[\"',>|]|[0-9]{1,6}[→\t:])"
_KEY_BODY = re.compile(
    rf"{_KEY_GAP}*+(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\n]{{0,120}}{_KEY_GAP}++)*+"
    rf"[A-Za-z0-9+/=]{{16,}}+(?:{_KEY_GAP}++[A-Za-z0-9+/=]{{16,}}+)*+(?:{_KEY_GAP}*+[A-Za-z0-9+/]{{0,63}}+={{1,2}})?"
)
_KEY_LINE = re.compile(r"(\\(?:u[0-9a-fA-F]{4}|.))|(?=[0-9+/=]{0,80}[A-Za-z])[A-Za-z0-9+/=]{12,}+", re.DOTALL)
_KEY_BLOCK_LIMIT = 32_768

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor movement
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, …
    r"|\x1b[ -/]{0,8}[0-~]"
)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")


def redact(text: str) -> str:
    """`text` with every secret replaced by `[redacted:kind]`.

    A redaction can bring another to light (what follows a marker has a new neighbour), so the rules run
    until nothing changes. Each round that changes anything leaves less to redact, and one round is the rule.
    """
    while (redacted := _redact_once(text)) != text:
        text = redacted
    return text


def clean(text: str, limit: int) -> str:
    """`text` on one line of at most `limit` characters, safe for a terminal, a prompt and UTF-8.

    Escape sequences, control, bidirectional and invisible characters go; line breaks and runs of white
    space become one space; a lone surrogate becomes U+FFFD; what is cut ends in `…`.
    """
    line = " ".join(visible(text).split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…" if limit > 0 else ""


def quote(text: str, limit: int) -> str:
    """What may be kept or shown of a foreign text: no secrets, one line, at most `limit` characters.

    Invisible characters go first: a zero-width space inside a key would hide it from `redact`, and `clean`
    would then restore it.
    """
    return clean(redact(visible(text)), limit)


def visible(text: str) -> str:
    """`text` without escape sequences, control, bidirectional and invisible characters; line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return _SURROGATES.sub("\ufffd", _INVISIBLE.sub("", _ESCAPES.sub("", text)))


def _redact_once(text: str) -> str:
    folded = text.lower()
    if "-----BEGIN " in text:
        text = _redact_key_blocks(text)
    for literal, pattern, marker in _token_rules():
        if literal in text:
            text = pattern.sub(marker, text)
    if ":AA" in text:
        text = _TELEGRAM.sub("[redacted:telegram-token]", text)
    if "://" in text:
        text = _URL.sub(_keep_around("url-password"), text)
    if "authorization" in folded:
        text = _AUTHORIZATION.sub(_keep_around("authorization"), text)
    if "bearer" in folded:
        text = _BEARER.sub(_keep_around("bearer-token"), text)
    if "basic" in folded:
        text = _BASIC.sub(_redact_basic, text)
    if "cookie" in folded:
        text = _COOKIE.sub(_keep_around("cookie"), text)
    if "-u" in text:
        text = _CURL_USER.sub(_redact_curl_user, text)
    return redact_assignments(text)


def _keep_around(kind: str) -> Callable[[re.Match[str]], str]:
    """A replacement that puts the marker in the place of the group `secret` and keeps the rest."""
    marker = f"[redacted:{kind}]"

    def replace(match: re.Match[str]) -> str:
        start, end = match.span("secret")
        return match.string[match.start() : start] + marker + match.string[end : match.end()]

    return replace


def _redact_basic(match: re.Match[str]) -> str:
    # "Basic functionality" is prose; only what decodes to user:password is a credential.
    secret = match["secret"]
    try:
        decoded = base64.b64decode(secret + "=" * (-len(secret) % 4), validate=True)
    except (binascii.Error, ValueError):
        return match[0]
    return _keep_around("basic-auth")(match) if b":" in decoded and decoded.isascii() else match[0]


def _redact_curl_user(match: re.Match[str]) -> str:
    # `docker run -u 1000:1000` names a user and a group.
    return match[0] if match["secret"].isdigit() else _keep_around("password")(match)


def _redact_key_blocks(text: str) -> str:
    """Private keys go from BEGIN to END; where the END is missing, as far as the text looks like a key."""
    pieces: list[str] = []
    done = 0
    end = _KEY_END.search(text)
    for begin in _KEY_BLOCK.finditer(text):
        if begin.start() < done:
            continue
        while end is not None and end.start() < begin.end():
            end = _KEY_END.search(text, end.end())
        if (
            end is not None
            and end.end() - begin.end() <= _KEY_BLOCK_LIMIT
            and not _KEY_BLOCK.search(text, begin.end(), end.start())
        ):
            stop = end.end()
        elif body := _KEY_BODY.match(text, begin.end()):
            stop = body.end()
        else:
            continue  # the header alone, as in code that looks for one
        block = text[begin.start() : stop]
        # Between quotes stand the lines of a list or of a concatenation: that stays, the lines go.
        kept = (
            _KEY_LINE.sub(lambda line: line[1] or "[redacted:private-key]", block)
            if '"' in block
            else "[redacted:private-key]"
        )
        pieces += [text[done : begin.start()], kept]
        done = stop
    return "".join(pieces) + text[done:]
