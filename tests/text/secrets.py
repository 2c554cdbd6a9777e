"""A labelled corpus: secrets of many kinds, made of random values when asked for, and ordinary strings that look alike.

No value is written down here, so a scanner of this repository has nothing to stop at.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable
from hashlib import sha1, sha256, sha512
from random import Random
from typing import NamedTuple
from uuid import UUID

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
DASHED = ALNUM + "-_"
BASE64 = ALNUM + "+/"
_WORDS = re.compile(r"(?i)pass|pwd|secret|token|key|cred|auth")


class Secret(NamedTuple):
    """A text, and the parts of it that nobody may read."""

    text: str
    parts: tuple[str, ...]


def _some(dice: Random, letters: str, count: int) -> str:
    while True:
        made = "".join(dice.choices(letters, k=count))
        one_class = letters in (string.ascii_letters, string.digits)
        mixed = any(c.isdigit() for c in made) and any(c.isalpha() for c in made)
        # By chance a value spells what makes it a name of code: `getKey2`.
        if (one_class or mixed) and not _WORDS.search(made) and made[0].isalnum() and made[-1].isalnum():
            return made


#: {a30}: 30 letters and digits; d: dashes too; x: hex; u: capitals and digits; l: small letters and digits;
#: b: base64; t: letters only; n: digits only.
_CLASSES = {
    "a": ALNUM,
    "d": DASHED,
    "x": string.hexdigits[:16],
    "u": string.ascii_uppercase + string.digits,
    "l": LOWER,
    "b": BASE64,
    "t": string.ascii_letters,
    "n": string.digits,
}

#: kind: the text around the values.
_FORMS: dict[str, str] = {
    "anthropic": "sk-ant-api03-{d93}",
    "openrouter": "sk-or-v1-{x64}",
    "openai": "sk-{a48}",
    "openai project": "sk-proj-{d120}",
    "aws key id": "AKIA{u16}",
    "aws session key id": "ASIA{u16}",
    "github classic": "ghp_{a36}",
    "github oauth": "gho_{a36}",
    "github user": "ghu_{a36}",
    "github server": "ghs_{a36}",
    "github refresh": "ghr_{a36}",
    "github fine-grained": "github_pat_{a22}_{a59}",
    "gitlab personal": "glpat-{d20}",
    "gitlab trigger": "glptt-{x40}",
    "gitlab ci job": "glcbt-64_{d20}",
    "gitlab deploy": "gldt-{d20}",
    "gitlab runner": "glrt-{d20}",
    "gitlab feed": "glft-{d20}",
    "slack bot": "xoxb-{n12}-{n13}-{a24}",
    "slack user": "xoxp-{n12}-{n12}-{n13}-{x32}",
    "slack app": "xapp-1-A{u10}-{n13}-{x64}",
    "slack webhook": "https://hooks.slack.com/services/T{u8}/B{u10}/{a24}",
    "stripe live": "sk_live_{a24}",
    "stripe restricted": "rk_test_{a24}",
    "stripe webhook": "whsec_{a32}",
    "google api": "AIza{d35}",
    "google client": "GOCSPX-{d28}",
    "google access": "ya29.{d120}",
    "npm": "npm_{a36}",
    "pypi": "pypi-AgEIcHlwaS5vcmc{d140}",
    "hugging face": "hf_{t34}",
    "sendgrid": "SG.{d22}.{d43}",
    "twilio": "SK{x32}",
    "telegram": "{n10}:AA{d33}",
    "digitalocean": "dop_v1_{x64}",
    "databricks": "dapi{x32}",
    "docker": "dckr_pat_{d27}",
    "shopify": "shpat_{x32}",
    "groq": "gsk_{a52}",
    "xai": "xai-{a80}",
    "perplexity": "pplx-{a48}",
    "replicate": "r8_{a37}",
    "vault": "hvs.{d90}",
    "linear": "lin_api_{a40}",
    "notion": "ntn_{n11}{a35}",
    "postman": "PMAK-{x24}-{x34}",
    "grafana": "glsa_{a32}_{x8}",
    "new relic": "NRAK-{u27}",
    "atlassian": "ATATT3xFfGF0{d160}",
    "tailscale": "tskey-auth-{a12}-{a32}",
    "age": "AGE-SECRET-KEY-1{u58}",
    "supabase": "sbp_{x40}",
    "supabase secret": "sb_secret_{d31}",
    "doppler personal": "dp.pt.{a43}",
    "doppler service": "dp.st.dev.{a43}",
    "planetscale": "pscale_tkn_{d43}",
    "planetscale password": "pscale_pw_{d43}",
    "frame.io": "fio-u-{d64}",
    "brevo": "xkeysib-{x64}-{a16}",
    "fly": "FlyV1 fm2_{b120}",
    "discord": "MTA{a21}{n1}.G{d5}.{d38}",
    "discord webhook": "https://discord.com/api/webhooks/{n18}/{d68}",
    "mailgun": "key-{x32}",
    "mailchimp": "{x32}-us14",
    "facebook": "EAAC{a120}",
    "render": "rnd_{a32}",
    "azure client": "{a3}8Q~{d34}",
    "terraform cloud": "{a14}.atlasv1.{d67}",
    "pulumi": "pul-{x40}",
    "airtable": "pat{a14}.{x64}",
    "sentry": "sntrys_{b120}",
    "figma": "figd_{d40}",
    "square": "sq0atp-{d22}",
    "rubygems": "rubygems_{x48}",
    "url with a token": "git clone https://{a40}@git.example/team/app.git",
    "url password": "redis://default:{a24}@cache.example:6379/0",
    "database password with a slash": "postgres://app:{a12}/{a12}@db.example:5432/app",
    "bearer": 'curl -H "Authorization: Bearer {a40}" https://api.example',
    "bearer of letters": "Authorization: Bearer {t32}",
    "bearer in json": '{"Authorization": "Bearer {a40}"}',
    "authorization token": "Authorization: token {x40}",
    "cookie": "Cookie: sessionid={l32}; Path=/",
    "curl user": "curl -u deploy:{a20} https://repo.example",
    "netrc": "machine api.example login bob password {a20}",
    "netrc of lines": "machine api.example\n  login bob\n  password {a20}",
    "pgpass": "db.example:5432:app:bob:{a20}",
    "sshpass": "sshpass -p {a16} ssh bob@host.example",
    "mysql": "mysql -u root -p{a16} app",
    "mysqldump": "mysqldump --single-transaction -u root -p'{a16}' app > app.sql",
    "redis-cli": "redis-cli -h cache.example -a {a20} ping",
    "docker login": "docker login -u bob -p {a20} registry.example",
    "openssl": "openssl rsa -in key.pem -passin pass:{a16}",
    "htpasswd": "htpasswd -b /etc/nginx/users bob {a16}",
    "htpasswd file": "bob:$apr1${a8}${a22}",
    "bcrypt": "bob:$2y$10${a53}",
    "yaml block": "password: >-\n  {a20}\nuser: bob",
    "yaml literal": "db:\n  password: |\n    {a20}\n  port: 1",
    "yaml": "  password: {a20}\n",
    "password is": "the password is {a16}, don't share it",
    "pw": "pw: {a16}",
    "env file": "DB_PASSWORD={a24}\n",
    "env with export": "export SECRET_KEY_BASE={x64}\n",
    "ini": "[database]\npassword = {a20}\n",
    "json": '{"api_key": "{a32}"}',
    "python": 'client = Client(api_key="{a32}")',
    "javascript": "const apiKey = '{a32}';",
    "toml": 'token = "{a40}"',
    "properties": "spring.datasource.password={a18}\n",
    "xml element": "<password>{a18}</password>",
    "xml attribute": '<add key="Password" value="{a18}"/>',
    "xml attribute of its own": '<connection user="app" password="{a18}"/>',
    "connection string": "Server=db;User Id=app;Password={a18};Encrypt=true",
    "azure storage": "AccountName=app;AccountKey={b86}==;EndpointSuffix=core.windows.net",
    "aws secret": "aws_secret_access_key = {b40}",
    "option": "tool --password {a18} run",
    "option with equals": "tool --token={a32} run",
    "options in a list": '["tool", "--password", "{a18}"]',
    "options in lines": '[\n  "tool",\n  "--api-key",\n  "{a32}"\n]',
    "query": "https://api.example/v1?api_key={a32}&page=2",
    "signed url": "https://store.example/a?se=2030-01-01&sig={a43}",
    "kubernetes": "- name: API_TOKEN\n  value: {a32}\n",
    "os.environ": 'os.environ["DB_PASSWORD"] = "{a18}"',
    "setenv": 'setenv("API_TOKEN", "{a32}")',
    "passphrase of words": 'passphrase = "{t9} {t7} {t8} {t6}"',
    "npmrc": "//registry.example/:_authToken={a36}",
    "pip config": "index-url = https://bob:{a20}@pypi.example/simple",
}

#: Kinds that are known by nothing around them, so that they may stand anywhere.
BY_FORM = tuple(_FORMS)[: tuple(_FORMS).index("url with a token")]


def _filled(form: str, dice: Random) -> Secret:
    text, parts, rest = "", [], form
    while rest:
        start = rest.find("{")
        if start < 0 or rest[start + 1] not in _CLASSES or not rest[start + 2].isdigit():
            step = len(rest) if start < 0 else start + 1
            text, rest = text + rest[:step], rest[step:]
            continue
        end = rest.index("}", start)
        value = _some(dice, _CLASSES[rest[start + 1]], int(rest[start + 2 : end]))
        text, rest = text + rest[:start] + value, rest[end + 1 :]
        parts.append(value)
    return Secret(text, tuple(parts))


def _jwt(dice: Random) -> Secret:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(f'{{"sub":"{_some(dice, ALNUM, 200)}"}}'.encode()).decode().rstrip("=")
    parts = (body, _some(dice, DASHED, 86))
    return Secret(".".join((head, *parts)), parts)


def _basic(dice: Random) -> Secret:
    value = base64.b64encode(f"bob:{_some(dice, ALNUM, 20)}".encode()).decode()
    return Secret(f"Authorization: Basic {value}", (value,))


def _key(kind: str, width: int, lines: int) -> Callable[[Random], Secret]:
    def made(dice: Random) -> Secret:
        body = [_some(dice, BASE64, width) for _ in range(lines)] + [_some(dice, BASE64, width // 2) + "=="]
        edges = (f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----")
        return Secret("\n".join((edges[0], *body, edges[1])), tuple(body))

    return made


KEYS: dict[str, Callable[[Random], Secret]] = {
    "rsa key": _key("RSA ", 64, 25),
    "pkcs8 key": _key("", 64, 25),
    "ec key": _key("EC ", 64, 2),
    "openssh key": _key("OPENSSH ", 70, 7),
    "large rsa key": _key("RSA ", 64, 50),
}
_MADE: dict[str, Callable[[Random], Secret]] = {"jwt": _jwt, "basic": _basic, **KEYS}

KINDS = (*_FORMS, *_MADE)


def secret(kind: str, dice: Random) -> Secret:
    """A secret of a kind, its values new."""
    made = _MADE.get(kind)
    return made(dice) if made is not None else _filled(_FORMS[kind], dice)


def shown(parts: tuple[str, ...], text: str, least: int = 12) -> str | None:
    """A piece of a secret that stands in a text: so many characters of one of its parts, or a whole shorter one."""
    for part in parts:
        if len(part) < 5:
            continue
        size = min(least, len(part))
        for start in range(len(part) - size + 1):
            if part[start : start + size] in text:
                return part[start : start + size]
    return None


_LINES_OF_CODE = """
token = get_token()
password: str
password: str | None = None
def login(self, user: str, password: str) -> Session:
self.token = token
token = tokens[0]
token = request.headers.get("X-Token")
secret = settings.SECRET_KEY
api_key = os.environ["API_KEY"]
api_key=os.getenv("OPENAI_API_KEY", "")
if token is None: raise InvalidToken
if (password !== confirmPassword) return;
const password = passwordInput.value;
const { token, secret } = await getCredentials();
let token: Token = parser.next_token();
private final String password;
this.password = password;
@Value("${app.password}") String password
password = forms.CharField(widget=forms.PasswordInput)
PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = []
max_tokens=4096
max_tokens: 200000
input_tokens: 1523, output_tokens: 877
token_count += 1
tokenizer = AutoTokenizer.from_pretrained("gpt2")
next_token = "page-2"
nextPageToken: pageToken
csrf_token = generate_csrf_token(request)
{% csrf_token %}
<input type="password" name="password" autocomplete="current-password">
<label for="password">Password</label>
<PasswordField label="Password" value={password} />
password: ${DB_PASSWORD}
password: ${{ secrets.DB_PASSWORD }}
password: {{ .Values.db.password }}
password: "{{ vault_db_password }}"
password: !vault |
passwordSecretRef: {name: db, key: password}
secretName: tls-example-com
secretKeyRef: {name: app-secrets, key: api-token}
valueFrom: {secretKeyRef: {name: app, key: token}}
DB_PASSWORD=${DB_PASSWORD:?required}
DB_PASSWORD=$(cat /run/secrets/db)
PASSWORD="$1"
export TOKEN="$(gh auth token)"
curl -H "Authorization: Bearer $TOKEN" https://api.example
curl -H "Authorization: Bearer ${GITHUB_TOKEN}" https://api.example
headers = {"Authorization": f"Bearer {token}"}
'Authorization': 'Bearer ' + accessToken
Authorization: Bearer <token>
Authorization: Bearer YOUR_TOKEN
mysql -u root -p
mysql -u root -p app
mysql -u root -p"$MYSQL_PASSWORD" app
mysql --port 3307 --protocol tcp
docker run -p 8080:80 nginx
docker run -u 1000:1000 image
ssh -p 2222 bob@host.example
sshpass -e ssh bob@host.example
mkdir -p build/output
redis-cli -h localhost -p 6379 ping
htpasswd -c .htpasswd bob
passwd: password updated successfully
Enter password:
Password for 'https://bob@git.example':
The password is required.
The password is invalid
The password is incorrect, try again.
the token is expired
The token is validated by sha256
The key is 32-byte random
your password is stored as argon2id
the secret is mounted at /run/secrets/db
password must be at least 12 characters
Passwords do not match
forgot password?
a token of appreciation
the key insight is that sessions expire
auth: required
auth = HTTPBasicAuth(user, password)
basic authentication is disabled
the bearer of this letter
cookie: none
Set-Cookie: theme=dark
session = Session()
session_id = uuid4()
with Session(engine) as session: session.add(user)
key = lambda item: item.name
for key, value in table.items():
cache_key = f"{prefix}:{name}"
primary_key=True
foreign_key="user.id"
PRIMARY KEY (id)
KeyError: 'password'
sort(key=len)
public_key = load("id_ed25519.pub")
keyboard_shortcut: ctrl+k
monkeypatch.setenv("HOME", str(tmp_path))
pat = re.compile(r"token=(\\w+)")
risk-assessment-for-the-first-quarter
task-sk-animation
key-value store
src/app/main.py:12:5:error:unused-import
src/app/main.py:120:33: E501 line too long
host.example:8080:web:up
localhost:5432
postgres://localhost:5432/app
postgres://app@db.example/app
postgresql+psycopg://app:${PASSWORD}@db.example:5432/app
mysql://user:<password>@host/db
redis://localhost:6379/0
mongodb://db1.example:27017,db2.example:27017/app?replicaSet=rs0
http://localhost:3000/users/@me
https://example.com:8443/@scope/pkg@1.2.3
https://medium.example/@some.author/title-of-the-story-1a2b3c
git@github.com:owner/repo.git
ssh://git@github.com/owner/repo.git
https://cdn.example/npm/react@18.2.0/umd/react.production.min.js
mailto:bob@example.com
image: registry.example/app@sha256:{sha256}
EAAS: encryption as a service
SKU: SK1234
SG.1 and SG.2
eyJust a word
ghp_ is the prefix of GitHub's tokens
sk-ant- is how Anthropic's keys begin
use AKIA... for the key id
password=********
password=xxxxxxxx
password: "changeme"
password: <your password>
api_key: "YOUR_API_KEY"
token: "<token>"
secret: "..."
type: password
"password": null
"password": ""
"token": "string"
"required": ["username", "password"]
password1 == password2
echo $?
awk '{print $1}' file
cost: $1, $2 and $5
price in $, $10,000
{SHA} of the file
const a=function(t,e){return t.token===e.token&&t.key<e.key};
!function(e,t){"object"==typeof exports?module.exports=t():e.token=t()}(this,function(){return 1});
var n=e.password,r=e.token||null;if(!n&&!r)throw Error("token");
.password-input{color:#1a2b3c}.token-list>li{key:1}
@media(max-width:640px){.auth-form{width:100%}}
if "-----BEGIN RSA PRIVATE KEY-----" in text or "-----END RSA PRIVATE KEY-----" in text:
assert key.startswith("-----BEGIN PRIVATE KEY-----")
"""


def ordinary(dice: Random) -> list[str]:
    """Strings that hold no secret, of which a half are made of random values."""

    def blob(count: int) -> bytes:
        return dice.randbytes(count)

    def b64(count: int) -> str:
        return base64.b64encode(blob(count)).decode()

    made: list[str] = []
    for _ in range(4):
        uuid = UUID(bytes=blob(16), version=4)
        commit, digest, long = sha1(blob(9)).hexdigest(), sha256(blob(9)).hexdigest(), sha512(blob(9))
        made += [
            commit,
            f"commit {commit}",
            f"Merge: {commit[:9]} {sha1(blob(9)).hexdigest()[:9]}",
            f"index {commit[:7]}..{commit[7:14]} 100644",
            f"* {commit[:7]} (HEAD -> main, origin/main) Fix the token parser",
            digest,
            f"{digest}  dist/app-1.0.0.tar.gz",
            f"sha256:{digest}",
            f"image: app@sha256:{digest}",
            f'"integrity": "sha512-{base64.b64encode(long.digest()).decode()}",',
            f"  integrity sha512-{base64.b64encode(long.digest()).decode()}",
            f"--hash=sha256:{digest}",
            f"github.com/pkg/errors v0.9.1 h1:{base64.b64encode(bytes.fromhex(digest)).decode()}",
            f'checksum = "{digest}"',
            f'src="data:image/png;base64,{b64(300)}"',
            "\n".join(b64(57) for _ in range(5)),
            str(uuid),
            f"session_id={uuid}",
            f'"uuid": "{uuid}"',
            f"request-id: {uuid}",
            f"https://example.com/a/{uuid}?page={dice.randrange(99)}",
            f"https://cdn.example/assets/main.{commit[:20]}.js",
            f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64(32)[:43]} bob@host",
            f"-----BEGIN CERTIFICATE-----\n{b64(48)}\n{b64(48)}\n-----END CERTIFICATE-----",
            "\n".join(sha256(blob(9)).hexdigest() for _ in range(3)),
            f'ETag: "{commit[:32]}"',
            f"0x{commit}",
            f"/home/bob/.cache/pip/http/{commit[0]}/{commit[1]}/{commit}",
            f"traceId={commit[:32]} spanId={commit[:16]}",
            f"cache_key: {commit}",
            f"key: v1-deps-{commit[:16]}",
        ]
    return [*_LINES_OF_CODE.strip().replace("{sha256}", sha256(blob(9)).hexdigest()).split("\n"), *made]
