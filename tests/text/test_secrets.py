from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reflector.text.assignments import redact_assignments
from reflector.text.bounds import clean, visible
from reflector.text.key_blocks import redact_keys
from reflector.text.places import redact_places
from reflector.text.secrets import quote, redact
from reflector.text.tokens import redact_tokens
from tests.conftest import examples

# Written in two parts, so that this file holds nothing a secret scanner would stop at.
A36 = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3gH5"
HEX32 = "0123456789abcdef" * 2
HEX40 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"

TOKENS = [
    ("sk-" + "ant-api03-" + A36 + "_-" + A36, "anthropic-key"),
    ("sk-" + "proj-" + A36 + "_" + A36, "openai-key"),
    ("sk-" + A36, "openai-key"),
    ("AK" + "IAIOSFODNN7EXAMPLE", "aws-key-id"),
    ("AS" + "IAIOSFODNN7EXAMPLE", "aws-key-id"),
    ("gh" + "p_" + A36, "github-token"),
    ("gh" + "o_" + A36, "github-token"),
    ("gh" + "s_" + A36, "github-token"),
    ("github" + "_pat_11ABCDEFG0" + A36, "github-token"),
    ("gl" + "pat-" + A36[:20], "gitlab-token"),
    ("xo" + "xb-123456789012-1234567890123-" + A36, "slack-token"),
    ("xo" + "xp-123456789012-1234567890123-" + A36, "slack-token"),
    ("sk" + "_live_" + A36, "stripe-key"),
    ("rk" + "_live_" + A36, "stripe-key"),
    ("AI" + "za" + A36[:35], "google-key"),
    ("np" + "m_" + A36, "npm-token"),
    ("py" + "pi-AgEIcHlwaS5vcmc" + A36 * 3, "pypi-token"),
    ("h" + "f_" + A36[:34], "huggingface-token"),
    ("S" + "G." + A36[:22] + "." + A36 + "abcdefg", "sendgrid-key"),
    ("S" + "K" + HEX32, "twilio-key"),
    ("123456789:" + "AA" + A36[:33], "telegram-token"),
    ("ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0." + A36, "jwt"),
    ("hooks.slack." + "com/services/T00000000/B00000000/" + A36[:24], "slack-webhook"),
]


@pytest.mark.parametrize(("token", "kind"), TOKENS)
@pytest.mark.parametrize(
    "around", ["{}", "use {} now", "'{}'", "x={},", "\\n{}\\n", "\x1b[31m{}\x1b[0m", "({})", "[{}]"]
)
def test_a_token_is_known_by_its_form_wherever_it_stands(token: str, kind: str, around: str) -> None:
    assert redact(around.format(token)) == around.format(f"[redacted:{kind}]")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("postgres://app:s3cr3t@db.example/app", "s3cr3t"),
        ("redis://:s3cr3t@cache:6379/0", "s3cr3t"),
        ("https://bob:p@ss:w0rd@example.org/x", "p@ss:w0rd"),
        ("Authorization: Bearer abc.def-123456789", "abc.def-123456789"),
        ('"authorization": "Bearer abcdef0123456789"', "abcdef0123456789"),
        ("-H 'Authorization: Basic dXNlcjpwYXNzd29yZA=='", "dXNlcjpwYXNzd29yZA=="),
        ("sent Basic dXNlcjpwYXNzd29yZA== there", "dXNlcjpwYXNzd29yZA=="),
        ("the header was bearer 0123456789abcdefXYZ", "0123456789abcdefXYZ"),
        ("Authorization: token 0123456789abcdef0123", "0123456789abcdef0123"),
        ("Cookie: session=abcdef0123456789; theme=dark", "abcdef0123456789; theme=dark"),
        ("curl -u admin:hunter22 http://h/", "hunter22"),
        ("password=hunter2", "hunter2"),
        ("password = hunter2\n", "hunter2"),
        ("password: hunter2\n", "hunter2"),
        ("password: correcthorse\nuser: bob", "correcthorse"),
        ("password: 'correct horse battery staple'", "correct horse battery staple"),
        ('password = "hun\\"ter2"', 'hun\\"ter2'),
        ('"password": "hunter2"', "hunter2"),
        ('{\\"password\\": \\"hunter2\\"}', "hunter2"),
        ("{'db_password': 'letmein'}", "letmein"),
        ('password: str = "letmein"', "letmein"),
        ('os.environ["DB_PASSWORD"] = "letmein"', "letmein"),
        ('setenv("API_TOKEN", "abc123def456")', "abc123def456"),
        ("export DB_PASSWORD=letmein\n", "letmein"),
        ("DJANGO_SECRET_KEY=abcdef", "abcdef"),
        ("PASSWORD=1234", "1234"),
        ("mysql --password=letmein -u root", "letmein"),
        ("tool --token abc123def456 run", "abc123def456"),
        ("https://h/?token=abc12345&x=1", "abc12345"),
        ("token: 8f14e45fceea167a5a36dedd4bea2543", "8f14e45fceea167a5a36dedd4bea2543"),
        ('token: "abcdEFGH12"', "abcdEFGH12"),
        ('{"token": "supersecretvalue"}', "supersecretvalue"),
        ('client_secret="abcdefgh"', "abcdefgh"),
        ("client_secret: 9f86d081884c7d65", "9f86d081884c7d65"),
        ('api_key = "abc123"', "abc123"),
        ("apiKey: 'abcdef1234'", "abcdef1234"),
        ("X-Api-Key: 0123456789abcdef", "0123456789abcdef"),
        (
            "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        ),
        ("AccountKey=" + A36 + "/+abcXYZ==;EndpointSuffix=core", A36 + "/+abcXYZ=="),
        ("HEROKU_API_KEY=01234567-89ab-cdef-0123-456789abcdef", "01234567-89ab-cdef-0123-456789abcdef"),
        ("- name: API_KEY\n  value: abcdef99\n", "abcdef99"),
        ("<password>hunter2</password>", "hunter2"),
        ("password: 12345\n", "12345"),
        ("storage_key: " + A36, A36),
        ('password = "letmein off by the windo', "letmein"),
        ("PASSWORD='letmein", "letmein"),
    ],
)
def test_a_secret_is_known_by_its_place(text: str, secret: str) -> None:
    redacted = redact(text)
    assert secret not in redacted
    before, after = text.split(secret)
    assert redacted.startswith(before + "[redacted:")
    assert redacted.endswith("]" + after)


@pytest.mark.parametrize(
    "text",
    [
        f"commit {HEX40}",
        f"git show {HEX40[:7]} && git checkout {HEX40}",
        f"sha256:{HEX32 * 2}",
        f'"integrity": "sha512-{A36}{A36}=="',
        f"cache_key: {HEX40}",
        "id: 123e4567-e89b-12d3-a456-426614174000",
        "session_id=123e4567-e89b-12d3-a456-426614174000",
        "/home/bob/.config/tokens/api_key/password.txt",
        "SSH_KEY=/home/bob/.ssh/id_ed25519",
        "PWD=/srv/app/current1",
        "def login(user: str, password: str, token: Optional[str] = None) -> Token:",
        "def f(password=None, secret: bytes = b''):",
        "client = Client(api_key=api_key, token=self.token, password=settings.DB_PASSWORD)",
        'api_key = os.environ["OPENAI_API_KEY"]',
        "const token = await getToken(user1, 20);",
        "token = tokens[0]",
        "token = next(self.tokens)",
        "secret: ${{ secrets.DEPLOY_TOKEN }}",
        "password: $DB_PASSWORD",
        "password: ${DB_PASSWORD:-none}",
        'token = f"{prefix}-{user}"',
        "password: '********'",
        'api_key: "<your key here>"',
        'api_key="your-api-key"',
        "max_tokens=4096, total_tokens: 123456",
        "token_count: 123456789",
        "tokenizer: gpt2-medium-2024",
        "password_file: secrets1.txt",
        "if token == expected_1: raise InvalidToken",
        "password must be at least 8 characters",
        "Password: must be at least 8 characters",
        'password: "Please enter your password"',
        'type: "password", autocomplete: "current-password"',
        '{"type": "string", "token": "string"}',
        "interface A {\n  password: string\n  secret: SecretStr\n}",
        'grant_type: "refresh_token"',
        'token: "refresh_token"',
        "secretName: tls-cert-2024",
        "Basic functionality works; basic authentication-related changes 2",
        "bearer of bad news, bearer authentication is required",
        "Authorization: Bearer $TOKEN",
        'headers = {"Authorization": f"Bearer {token}"}',
        "risk-assessment-of-the-whole-system, task-sk-short, sk-fading-circle",
        "docker run -u 1000:1000 image",
        "git@github.com:owner/repo.git https://example.org:8080/a@b",
        "http://localhost:3000/user@example.org",
        'if "-----BEGIN RSA PRIVATE KEY-----" in text:',
        "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUABCDEFGHIJKLMNOP\n-----END CERTIFICATE-----",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJl3dIeudNqd0DPMRD6OIh65tjkxFNOtGcWGb2gCgQ5T me",
        "[pat-001] helpful=3 harmful=1 :: Run the tests before a commit.",
        "key = (user_id, 12)",
        "foreign_key: orders.customer_id_2",
        "class AuthTokenMiddlewareFactoryBean2Provider",
        "the token: abc",
        "ERRORTOKEN = token.ERRORTOKEN",
        "first_pass = saved_hooks",
        "authorization = base64.decodebytes(authorization)",
        "the --username and --password options",
        """qtoken = r'(?:"(?:[^"]|"")+"|[\\w]+?)'""",
        "redis://***:***@host/0",
        "author: bob, passes: 12, passed=12345",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


def test_a_number_in_json_becomes_a_string() -> None:
    assert redact('{"password": 12345\n}') == '{"password": "[redacted:password]"\n}'


KEY_BODY = "\n".join([A36 + A36[:28]] * 4)


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_a_private_key_goes_from_begin_to_end(kind: str) -> None:
    block = f"-----BEGIN {kind}PRIVATE KEY-----\n{KEY_BODY}\n-----END {kind}PRIVATE KEY-----"
    assert redact(f"a\n{block}\nb\n{block}\nc") == "a\n[redacted:private-key]\nb\n[redacted:private-key]\nc"
    assert redact(block.replace("\n", "\\n")) == "[redacted:private-key]"


def test_a_private_key_without_an_end_goes_as_far_as_it_looks_like_one() -> None:
    cut = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}"
    assert redact(cut) == "[redacted:private-key]"
    assert redact(cut + "\n\nThen we restart the server.") == "[redacted:private-key]\n\nThen we restart the server."
    numbered = "\n".join(f"{n:6}→{line}" for n, line in enumerate(cut.split("\n"), 1))
    assert redact(numbered) == "     1→[redacted:private-key]"
    assert redact(f"{cut}\nword\n{cut}") == "[redacted:private-key]\nword\n[redacted:private-key]"


def test_a_private_key_in_a_list_of_lines_leaves_a_list() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", *KEY_BODY.split("\n"), "-----END PRIVATE KEY-----"]
    redacted = json.loads(redact(json.dumps(lines)))
    assert redacted == [lines[0], *["[redacted:private-key]"] * 4, lines[-1]]
    source = " + ".join(f'"{line}\\n"' for line in lines)
    assert A36 not in redact(source)


def test_a_reference_inside_a_url_is_not_taken_for_a_password() -> None:
    token = "gh" + "p_" + A36
    assert redact(f"https://{token}@github.com/o/r") == "https://[redacted:github-token]@github.com/o/r"
    assert redact(f"https://x:{token}@github.com/o/r") == "https://x:[redacted:github-token]@github.com/o/r"


PARTS = st.one_of(
    st.sampled_from([token for token, _ in TOKENS]),
    st.sampled_from(
        [
            "password",
            "token",
            "_secret",
            "API_KEY",
            "--token",
            "=",
            ": ",
            ' "',
            "'",
            "\\",
            "\n",
            ",",
            "hunter2",
            "]",
        ]
    ),
    st.sampled_from(
        ["Bearer ", "Basic ", "Authorization", "://", "u:", "@", "eyJ", ".", "-", "sk-", "ghp_", A36, "-u "]
    ),
    st.sampled_from(
        [
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            "[redacted:",
            "[redacted:jwt]",
            "\x1b[0m",
            ">",
        ]
    ),
    st.text(max_size=6),
    st.text(alphabet=string.ascii_letters + string.digits + "-_.=+/", max_size=40),
)


@settings(max_examples=examples(500))
@given(st.lists(PARTS, max_size=14).map("".join))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


HOSTILE = [
    "a", "A", "0", "-", " ", "\n", "=", "eyJ", "eyJ-", "eyJa.", "0meyJ0m", "sk-", "sk-ant-", "ghp_",
    "ghs_.", "xoxb-", "SG.", "AKIA", "://", "://a:", "://:@", "a:b@", "token", "token=", "token:",
    "token='", 'token="', 'token=\\"', "token ", "token,", "password: a", "password=a b=", "api-key",
    "key>", "<key>a", "secret value", "secret : ", "PASSWORD=", "_pass_", "key='\"`", "Bearer ",
    "bearer a", "Basic ", "basic a", "Authorization: ", "authorization=", "cookie: a=", "-u a:",
    "1234567890:AA", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA\n",
    "-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nVersion: a\n", "[redacted:",
    "[redacted:jwt]", "\x1b[", "\x1b]", "\x1b]0;", "\x9b", "\\\\", "{", '"',
]  # fmt: skip


@settings(max_examples=examples(300))
@given(st.lists(PARTS, max_size=14).map("".join))
def test_a_rule_that_is_passed_over_has_nothing_to_find(text: str) -> None:
    assert redact(text) == redact_assignments(redact_places(redact_tokens(redact_keys(text))))


DOCUMENTS = st.recursive(
    st.lists(PARTS, max_size=5).map("".join) | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["password", "api_key", "token", "a"]) | PARTS, inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(300))
@given(DOCUMENTS, st.sampled_from([None, 2]), st.booleans())
def test_redacted_json_is_still_json(document: object, indent: int | None, ascii_only: bool) -> None:
    json.loads(redact(json.dumps(document, indent=indent, ensure_ascii=ascii_only)))


# A quadratic rule takes minutes here, which the timeout of every test ends.
@pytest.mark.parametrize("seed", HOSTILE, ids=ascii)
def test_a_hostile_text_is_redacted_without_a_hang(seed: str) -> None:
    redact(visible(seed * (100_000 // len(seed))))


@pytest.mark.slow
@pytest.mark.parametrize("seed", HOSTILE, ids=ascii)
def test_a_hostile_megabyte_is_redacted_without_a_hang(seed: str) -> None:
    redact(visible(seed * (1_000_000 // len(seed))))


def test_clean_leaves_one_visible_line() -> None:
    assert clean("a\tb\r\n  c\u2028d\x85e", 99) == "a b c d e"
    assert (
        clean(
            "\x1b[1;31mred\x1b[0m \x1b]0;title\x07bell \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x1bcreset",
            99,
        )
        == "red bell link reset"
    )
    assert clean("a\x00b\x08c\x7fd\x9b31me\u202edcb\u2066x\u200by\ufeffz\U000e0041", 99) == "abcdedcbxyz"
    assert clean("\ud800a", 99) == "\ufffda"


def test_clean_cuts_to_the_limit_with_an_ellipsis() -> None:
    assert clean("abcdef", 6) == "abcdef"
    assert clean("abcdefg", 6) == "abcde…"
    assert clean("abcd efg", 6) == "abcd…"
    assert clean("abc", 1) == "…"
    assert clean("abc", 0) == ""


@given(st.text(), st.integers(min_value=0, max_value=50))
def test_clean_is_bounded_and_can_be_encoded(text: str, limit: int) -> None:
    line = clean(text, limit)
    assert len(line) <= limit
    line.encode()
    assert clean(line, limit) == line


def test_quote_sees_through_invisible_characters() -> None:
    token = "gh" + "p_" + A36
    assert quote(token[:9] + "\u200b" + token[9:], 99) == "[redacted:github-token]"
    assert quote(token[:9] + "\x1b[0m" + token[9:], 99) == "[redacted:github-token]"
