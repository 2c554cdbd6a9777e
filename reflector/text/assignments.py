"""Secrets that only their name reveals: `DB_PASSWORD=hunter2`, `"api_key": "…"`, `--token …`.

Invariant: a value is removed if its name is that of a secret and the value is a literal, not a
reference, a type, a call, a path or a placeholder. So `password=hunter2` loses its value, and
`password: str`, `token = next(tokens)`, `max_tokens=4096` and `secret: ${{ secrets.X }}` stay as
they are.

The required evidence depends on the form. A quoted literal needs little. A bare word could be code,
so it must follow an upper-case name and `=` (env files), fill the rest of a line after a password's
name (YAML, ini), or contain digits.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import NamedTuple

from reflector.text.bounds import BREAK
from reflector.text.lazy import lazy_pattern

# A pattern that begins with plain letters is searched ten times as fast as one that begins with
# alternatives.
_NAME = lazy_pattern(
    r"[pPkKsScCtTaA](?i:"
    r"(?P<password>(?<=p)(?:ass[_-]?(?:word|phrase|code)|asswd|wd)|(?<=requirep)ass"
    r"|(?<=_p)ass(?![A-Za-z])"
    r"|(?:(?<![A-Za-z0-9]p)|(?<=\\[nrt]p))w(?![A-Za-z0-9]))"
    r"|(?P<key>(?<=k)ey|(?<=s)ession|(?<=s)id(?![A-Za-z])"
    r"|(?<=a)uth(?<!_auth)(?![A-Za-z])(?![_-]key))"
    r"|(?P<secret>(?<=s)ecret(?![_-]?key)|(?<=c)redential|(?<=[?&]s)ig(?==))"
    r"|(?P<token>(?<=t)oken|(?<=_a)uth(?![A-Za-z])(?![_-]key))"
    r")(?P<suffix>[A-Za-z0-9_-]{0,40}+)"
    r"(?:"
    r"(?P<close>\\{0,3}[\"'`]?\]?)\s{0,4}"
    # an annotation: `password: str = …`
    r"(?P<assign>:\s{0,4}[A-Za-z_][A-Za-z0-9_.\[\]|]{0,40}[ ]=[ ]"
    r"|:=|=>|=(?![=~>])|:(?![:=]))"
    # setenv("TOKEN", "…"), ["--password", "…"]
    r"|\\{0,3}[\"']\s{0,2}(?P<argument>,)[ ]{0,2}(?:" + BREAK + r")?"
    r"|\\{0,3}[\"']?(?:[ \t]{1,40}|"
    + BREAK
    + r")(?P<pair>value)\\{0,3}[\"']?\s{0,2}[:=]"  # Kubernetes' `name: TOKEN` and `value: …`, forms
    r"|(?P<element>>)(?=[^<>\s]{1,256}</)"
    r"|[ ](?P<said>is|was)[ ]"  # the password is …
    r"|(?P<option>[ ])(?=[^\s=:-])"  # --password hunter2
    # YAML's `password: >-`, the value below
    r")(?P<gap>[ \t]{0,40}(?:[|>][+-]?" + BREAK + r"(?<=[ \t]))?)"
)
_FAMILIES = ("password", "key", "secret", "token")
#: Words that make a key the key of an interface or of a cipher.
_API_KEY = lazy_pattern(
    r"(?i)(?:api|access|account|private|secret|encryption|signing|master|license|auth|shared"
    r"|sharedaccess)[_-]?\Z"
)
_NAME_START = lazy_pattern(r"[A-Za-z0-9_.-]*\Z")

_QUOTE = lazy_pattern(r"[bfruBFRU]?(?P<slashes>\\{0,3})(?P<mark>\"\"\"|\"|'|`)")
_BARE = lazy_pattern(r"[^\s\"'`,;&|<>(){}\[\]\\]+")
_BARE_LIMIT = 128
_QUOTED_LIMIT = 4096
_REST_OF_LINE = lazy_pattern(r"[ \t]*(?:[ \t]#[^\n]{0,200})?(?:\r|\n|\\r|\\n|<|\Z)")

#: Endings of names that are about a secret and do not contain one: `token_count`, `password_file`,
#: `secretName`.
_ABOUT_WORDS = """
    age alg algorithm arn attempts budget cache callback change changed class client config count
    counter created dir enabled endpoint enum error errors exp expired expires expiration expiry
    field file filename format generator header help hint id ids index info input issuer kind label
    len length level lifetime limit limits line list location manager map max message min mode model
    name names namespace num number object offset option optional order params parser path pattern
    per placeholder policy position prefix prompt provider ratio ref reference regex required reset
    role rotation rule scope section service set size source spec state status storage store stream
    suffix text timeout title ttl type types uri url usage used user username valid validation
    validator version visible visibility window
"""
_ABOUT = frozenset(_ABOUT_WORDS.split())
_NOT_A_SECRET_WORDS = """
    any async await auto boolean bool bytes callable const current default dict disabled empty
    enabled env environ false file float function hidden input int integer invalid let list missing
    must needed new nil no none null number object off on optional private public raise readonly
    redacted required return secretstr self set str string text this true tuple type undefined
    unknown unset valid var void yes is was are not the and for from with try keyword prompt
    changeme change_me example placeholder todo option options flag argument arguments parameter
    switch instead pass
"""
_NOT_A_SECRET = frozenset(_NOT_A_SECRET_WORDS.split())
_SECRETS_NAMES = frozenset("password passwd passphrase secret token key pwd".split())
_ABOUT_ITSELF = lazy_pattern(r"(?i)pass|pwd|secret|token|key|cred|auth")
_REFERENCE = lazy_pattern(
    r"\$|<|\{|%[({A-Za-z]|@|\*|x{4,}|X{4,}|\.{2,}|env[.:(]|os\.|process\.env|secrets?\.|vault:"
    r"|op://"
    r"|\[redacted:|[Yy]our[ _-]|/|\.\.?/|~/|https?:|file:|arn:|AAAA[A-Z]|[A-Za-z]:[\\/]|-"
)
#: The characters between the parts of a qualified name.
_QUALIFIES = frozenset(".>:")
_TEMPLATE = lazy_pattern(r"\$\{|\{\{|\{[A-Za-z_][\w.]*\}|\$\(|%s")
_CONSTANT = lazy_pattern(r"[A-Z]+(?:_[A-Z]+)+")
_NAMES = lazy_pattern(r"[A-Za-z_$][\w$]*+(?:(?:\.|::|->)[A-Za-z_$][\w$]*+)*+;?")
_WORDS = lazy_pattern(r"[A-Za-z]?[a-z]+(?:[._-][A-Za-z]?[a-z]+)+")
_TOKEN = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9+/=_.~:!@#%^*-]*[A-Za-z0-9=_-]")
_TYPE = lazy_pattern(r"(?:[A-Z][a-z]+)+")
_SENTENCE = lazy_pattern(
    r"(?i)\b(?:password|passphrase|secret|required?|must|invalid|enter|your|please|is|the|an?"
    r"|not)\b"
)
#: `sha256`, `ed25519`, `utf-8`, `v2.1.0`, `32-byte`, `2fa`: words with a number.
_NUMBERED = lazy_pattern(
    r"v?[0-9][0-9.]*[A-Za-z]{0,2}|(?:[A-Z]+|[A-Za-z][a-z]+)-?[0-9]{1,5}|[0-9]+(?:-[a-z]+)+"
    r"|[a-z]+(?:[-_][a-z]+)*[-_][0-9]+"
)
_NAME_WORD = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class _Place(NamedTuple):
    """The place of a value.

    family    of the name to which it is assigned
    constant  whether the name is in upper case
    tight     `name=value`, without a space on either side
    colon     the name ends in a colon
    after     the character after the value
    last      nothing else is on the rest of the line
    """

    family: str
    constant: bool
    tight: bool
    colon: bool
    after: str
    last: bool

    @property
    def ends(self) -> bool:
        """Whether the value is all that is assigned to its name."""
        return self.tight or self.last


def redact_assignments(text: str) -> str:
    """Return `text` with the values of secret names replaced by `[redacted:password]`, `…:token]`,
    `…:secret]`, ….

    Linear, because only a bounded length of a value is checked before it is found to be a secret.
    """
    pieces: list[str] = []
    copied = position = 0
    while match := _NAME.search(text, position):
        position = match.end("suffix")
        span = _secret_span(text, match)
        if span is not None:
            start, position = span
            pieces += [text[copied:start], _marker(text, match, start, position)]
            copied = position
    return "".join(pieces) + text[copied:]


def _marker(text: str, match: re.Match[str], start: int, end: int) -> str:
    """Return the replacement of a secret. A bare number under a quoted name, as in JSON, becomes a
    string, so that the text stays JSON.
    """
    marker = f"[redacted:{_family(match, text)}]"
    is_quoted = text[start - 1] == text[end : end + 1]
    if is_quoted or not text[start:end].isdigit():
        return marker
    # `"password": 84123456` becomes `"password": "[redacted:password]"`. In `env["password"] = …`
    # the bracket is not a part of the quote.
    quote = (match["close"] or "").rstrip("]")
    return f"{quote}{marker}{quote}"


def _prefix(match: re.Match[str], text: str) -> str:
    """Return the part of the name before the word that shows a secret."""
    before = _NAME_START.search(text[max(0, match.start() - 40) : match.start()])
    return before[0] if before else ""


def _family(match: re.Match[str], text: str) -> str:
    """Return password, api-key, secret or token; or key for any other key, of which only a long
    random value counts.
    """
    family = next(name for name in _FAMILIES if match[name] is not None)
    return "api-key" if family == "key" and _API_KEY.search(_prefix(match, text)) else family


def _secret_span(text: str, match: re.Match[str]) -> tuple[int, int] | None:
    """Return the start and the end of the secret that is assigned to the matched name; None if
    there is none.
    """
    keyword = text[match.start() : match.start("suffix")]
    suffix = match["suffix"]
    family = _family(match, text)
    prefix = _prefix(match, text)
    if not _names_a_secret(keyword, suffix) or not _gives(text, match, family, prefix):
        return None
    start = match.end()
    if quote := _QUOTE.match(text, start):
        is_strict = match["argument"] is not None and not prefix.startswith("--")
        return _quoted_span(text, quote, family, is_strict=is_strict)
    bare = _BARE.match(text, start, start + _BARE_LIMIT)
    if bare is None or match["argument"]:
        return None
    if match["said"]:
        # In prose another word follows, and a sentence ends in a full stop.
        value = bare[0].rstrip(".!?:")
        return (start, start + len(value)) if _is_said_secret(value) else None
    if not _is_bare_secret(bare[0], _place(text, match, bare, prefix + keyword + suffix)):
        return None
    unbounded = _BARE.match(text, start)
    return unbounded.span() if unbounded else None


def _gives(text: str, match: re.Match[str], family: str, prefix: str) -> bool:
    """Return whether this form of a match can assign a value to a name of the family."""
    if family == "key" and (match["said"] or "public" in prefix.lower()):
        return False
    if match["option"] and not prefix.startswith("--"):
        return False
    start = match.start() - len(prefix)
    return not match["element"] or text[start - 1 : start] == "<"


def _place(text: str, match: re.Match[str], bare: re.Match[str], name: str) -> _Place:
    """Return the place of a value without quotes."""
    start = bare.start()
    operator = match["assign"] or ""
    is_joined = text[start - 1 : start] in ("=", ">") and not match["gap"]
    return _Place(
        family=_family(match, text),
        constant=name == name.upper(),
        tight=is_joined and not text[start - 2 : start - 1].isspace(),
        colon=operator.startswith(":") and operator != ":=",
        after=text[bare.end() : bare.end() + 1],
        last=_REST_OF_LINE.match(text, bare.end()) is not None,
    )


def _names_a_secret(keyword: str, suffix: str) -> bool:
    if suffix[:1].isalpha() and (suffix[0].islower() or keyword.isupper()):
        return False  # tokens, tokenizer, secretary, passwordless
    return not any(word.lower() in _ABOUT for word in _NAME_WORD.findall(suffix))


def _quoted_span(
    text: str, quote: re.Match[str], family: str, *, is_strict: bool
) -> tuple[int, int] | None:
    """Return the place of the secret after an opening quote; None if the value is not a secret.

    is_strict  only a long random value is a secret
    """
    start = quote.end()
    end = _closing(text, quote)
    newline = text.find("\n", start, end if end >= 0 else start + _QUOTED_LIMIT)
    is_cut_off = newline >= 0 and len(quote["mark"]) == 1
    if end < 0 or is_cut_off:
        # Cut off before the closing quote: take the first word.
        word = _BARE.match(text, start, start + _QUOTED_LIMIT)
        if word is None:
            return None
        end = word.end()
    value = text[start:end]
    if is_strict and (len(value) < 12 or not _random(value)):
        return None
    return (start, end) if _is_quoted_secret(value, family) else None


def _closing(text: str, quote: re.Match[str]) -> int:
    """Return the index of the closing quote of a value; a negative number if it is missing."""
    closing = quote["slashes"] + quote["mark"]
    start = quote.end()
    end = start
    while True:
        end = text.find(closing, end, start + _QUOTED_LIMIT)
        if end < 0 or quote["slashes"] or text[end - 1] != "\\":
            return end
        if text[end - 2 : end] == "\\\\":
            return end
        end += 1  # an escaped quote is part of the value


def _is_quoted_secret(value: str, family: str) -> bool:
    """Return whether a quoted value is a secret, and not a name, a sentence or a placeholder.

    A secret has at least 4 characters. It depends on the family of the name:

    key       a long random value
    token     16 characters, letters with capitals, or random ones
    password  any text, also several words that are not a sentence
    secret    6 characters, or several words that are not a sentence
    """
    if len(value) < 4 or is_placeholder(value):
        return False
    if family == "key":
        return _long_random(value)
    if _WORDS.fullmatch(value) and _names_itself(value, family):
        return False  # refresh_token, auth.password.label
    if any(map(str.isspace, value)):
        return family in ("password", "secret") and not _SENTENCE.search(value)
    if family == "password":
        return True
    if family == "token":
        return _is_quoted_token(value)
    return len(value) >= 6


def _names_itself(value: str, family: str) -> bool:
    """Return whether words in a row are the name of a secret; few are for a password."""
    return family != "password" or "." in value or _ABOUT_ITSELF.search(value) is not None


def _is_quoted_token(value: str) -> bool:
    if _TOKEN.fullmatch(value) is None or len(value) < 8:
        return False
    has_capitals = value.isalpha() and not value.islower()
    return len(value) >= 16 or has_capitals or _random(value)


def _is_bare_secret(value: str, place: _Place) -> bool:
    """Return whether a value without quotes is a secret, and not code, a number or a placeholder.

    The first rule that applies decides.
    """
    is_call_or_index = place.after in ("(", "[", "{")
    if len(value) < 4 or is_call_or_index or is_placeholder(value):
        return False
    if place.family == "key":
        return _long_random(value)
    digits = sum(map(str.isdigit, value))
    if _NAMES.fullmatch(value):
        return _is_secret_code(value, place, digits)
    if place.constant and place.ends:
        return True  # in an env file: DB_PASSWORD=hunter-2
    if digits == len(value):
        # After other names, a number is an amount, such as a count of tokens.
        return place.family == "password" and place.ends
    return _is_secret_word(value, place, digits)


def _is_secret_code(value: str, place: _Place, digits: int) -> bool:
    """Return whether a value that could be a name in code is a secret."""
    is_qualified = not _QUALIFIES.isdisjoint(value)  # settings.db_password
    if is_qualified and not (place.constant and digits):
        return False
    if place.constant and place.ends:
        return True
    if not digits:
        return _is_secret_name(value, place)
    if _ABOUT_ITSELF.search(value) or value.endswith(";"):
        # Probably a variable: token2, auth_v2;
        return digits >= 4 and len(value) >= 16 and _random(value)
    return _is_secret_word(value, place, digits)


def _is_secret_name(value: str, place: _Place) -> bool:
    """Return whether a value that could be a variable's name is a secret. A word without digits
    does not look like one, so its place decides.
    """
    if _ABOUT_ITSELF.search(value) or place.after in (",", ")", ";") or value.endswith(";"):
        return False
    if place.tight:
        return place.family == "password" or len(value) >= 8
    is_type = place.colon and _TYPE.fullmatch(value) is not None
    if is_type or "_" in value:
        return False
    return place.family == "password" and place.last


def _is_secret_word(value: str, place: _Place, digits: int) -> bool:
    """Return whether a value without quotes is a secret. The shorter it is, the clearer its place
    must be. Only a password need not be random.
    """
    if place.family == "password":
        return place.ends or (digits > 0 and len(value) >= 6)
    if "/" in value:
        return _long_random(value)
    if not _random(value):
        return False
    if len(value) >= 32 or place.tight:
        return len(value) >= 8
    return len(value) >= 12 and digits > 1


def _is_said_secret(value: str) -> bool:
    if len(value) < 6 or is_placeholder(value):
        return False
    return _random(value) and _NUMBERED.fullmatch(value) is None


def is_placeholder(value: str) -> bool:
    """Return whether a value is a reference, a placeholder, a constant's name or a word, and so
    cannot be a secret.
    """
    word = value.lower()
    if word in _SECRETS_NAMES or word.rstrip(";:.,!?0123456789") in _NOT_A_SECRET:
        return True
    if _REFERENCE.match(value) or _CONSTANT.fullmatch(value) or _TEMPLATE.search(value):
        return True
    return len(set(value)) == 1 or not any(map(str.isalnum, value))


def _random(value: str) -> bool:
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def _long_random(value: str) -> bool:
    """Return whether a value is base64 of 32 characters or more with capitals, small letters and
    digits, at four bits a character or more.
    """
    if len(value) < 32 or not re.fullmatch(r"[A-Za-z0-9+/_-]+={0,2}", value):
        return False
    if value.lower() == value or value.upper() == value or not _random(value):
        return False
    sample = value[:256]
    shares = [number / len(sample) for number in Counter(sample).values()]
    return -sum(share * math.log2(share) for share in shares) >= 4.0
