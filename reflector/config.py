"""Configuration: flags, then the environment, the project's file, the user's file and the defaults.

Invariant: a setting is understood or refused. A misspelt key or a bad value is an error that names
its place, its value and the right one. Nothing is converted silently.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reflector.files import error_words, expanded, read_bounded, read_ours
from reflector.locate import parse_toml, user_config, user_folder
from reflector.refusal import Refusal
from reflector.text.lazy import lazy_pattern

if TYPE_CHECKING:
    from reflector.playbook.evidence import FindingRates

#: More bytes than a user writes by hand.
_MOST_BYTES = 1 << 20
#: The judges of this package, each a module in `judges/backends`.
BACKENDS = tuple(
    sorted(path.stem for path in Path(__file__).parent.glob("judges/backends/[a-z]*.py"))
)
#: The judges that do not ask a model. Every other judge costs time and money.
OFFLINE = frozenset({"rules", "fixtures"})
#: The judges that are asked over the network with the user's key.
APIS = tuple(name for name in BACKENDS if name not in OFFLINE | {"agent"})
#: The API that is used if none is named.
DEFAULT_API = "anthropic"
#: The sources of a setting. A later one overrides the earlier ones.
Layer = Literal["default", "user", "project", "environment", "flag"]

#: Settings that only the user may change, never a project's own file. Otherwise the author of that
#: file would decide who gets the transcripts, and at whose expense.
USERS_OWN = (
    "api_key",
    "base_url",
    "judge_client",
    "judge_measured",
    "never",
    "off",
    "projects",
    "templates",
    "wrong_counts",
    "checked_counts",
    "fixtures",
    "readers",
    "judges",
    "memory_user",
    "memory_keep",
)

#: The command with which users permit their own agents to judge.
CONSENT = "reflector judge allow"

#: Settings that a project's own file may only lower, for the same reason. For the first three, 0
#: means no limit.
BUDGETS = (
    "monthly_tokens",
    "monthly_dollars",
    "daily_requests",
    "request_tokens",
    "max_attempts",
    "deadline_seconds",
)
#: Values that a project's file may set only if the user's own file sets them too.
_POWERS = {
    "proposals": "accept",
    "prune": "apply",
    "uncited": True,
    "curate": True,
    "enabled": True,
}

#: Former settings, which are ignored and which `doctor` reports.
GONE = {
    "judgement_weights": "the built-in judge `rules` now has its own weights",
    "session_tokens": "monthly_tokens limits the spending",
    "gate": "every session that cites a rule is judged",
    "ranking": (
        "if a session cannot show all rules, reflector shows the remaining rules in later sessions"
    ),
}

#: The key of the layer of a `ledger_url` in a repository's file, which is ignored and which
#: `doctor` reports.
IGNORED = "ledger_url of the repository"

#: Our environment variables that are not settings.
_OTHER_VARIABLES = frozenset(
    {"REFLECTOR_PROJECT", "REFLECTOR_NO_SPAWN", "REFLECTOR_TRANSCRIPTS", "REFLECTOR_JUDGING"}
)


class ConfigError(Refusal, ValueError):
    """A setting that is not understood; the text names its place and the right value."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, its meaning and its default. docs/commands.md is generated from this class."""

    #: the [name of the judge](judging.md). A project's settings file cannot set `agent`
    backend: str = "rules"
    #: the SQLAlchemy URL of a ledger in SQLite or PostgreSQL. Empty: `.claude/reflector/ledger.db`
    ledger_url: str = ""
    #: the playbook's name in the ledger
    playbook: str = "default"
    #: if a session gets no new answer for this number of minutes, reflector counts the session as
    #: ended
    idle_minutes: int = 60
    #: maximum number of automatic attempts if a judgement fails. Attempts without a connection do
    #: not count
    max_attempts: int = 5
    #: the model that judges. Empty, with an API as judge: the model in the API's environment
    #: variable, else the API's default. Empty, with an agent as judge: the agent's cheapest model
    model: str = ""
    #: the address of the API
    base_url: str = ""
    #: the API key, if no environment variable contains the key. Other users must not be able to
    #: read the settings file
    api_key: str = field(default="", repr=False)
    #: maximum tokens of one request. If a session is longer, the judge gets [an
    #: excerpt](judging.md#long-sessions) of the session
    request_tokens: int = 100_000
    #: maximum tokens in a calendar month, all your projects together. 0: no limit
    monthly_tokens: int = 5_000_000
    #: maximum US dollars in a calendar month at list prices, all your projects together. 0: no
    #: limit. For automatic requests, an environment variable can lower but not raise the limit in
    #: dollars
    monthly_dollars: int = 0
    #: maximum automatic requests to your agents in a day (UTC), all your projects together. 0: no
    #: limit. If you set `daily_requests`, the limit also applies to requests to an API. An
    #: environment variable can lower but not raise the limit of requests
    daily_requests: int = 20
    #: the agent that judges if `backend` is `agent`, for example `claude`. Empty: the agent of the
    #: session
    judge_client: str = ""
    #: maximum seconds to wait for an answer, including all retries
    deadline_seconds: int = 110
    #: whether a model also judges sessions that cite nothing
    uncited: bool = True
    #: the minimum percentage of right verdicts. A model's verdicts with the certainty `likely`, for
    #: example, count only if this percentage of such verdicts is right. The judge `rules` ignores
    #: `judgement_precision`
    judgement_precision: int = 85
    #: the measured percentage of right verdicts of your model, for each
    #: [certainty](judging.md#evidence-for-a-models-verdict), such as `"sure=95 likely=80"`. Empty:
    #: verdicts with `sure` count. Verdicts with `likely` also count if we [measured the
    #: model](judging.md#which-words-count). To [correct shares](counting.md#missed-help-and-harm),
    #: add the percentages of helpful and harmful cases that the model finds, such as `"helpful=36
    #: harmful=73"`
    judge_measured: str = ""
    #: whether the agent's mark `[pat-001 wrong: why]` makes a verdict of the judge `rules` harmful.
    #: `false`: the mark only prevents a helpful verdict
    wrong_counts: bool = False
    #: whether the findings of [`check`](judging.md#check-the-lines-of-a-file) count as helpful and
    #: harmful for rules of the playbook. The findings for rules in your files always count. After
    #: you change `checked_counts`, run `reflector lab reparse` to count earlier findings
    checked_counts: bool = False
    #: `"ask"`: your agent's proposals wait for your decision. `"accept"`: reflector adds your
    #: agent's proposals immediately
    proposals: str = "ask"
    #: rules that your agent sees first, such as `["pat-003"]`
    pinned: tuple[str, ...] = ()
    #: `"propose"`: `review find` [proposes to remove](counting.md#prune) rules that harm or that no
    #: session cites. `"apply"`: `review find` removes such rules immediately
    prune: str = "propose"
    #: number of sessions. If a rule was shown in this number of sessions and never cited, `review
    #: find` proposes to remove the rule. 0: never
    prune_after: int = 100
    #: whether reflector [proposes](editing.md#your-requests-in-sessions) your lasting requests as
    #: rules
    wishes: bool = True
    #: whether the model that judges a session also [proposes rules](editing.md#the-model). A
    #: project's settings file can set only `false`
    curate: bool = False
    #: folders of projects, such as `"~/work/*"`. The settings files of these projects can choose a
    #: model as judge, the model's name and the playbook
    projects: tuple[str, ...] = ()
    #: folders such as `"~/work/acme"`. No model reads sessions of projects in these folders, even
    #: on your request. An environment variable can add folders, but not remove folders
    never: tuple[str, ...] = ()
    #: SHA-256 hashes of prompt files `reflector.txt`. Answers to these prompts count [without a
    #: quote](judging.md#a-template-of-your-own). `doctor` shows the hash of a project's file
    templates: tuple[str, ...] = ()
    #: the file with the answers of the judge `fixtures`
    fixtures: str = ""
    #: names of the readers from [other packages](extending.md) that reflector may load. The name of
    #: a reader is its entry point's name
    readers: tuple[str, ...] = ()
    #: names of the judges from [other packages](extending.md) that reflector may load. To use such
    #: a judge, set `backend` to its name
    judges: tuple[str, ...] = ()
    #: the ledger for sessions in a linked git worktree. `"main"`: the ledger of the main checkout.
    #: `"own"`: the worktree's own ledger
    worktrees: str = "main"
    #: whether your agent shows [a line](reference.md#a-line-on-the-screen) about the playbook at a
    #: session's start
    start_message: bool = True
    #: whether hooks record sessions and show rules. The settings file of a repository can set only
    #: `false`, and the line at a session's start then shows that reflector is off
    enabled: bool = True
    #: folders of projects. In these projects, hooks record and show nothing, but commands work
    off: tuple[str, ...] = ()
    #: whether reflector [records changes](memory.md) of the files that agents load. `"tell"`:
    #: reflector also reports these changes at the start of the next session
    memory: str = "on"
    #: whether reflector also records changes to your files for all projects, such as
    #: `~/.claude/CLAUDE.md`, and of memory folders
    memory_user: bool = False
    #: maximum megabytes of earlier versions of files that agents load, all your projects together.
    #: reflector removes the oldest versions first. 0: reflector stores no versions, so `undo`
    #: cannot restore a file
    memory_keep: int = 200
    layers: Mapping[str, Layer] = field(default_factory=dict, repr=False, compare=False)

    def layer(self, key: str) -> Layer:
        return self.layers.get(key, "default")

    @property
    def asks_model(self) -> bool:
        """Whether the backend's answers cost time and money."""
        return self.backend not in OFFLINE

    @property
    def is_daily_limited(self) -> bool:
        """Whether `daily_requests` limits the requests that start automatically: those to agents
        and judges of other packages, and those to an API if you set the limit.
        """
        is_set = self.layer("daily_requests") != "default"
        return self.backend == "agent" or self.backend in self.judges or is_set

    def lists(self, project: Path) -> bool:
        """Return whether the user named a project in `projects`."""
        patterns = [expanded(pattern) for pattern in self.projects]
        return any(fnmatch(str(project), pattern) for pattern in patterns)

    def keeps_unread(self, project: Path) -> bool:
        """Return whether a project is in one of the folders of `never`."""
        real = Path(os.path.realpath(project))
        folders = [os.path.realpath(expanded(folder)) for folder in self.never]
        return any(real.is_relative_to(folder) for folder in folders)

    def counting_words(self, right: Mapping[str, int]) -> frozenset[str]:
        """Return the words for a model's certainty with which its verdicts count.

        right  the number of right verdicts among 100, by word, unless you measured your model
        """
        measured = _measured(self.judge_measured)
        yours = {word: measured[word] for word in _SURENESS if word in measured}
        return frozenset(
            word for word, share in (yours or right).items() if share >= self.judgement_precision
        )

    @property
    def finding_rates(self) -> FindingRates | None:
        """The measured finding rates of the judge; None if they were not measured."""
        from reflector.playbook.evidence import FindingRates

        measured = _measured(self.judge_measured)
        if not measured.keys() >= {*_FOUND}:
            return None
        return FindingRates(measured["helpful"], measured["harmful"])

    def is_near(self, key: str) -> bool:
        """Return whether a flag or a REFLECTOR_* variable gave a setting."""
        return self.layer(key) in ("environment", "flag")


#: The settings: every field except the record of their sources.
SETTINGS = {entry.name: entry for entry in fields(Config) if entry.name != "layers"}


def project_config(project: Path) -> Path:
    return project / ".claude" / "reflector.toml"


def load_config(
    project: Path,
    *,
    flags: Mapping[str, Any] | None = None,
    instead: Mapping[Path, str] | None = None,
) -> Config:
    """Return the settings in force for a project.

    instead  the texts to read instead of files, by path, because they are written only afterwards

    Raises: ConfigError.
    """
    user_file = Path(user_config())
    texts = instead or {}

    config = users_config(texts.get(user_file))
    is_on_disk = user_file not in texts
    if config.api_key and is_on_disk and user_file.stat().st_mode & 0o077:
        raise ConfigError(
            f"{user_file} contains `api_key`, and other users can read it; "
            f"run: chmod 600 {user_file}"
        )

    project_file = project_config(project)
    project_values = read_toml(project_file, texts.get(project_file), read_ours)
    is_users_own = project.resolve() == Path(user_folder()).resolve()
    config = _with_project(config, project_values, project_file, user_file)
    if not is_users_own and not config.lists(project):
        _refuse_costs(config, project_values, project, user_file)

    never = config.never
    config = _over(config, _variables(), "environment")
    # The environment may come with a repository, so it can add folders and not remove any.
    config = replace(config, never=tuple(dict.fromkeys((*never, *config.never))))
    named_flags = {key: value for key, value in (flags or {}).items() if value is not None}
    return _over(config, named_flags, "flag")


def users_config(instead: str | None = None) -> Config:
    """Return the settings of the user's own file alone.

    instead  the text to read instead of the file

    Raises: ConfigError.
    """
    user_file = Path(user_config())
    return _over(Config(), read_toml(user_file, instead), "user", user_file)


def place_of(config: Config, key: str, project: Path) -> str:
    """Return the place of a setting's value, as text."""
    layer = config.layer(key)
    if layer == "default":
        return "default"
    path = project_config(project) if layer == "project" else Path(user_config())
    return _place_of(key, layer, path)


def _with_project(
    users: Config, values: dict[str, Any], project_file: Path, user_file: Path
) -> Config:
    """Return the user's settings with those of a project's file, which cannot change a setting that
    only the user may change.

    Raises:
        ConfigError: the file contains a setting that only the user may change.
    """
    if values.pop("ledger_url", None) is not None:
        users = replace(users, layers={**users.layers, IGNORED: "project"})
    for key in USERS_OWN:
        if key in values:
            raise ConfigError(
                f"{project_file} contains `{key}`, which only your own settings may contain; "
                f"move `{key}` to {user_file}"
            )
    if values.get("backend") == "agent":
        raise ConfigError(
            f"{project_file}: a project cannot let your agent judge; remove `backend` from this "
            f"file, and run: {CONSENT}"
        )
    if values.get("backend") in users.judges:
        raise ConfigError(
            f"{project_file}: a project cannot choose a judge from an extension; move `backend` "
            f"to {user_file}"
        )
    with_projects = _over(users, values, "project", project_file)
    return _within(users, with_projects, project_file, user_file)


def _refuse_costs(
    config: Config, values: Mapping[str, Any], project: Path, user_file: Path
) -> None:
    """Refuse the file of a project that the user did not name, if it sets costs or a team's
    playbook.

    Raises: ConfigError.
    """
    reasons = {"model": "sets the price of a request"}
    if config.layer("ledger_url") == "user":
        reasons["playbook"] = "chooses a playbook in your own ledger (`ledger_url`)"
    way_out = f'to allow this, put projects = ["{project}"] into {user_file}'
    for key in reasons.keys() & values:
        raise ConfigError(f"{project_config(project)}: `{key}` {reasons[key]}; {way_out}")


def _variables() -> dict[str, Any]:
    """Return the settings in environment variables, for example `REFLECTOR_MODEL` as `model`."""
    values: dict[str, Any] = {}
    for name, text in os.environ.items():
        is_setting = name.startswith("REFLECTOR_") and not name.startswith("REFLECTOR_TEST_")
        if text and is_setting and name not in _OTHER_VARIABLES:
            key = name.removeprefix("REFLECTOR_").lower()
            values[key] = from_text(key, text)
    return values


def _place_of(key: str, layer: Layer, path: Path | None) -> str:
    """Return the place of a setting, as text."""
    if layer == "environment":
        return f"environment variable {variable(key)}"
    return f"--{key.replace('_', '-')}" if layer == "flag" else f"{path}: `{key}`"


def _within(users: Config, projects: Config, path: Path, home: Path) -> Config:
    """Return the settings with a project's own.

    Raises: ConfigError if the project sets more than the user permits.
    """
    for key in BUDGETS:
        users_limit = getattr(users, key)
        projects_limit = getattr(projects, key)
        if users_limit and not 0 < projects_limit <= users_limit:
            raise ConfigError(
                f"{path}: `{key}` is {projects_limit or 'without a limit'}, but a project cannot "
                f"exceed your own limit of {users_limit}; lower the value, or raise your limit in "
                f"{home}"
            )
    for key, power in _POWERS.items():
        if getattr(projects, key) == power != getattr(users, key):
            shown = str(power).lower() if power is True else repr(power)
            raise ConfigError(
                f"{path}: `{key}` is {shown}, which only your own settings may contain; move "
                f"`{key}` to {home}"
            )
    if users.layer("backend") == "user" and users.backend == projects.backend:
        # The backend is the user's choice, even if a project's file repeats it.
        return replace(projects, layers={**projects.layers, "backend": "user"})
    return projects


def is_server(url: str) -> bool:
    return bool(url) and not url.lower().startswith("sqlite")


def variable(key: str) -> str:
    return f"REFLECTOR_{key.upper()}"


def from_text(key: str, text: str) -> Any:
    """Return a text as the type of the setting. If it does not fit, return it unchanged, so that it
    is refused.
    """
    default = SETTINGS[key].default if key in SETTINGS else ""
    if isinstance(default, bool):
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if isinstance(default, int):
        # Python refuses to convert a longer number.
        is_number = (
            text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _MOST_DIGITS
        )
        return int(text) if is_number else text
    return text.split(os.pathsep) if isinstance(default, tuple) else text


def read_toml(
    path: Path, instead: str | None = None, read: Callable[[Path, int], bytes] = read_bounded
) -> dict[str, Any]:
    """Return the settings in a file, or in the text `instead`; {} for a missing file.

    Raises: ConfigError.
    """
    try:
        text = read(path, _MOST_BYTES).decode() if instead is None else instead
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        is_text_broken = isinstance(error, UnicodeDecodeError)
        way_out = "correct the file or remove it" if is_text_broken else "check its permissions"
        raise ConfigError(f"{path} cannot be read ({error_words(error)}); {way_out}") from error
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}; correct or remove the file") from error


def _over(
    config: Config, values: Mapping[str, Any], layer: Layer, place: Path | None = None
) -> Config:
    """Return the settings with those of a layer, which may be a file. Each is checked.

    Raises: ConfigError.
    """
    for key, value in values.items():
        where = _place_of(key, layer, place)
        if key in GONE:
            config = replace(config, layers={**config.layers, key: layer})
            continue
        if key not in SETTINGS:
            raise ConfigError(f"{where} is not a setting; {_hint(key, 'settings', SETTINGS)}")
        value = _typed(key, value, where)
        _check(key, value, where)
        changes: dict[str, Any] = {key: value, "layers": {**config.layers, key: layer}}
        config = replace(config, **changes)
    if "backend" in values and config.backend not in (*BACKENDS, *config.judges):
        where = _place_of("backend", layer, place)
        hint = _hint(config.backend, "choices", [*BACKENDS, *config.judges])
        raise ConfigError(f"{where} is {config.backend!r}; {hint}")
    return config


def _typed(key: str, value: Any, where: str) -> Any:
    """Return a setting's value in the type of its default.

    Raises: ConfigError for another type.
    """
    setting_type = type(SETTINGS[key].default)
    if type(value) is setting_type:
        return value
    is_list = setting_type is tuple and isinstance(value, list)
    if is_list and all(isinstance(text, str) for text in value):
        return tuple(value)
    shown = "(not shown)" if key == "api_key" else repr(value)
    raise ConfigError(f"{where} is {shown}; it must be {_TYPE_WORDS[setting_type]}")


def _hint(word: str, plural: str, choices: Iterable[str]) -> str:
    """Return the choice that is most similar to a word, in words; else all choices."""
    from difflib import get_close_matches

    near = get_close_matches(word, list(choices), n=1)
    return f"did you mean {near[0]!r}?" if near else f"the {plural} are {', '.join(choices)}"


_TYPE_WORDS: dict[type, str] = {
    str: "a text",
    int: "a whole number, such as 60",
    bool: "true or false",
    tuple: "a list of texts",
}
#: The largest whole number. A larger one would mean "no limit", for which 0 is the value, and could
#: be neither counted nor printed.
_MOST = 10**12
#: The smallest and the largest useful value.
_BOUNDS = {
    "idle_minutes": (1, _MOST),
    "max_attempts": (1, _MOST),
    "request_tokens": (8_000, _MOST),
    "monthly_tokens": (0, _MOST),
    "monthly_dollars": (0, _MOST),
    "daily_requests": (0, _MOST),
    "deadline_seconds": (1, _MOST),
    "judgement_precision": (50, 99),
    "prune_after": (0, _MOST),
    "memory_keep": (0, _MOST),
}
_MOST_DIGITS = 1_000
#: The words of `judge_measured`: for a judge's certainty, and for the cases that it finds.
_SURENESS = ("sure", "likely", "unsure")
_FOUND = ("helpful", "harmful")
_MEASURED = lazy_pattern(
    rf"(?<!\S)({'|'.join(_SURENESS + _FOUND)})=(100|[1-9]?[0-9])(?!\S)", re.ASCII
)
_CHOICES: dict[str, Iterable[str]] = {
    "judge_client": ("", "claude", "codex", "gemini", "copilot", "opencode", "pi"),
    "proposals": ("ask", "accept"),
    "worktrees": ("main", "own"),
    # You decide about a bullet that `review find` names, or it is removed at once.
    "prune": ("propose", "apply"),
    "memory": ("on", "off", "tell"),
}


def _check(key: str, value: Any, where: str) -> None:
    """Refuse a value that has the right type but is not allowed for its setting.

    Raises: ConfigError.
    """
    if key in _CHOICES and value not in _CHOICES[key]:
        raise ConfigError(f"{where} is {value!r}; {_hint(value, 'choices', _CHOICES[key])}")
    least, most = _BOUNDS.get(key, (value, value))
    if not least <= value <= most:
        shown = value if abs(value) < 10**30 else "a number of more than 30 digits"
        bound = f"least {least}" if value < least else f"most {most:,}"
        raise ConfigError(f"{where} is {shown}; it must be at {bound}")
    if key == "never":
        for folder in value:
            if not folder.startswith(("/", "~")):
                raise ConfigError(
                    f"{where} has {folder!r}; a folder begins with '/' or '~', such as "
                    "'~/work/acme'"
                )
    if key in ("readers", "judges"):
        for name in value:
            _check_extension(name, where)
    if key == "judge_measured" and (fault := _measured_fault(value)):
        raise ConfigError(f"{where} is {value!r}; {fault}")
    if key == "playbook" and not _is_playbook_name(value):
        raise ConfigError(
            f"{where} is {value!r}; a playbook's name is 1 to 64 letters, digits, '-' and '_'"
        )


def _measured(value: str) -> dict[str, int]:
    return {word: int(number) for word, number in _MEASURED.findall(value)}


def _measured_fault(value: str) -> str:
    """Return the fault of a value of `judge_measured` with the way out; "" without a fault."""
    measured = _measured(value)
    found = [word for word in _FOUND if word in measured]
    if _MEASURED.sub("", value).strip():
        return (
            "write the percentage of right verdicts for each word, such as 'sure=95 likely=80'. "
            "You can add the percentage of cases that the judge finds, such as 'helpful=36 "
            "harmful=73'"
        )
    if len(measured) < len(_MEASURED.findall(value)):
        return "write each word only once"
    if len(found) == 1:
        return "give both helpful and harmful, such as 'helpful=36 harmful=73', or neither"
    if any(not measured[word] for word in found):
        return (
            "helpful and harmful must be at least 1, because reflector cannot correct counts for "
            "a share of 0"
        )
    return ""


def _is_playbook_name(name: str) -> bool:
    return 0 < len(name) <= 64 and name.replace("-", "").replace("_", "").isalnum()


#: The names that events and settings use for judges and writers of this package.
_OWN_NAMES = {
    *BACKENDS,
    *"claude codex gemini copilot opencode pi human person user git import ingest model".split(),
    *"machine merge check engine reflector".split(),
}
_EXTENSION_NAME = lazy_pattern(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", re.ASCII)


def _check_extension(name: str, where: str) -> None:
    if len(name) > 40 or _EXTENSION_NAME.fullmatch(name) is None:
        raise ConfigError(
            f"{where} has {name!r}; the name of an extension may contain only lower-case letters, "
            "digits, '-' and '_', and at most 40 characters, for example 'heron'"
        )
    if name in _OWN_NAMES:
        raise ConfigError(
            f"{where} has {name!r}, a name that reflector uses itself; remove this name"
        )
