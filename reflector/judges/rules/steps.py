"""What a tool call does (look, change, check, run, ship, tidy), and how it ended.

Invariant: the kind depends on the call alone. Reading proves nothing however well it goes, so a
command that cannot be placed is `run`, never `check`.

How a call ended is read from its answer and its kind. `is_error` is one sign among several: a pipe
hides an exit code, a flagged error may be mechanics of editing and shells, and only a check can
pass.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, get_args

from reflector.judges.rules.wordings import Wording, first, wordings
from reflector.transcripts.message import ToolCall

#: Kinds whose success is proof of something.
Check = Literal["test", "types", "lint", "build", "ci"]
_Work = Literal["install", "ship", "run", "change", "revert"]
_Aside = Literal["poll", "tidy", "look", "admin"]
Kind = Check | _Work | _Aside

CHECKS: frozenset[str] = frozenset(get_args(Check))
#: Kinds whose files are what the step is about.
_WITH_FILES = frozenset({"change", "test"})


@dataclass(frozen=True, slots=True)
class Step:
    """One call, read.

    kind     what it does
    command  the shell command or the target, one line, at most 160 characters
    files    base names of the files that it changes or checks
    is_mcp   it calls a tool of an MCP server
    """

    kind: Kind
    command: str
    files: tuple[str, ...] = ()
    is_mcp: bool = False


#: Characters of a command that are read.
_READ = 4 * 1024

_NPM = (
    r"(?:npm|pnpm|yarn|bun|deno)(?: -\S+)*(?: --(?:prefix|filter|cwd)[= ]\S+)*(?: run| "
    r"run-script| task| -w \S+)*"
)
_FIRST = r"^(?:\S*/)?"

#: The first that matches a command's segment names its kind. Order is from proof to noise.
COMMANDS: dict[Kind, str] = {
    "revert": (
        r"git (?:-\S+ \S+ )?(?:checkout (?:\S+ )?-- |checkout \. *$|checkout (?:[\w./-]+ "
        r")*[\w./-]*[a-z]\w*\.(?:[a-z]\w{0,3}|lock|json|toml|yaml|swift|scala|gradle)(?= "
        r"|$)|restore (?!--staged)|revert |reset --hard|stash drop)|hg revert|svn revert"
    ),
    "test": (
        r"(?:php artisan test|cypress "
        r"run|pytest|py\.test|tox|nox|jest|vitest|mocha|ava|karma|jasmine|gotestsum|rspec"
        r"|minitest|phpunit|pest|ctest|bats|prove|behave|cucumber|codecept|busted|testthat"
        r"|hypothesis|trybuild)\b"
        r"|(?:playwright|cypress|wdio|nightwatch|ng|vite|turbo|nx|lerna|hardhat|forge|anchor"
        r"|truffle|pants|bazel|buck2?|swift|dart|flutter|sbt|lein|stack|cabal|zig "
        r"build|zig|mix|rebar3|gleam|crystal|nim|dub|just|task|mage|invoke|inv|rake|composer"
        r"|artisan|rails|deno|node --|mise run|moon run|hatch|nimble|opam|dune)(?: \S+)? "
        r"(?:test|tests|ct|eunit|spec|e2e|run-many -t test)\b[\w:.-]*"
        rf"|{_NPM} (?:t|test|tests|spec|specs|e2e|unit|integration|coverage|verify)\b[\w:.-]*"
        rf"|{_NPM} [\w:-]*[:_-]?(?:test|e2e|spec)[\w:-]*"
        r"|go test|cargo (?:\S+ "
        r")?(?:test|nextest|miri|bench)\b|(?:mvn|mvnw|gradle|gradlew)\b.*\b(?:test|verify|check"
        r"|integrationTest|connectedCheck)\w*|dotnet "
        r"(?:test|vstest)|xcodebuild\b.*\btest|manage\.py test|-m "
        r"(?:unittest|pytest|doctest|nose2?)|unittest\b"
        r"|make (?:-\S+ )*[\w./-]*(?:test|check|spec|e2e)\w*|node --test|tap\b|(?:bash |sh "
        r"|python3? |node |tsx |bun |ruby |php |deno run "
        r"|\./)\S*(?:test|spec)[\w.-]*\.(?:sh|py|js|ts|mjs|cjs|rb|php|exs?)"
    ),
    "types": (
        r"(?:tsc|mypy|pyright|basedpyright|vue-tsc|svelte-check|tsgo|dmypy|pytype|sorbet|srb"
        r"|steep|dialyzer)\b|(?:cargo|deno|astro|zig) (?:check|typecheck)\b|mix dialyzer|flow "
        r"check|"
        rf"{_NPM} [\w:-]*(?:type-?check|types?|tsc|check-types|check)\b[\w:-]*|(?:make|just|task"
        r"|mise run) [\w:-]*type-?check\w*|flutter analyze|dart analyze|py_compile|node "
        r"--check|php -l|ruby -c|bash -n"
    ),
    "lint": (
        r"(?:eslint|biome|oxlint|flake8|pylint|golangci-lint|staticcheck|rubocop|standardrb|phpcs"
        r"|phpstan|psalm|shellcheck|stylelint|markdownlint\S*|swiftlint|ktlint|detekt|hadolint"
        r"|yamllint|actionlint|pre-commit|vale|semgrep|trivy|bandit|vulture|knip|credo|tflint"
        r"|ansible-lint|helm lint|jsonlint|djlint|commitlint|xo|standard|lefthook|nginx "
        r"-t|apache2?ctl (?:-t|configtest)|haproxy -c|sshd -t|visudo -c|named-check\w+|promtool "
        r"check|caddy validate|systemd-analyze verify|kubeconform|kubeval|docker compose "
        r"config)\b(?!.*(?:--fix|--write|--apply| init))"
        r"|ruff(?: check)?(?! format)\b(?!.*(?:--fix))|(?:black|prettier|isort|gofumpt|ruff "
        r"format|cargo fmt|mix format|dotnet "
        r"format|rustfmt)\b.*--(?:check|list-different|verify-no-changes)|prettier -c|gofmt -l|go "
        r"vet|cargo (?:\S+ )?clippy|mix credo|next lint|ng lint|terraform (?:validate|fmt "
        r"-check)|plugin validate|"
        rf"{_NPM} [\w:-]*(?:lint|fmt:check|format:check|prettier:check)\b[\w:-]*|(?:make|just"
        r"|task|mise run|rake|mage|nx|turbo)(?: run)? [\w:-]*(?:lint|vet)\w*"
    ),
    "ci": (
        r"gh (?:run (?:watch|view|list|rerun)|pr (?:checks|status)|workflow (?:view|run))|glab "
        r"(?:ci|pipeline)|act\b|circleci"
    ),
    "build": (
        rf"{_NPM} [\w:-]*(?:build|compile|bundle|package|dist|generate|codegen)\b[\w:-]*"
        r"|(?:webpack|rollup|esbuild|tsup|parcel|swc|ncc|tsdown|pkgroll|sphinx-build|latexmk"
        r"|tectonic)\b(?! "
        r"(?:serve|dev|watch))|(?:vite|next|nuxt|astro|remix|turbo|nx|ng|docusaurus|gatsby|hugo"
        r"|jekyll|mkdocs|sphinx-build|eleventy|expo|electron-builder|tauri|wails|ionic|capacitor"
        r"|storybook|vitepress|gatsby|react-scripts|forge|hardhat|solc|anchor|mdbook)\b(?: \S+)*? "
        r"(?:build|compile|export|ci)\b"
        r"|cargo (?:\S+ )?build|go "
        r"(?:build|install)|(?:mvn|mvnw)\b.*\b(?:compile|package|install)|(?:gradle"
        r"|gradlew)\b.*\b(?:build|assemble\w*|compile\w*|bundle\w*)|dotnet "
        r"(?:build|publish|pack)|docker (?:buildx )?(?:compose )?build|docker compose "
        r".*--build|swift build|xcodebuild\b|mix (?:compile|release)|flutter build|zig "
        r"build|cmake --build|ninja|bazel build|stack build|cabal build|dune build|"
        r"make(?: -\S+)*(?: (?:all|build|dist|release|[\w-]*build[\w-]*))?$|(?:just|task|mise "
        r"run|mage|rake) [\w:-]*build\w*|python3? -m build|uv build|poetry build|hatch "
        r"build|latexmk|pdflatex|xelatex|tectonic|pandoc|terraform "
        r"plan|(?:g?cc|g\+\+|clang(?:\+\+)?|javac|rustc|kotlinc|ghc|protoc|msbuild)\b"
    ),
    "install": (
        rf"{_NPM} (?:i|install|add|ci|update|upgrade|audit fix)\b|yarn$|pip3? install|uv "
        r"(?:sync|add|pip|lock|tool)|poetry (?:install|add|lock|update)|pipenv|conda|cargo "
        r"(?:add|install|update)|go (?:get|mod)|bundle(?: install| update|$)|gem "
        r"install|apt(?:-get)?|brew|composer (?:install|require|update)|mix deps|dotnet "
        r"(?:add|restore)|cabal update|flutter pub|pod install|asdf install|mise "
        r"install|nvm|volta|rustup"
    ),
    "ship": (
        r"git (?:-\S+ \S+ )?(?:commit|push|merge|rebase|cherry-pick|pull|tag|am)\b|gh (?:pr "
        r"(?:create|merge|edit|ready)|release create)|glab "
        r"mr|(?:npm|pnpm|yarn|cargo|twine|gem|uv) "
        r"(?:publish|upload|push)|(?:vercel|netlify|fly|wrangler|firebase|railway|heroku|eas"
        r"|serverless|sls|cdk|pulumi|amplify|supabase)\b.*\b(?:deploy|publish|up|push"
        r"|release)\b|terraform apply|kubectl (?:apply|rollout|set)|helm "
        r"(?:install|upgrade)|gcloud .*deploy|rsync|scp"
    ),
    "change": (
        r"sed (?:-\S+ )*-i|sed -\w*i|perl -\w*i|patch\b|git apply|cat "
        r">|tee\b|jscodeshift|ast-grep .*-U|comby .*-i|codemod|awk -i|ex -s|(?:npx "
        r")?shadcn|rails g(?:enerate)?|(?:mix|artisan|manage\.py|nest|ng) "
        r"(?:gen|make|generate)"
    ),
    "tidy": (
        r"(?:rm|mv|cp|mkdir|touch|chmod|chown|ln|kill|pkill|killall|rmdir|unzip|tar|zip|sleep"
        r"|wait|export|source|set|true|unset|alias|trash)\b|git (?:-\S+ \S+ "
        r")?(?:add|stash|checkout|switch|branch -\w|worktree|clean|restore "
        r"--staged|reset|config|init|clone|rm|mv|fetch|remote "
        r"(?:add|set-url|remove))\b|(?:prettier|black|gofmt|isort|rustfmt|ruff format|cargo "
        r"fmt|mix format|clang-format|gofumpt|swiftformat|dprint)\b|.*(?:--fix|--write)\b"
    ),
    "look": (
        r"(?:ls|cat|head|tail|grep|egrep|rg|ag|find|fd|sed|awk|wc|tree|stat|file|cd|pwd|which"
        r"|whereis|echo|printf|jq|yq|du|df|ps|env|printenv|date|type|less|more|sort|uniq|cut|diff"
        r"|cmp|xxd|hexdump|strings|nl|tac|column|basename|dirname|realpath|readlink|uname|whoami"
        r"|id|lsof|ss|netstat|top|free|uptime|history|man|tr|xargs|test|\[|command|bat|eza|md5sum"
        r"|sha\d+sum|nproc|hostname|ast-grep|tokei|cloc|sips|identify|exiftool|git|gh|glab)\b"
        r"|(?:docker|podman) (?:ps|logs|images|inspect|compose (?:ps|logs|config))|kubectl "
        r"(?:get|describe|logs|top)|systemctl "
        r"(?:status|list|cat|show|is-)|journalctl|(?:npm|pnpm|yarn|pip3?|cargo|go|gem|brew|uv) "
        r"(?:ls|list|view|info|show|why|tree|outdated|search|env|version|config|help)\b|\S+ "
        r"(?:--version|-v|-V|--help|-h|help|version)$|(?:crontab -l|launchctl "
        r"list)|coderabbit|codex (?:exec )?review|gemini .*review"
    ),
}


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_FIRST + rf"(?:{pattern})", re.IGNORECASE)


#: Of several commands in one call the kind that comes first here is that of the call.
_KINDS: tuple[Kind, ...] = (
    *(
        "revert",
        "test",
        "ci",
        "build",
        "types",
        "lint",
        "ship",
        "install",
        "run",
        "change",
        "tidy",
        "look",
    ),
)

#: What starts what was built; its kind is `run`, as that of any command.
_STARTS = (
    rf"{_NPM} (?:start|dev|serve|preview)\b|(?:docker(?:-| )compose|podman-compose) (?:\S+ "
    r")*up\b|systemctl (?:re)?start"
    r"|(?:cargo|go|dotnet|flask|flutter|swift) run\b|(?:uvicorn|gunicorn)\b|manage\.py "
    r"(?:runserver|migrate)"
)
_RUNS = (*(COMMANDS[kind] for kind in ("test", "types", "lint", "build")), _STARTS)
#: Beside a run: what prints nothing, what cuts the output of a pipe and names no file, and how the
#: run ended.
_SILENT_PART = re.compile(
    r"(?:cd|pushd|export|set|sleep|wait|true|mkdir|rm|kill)\b.*|source \S*/activate|\w+=\S*|\}|\)"
)
_FILTER = re.compile(
    r"(?:tail|head|cut|sort|uniq|wc|cat|(?:e?grep|rg)(?: -\S+(?: \d+)?)* [^\s./-]+)(?: -\S+(?: "
    r"\d+)?)*|tee(?: \S+)*"
)
_EXIT_CODE = re.compile(
    r"\becho [\"']?[\w "
    r"=:-]{0,16}\$(?:\?|\{PIPESTATUS\[\d\]\})[\"']?(?=\s*(?:$|[;&|\n]))"
)
#: What prints more: the output of another command, a text in place of a file, the file that was
#: checked, files that a filter reads; and what may be another command under the name of one that
#: runs.
_PRINTS_MORE = re.compile(
    r"\$\(|`|<<|<\(|\(\)|\r|compose config|--(?:help|print|show)|grep [^|;&\n]*(?<= "
    r")-(?:\w*[rRf]|-(?:file|\S*recursive))"
)

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1.*?^\s*\2\b", re.DOTALL | re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_REDIRECTION = re.compile(r"\s+\d?>+&?\s*\S+")
_INNER_SHELL = re.compile(
    (
        r"\b(?:(?:bash|sh|zsh|fish|dash|powershell|pwsh|cmd)(?:\.exe)? (?:-\w+ "
        r")*(?:-l?i?c|-Command|/c) |ssh (?:-\S+ (?:[^-\s'\"]\S* )?)*[\w@.:-]+ |docker (?:compose "
        r")?exec (?:-\S+ )*[\w-]+ (?:bash -c |sh -c )?)(['\"])(.*?)\1"
    ),
    re.DOTALL,
)
_SPLIT = re.compile(r"&&|\|\||;|\n|\||(?<![&>\d])&(?![&>\d])")
_WRAPPER = re.compile(
    r"^(?:\(|\{ |!\s|(?:then|do|else|if|while|until|time|nohup|exec|sudo(?: "
    r"-\S+)*|command|builtin|stdbuf \S+|nice(?: -n \S+)?|xvfb-run(?: -\S+)*)\s+|timeout(?: -\S+)* "
    r"\S+\s+|(?:env )?(?:\w+=(?:'[^']*'|\"[^\"]*\"|\S*)\s+)+|env\s+|direnv exec \S+ "
    r"|nix(?:-shell| develop| shell)? (?:\S+ )*?(?:-c|--command|--run) |(?:npx|bunx|pnpx|pnpm "
    r"(?:exec|dlx)|yarn (?:exec|dlx)|npm exec(?: --)?|uvx)(?: "
    r"--?(?:yes|y|no-install|bun|silent))*\s+|(?:poetry|uv|pipenv|pdm|rye|hatch|pixi|dotenv) "
    r"run(?: --\S+(?: (?=\S+=)\S+)?)*\s+|mise (?:exec|x)(?: \S+)*? -- |bundle exec |docker(?:-| "
    r")compose(?: -\S+ \S+)* (?:exec|run)(?: -{1,2}\S+)* [\w-]+ |docker exec(?: -\S+)* [\w-]+ "
    r"|wsl(?: -\S+)* |rtk (?:proxy )?|caffeinate(?: -\S+)* |doppler run -- |op run -- "
    r"|(?:\S*/)?(?:\.?venv|env|\.venv)/bin/(?:python3? -m )?|python3?(?:\.\d+)? -m "
    r"|vendor/bin/|(?:\./)?node_modules/\.bin/|\./(?=gradlew|mvnw))"
)
_FILE = re.compile(r"[\w.@+-]+\.[A-Za-z]\w{0,6}\b")
_NOT_A_FILE = re.compile(
    r"^(?:\d+\.\w+|e\.g|i\.e|node\.js|\w+\.(?:com|org|io|dev|net|app|ai))$",
    re.IGNORECASE,
)

_BY_KIND: dict[Kind, str] = {
    "look": (
        "Read Grep Glob LS NotebookRead WebSearch WebFetch ToolSearch LSP ListMcpResourcesTool "
        "ReadMcpResourceTool Task Agent"
    ),
    "change": "Edit MultiEdit Write NotebookEdit",
    "poll": "BashOutput TaskOutput AgentOutputTool Monitor",
    "tidy": "KillShell KillBash TaskStop",
}
_SHELLS = ("Bash", "PowerShell", "Shell")
_TOOLS = {tool: kind for kind, tools in _BY_KIND.items() for tool in tools.split()}


def read_call(call: ToolCall) -> Step:
    """Return what one call does."""
    given = call.input
    if call.name in _SHELLS:
        return _read_command(str(given.get("command") or "")[:_READ])
    kind = _TOOLS.get(call.name)
    if kind is not None:
        targets = map(given.get, ("file_path", "notebook_path", "path", "pattern", "url", "query"))
        target = str(next(filter(None, targets), given.get("description") or ""))
        return Step(
            kind,
            (f"{call.name} {_one_line(target)}")[:160],
            files_in(target) if kind in _WITH_FILES else (),
        )
    if call.name.startswith("mcp__"):
        action = str(given.get("action") or "")
        return Step("run", f"{call.name} {action}".strip()[:160], is_mcp=True)
    return Step("admin", call.name)


def _read_command(command: str) -> Step:
    kind = _kind_of(command)
    redirected = kind == "look" and re.search(
        r"(?:^|\s)>{1,2} ?[\w./~-]+\.\w+",
        _QUOTED.sub("Q", command),
    )
    if redirected and "/dev/null" not in command:
        kind = "change"
    if kind in ("look", "tidy") and re.search(r"tasks/[\w-]+\.output", command):
        kind = "poll"
    return Step(kind, _one_line(command)[:160], files_in(command) if kind in _WITH_FILES else ())


def is_run(call: ToolCall) -> bool:
    """Return whether a call is a command that does nothing but test, build, check or start what was
    built: no part of it prints a file, a page, history or words of its own.
    """
    command = str(call.input.get("command") or "")
    if call.name not in _SHELLS or len(command) > _READ or _PRINTS_MORE.search(command):
        return False
    script = _EXIT_CODE.sub(
        "", _QUOTED.sub(lambda quoted: quoted[0] if "$" in quoted[0] else "Q", command)
    )
    script, runs, at, piped = _QUOTED.sub("Q", script), 0, 0, False
    for end in [*_SPLIT.finditer(script), None]:
        segment = _unwrapped(script[at : end.start() if end else len(script)])
        at, was_piped, piped = (end.end(), piped, end[0] == "|") if end else (0, piped, False)
        if any(_compiled(pattern).match(segment) for pattern in _RUNS):
            runs += 1
        elif segment and not (_FILTER if was_piped else _SILENT_PART).fullmatch(segment):
            return False
    return runs > 0


@lru_cache(maxsize=128)  # the same tests are run again and again
def _kind_of(command: str) -> Kind:
    text = _HEREDOC.sub(" ", command)
    scripts = [
        _QUOTED.sub("Q", script)
        for script in (text, *(match[2] for match in _INNER_SHELL.finditer(text)))
    ]
    kinds: list[Kind] = []
    for segment in filter(
        None, (_unwrapped(part) for script in scripts for part in _SPLIT.split(script))
    ):
        found = (kind for kind, pattern in COMMANDS.items() if _compiled(pattern).match(segment))
        kinds.append(next(found, "run"))
    return min(kinds, key=_KINDS.index, default="tidy")


def _unwrapped(segment: str) -> str:
    """Return a segment without `cd x`, `VAR=1`, `npx`, `timeout 60` and their like, up to eight
    of them.
    """
    rest = segment.strip().lstrip("({ ")
    for _ in range(8):
        match = _WRAPPER.match(rest)
        if match is None:
            break
        rest = rest[match.end() :].lstrip()
    return (_REDIRECTION.sub("", rest) if ">" in rest else rest).strip()


def files_in(text: str) -> tuple[str, ...]:
    """Base names of files in a text, in order, each once, at most 16."""
    names = (
        name.lower()
        for name in _FILE.findall(text[:4000].replace("\\", "/"))
        if 4 <= len(name) <= 60
    )
    return tuple(dict.fromkeys(name for name in names if not _NOT_A_FILE.match(name)))[:16]


def _one_line(text: str) -> str:
    return " ".join(text.split())


#: `ran` is a command that ended without an error: proof only where it had failed before.
Ending = Literal["passes", "fails", "ran", "mechanics", "silent"]

#: Kinds whose text is read for failure. The text of a file that was looked at is not a result.
_TELLING = CHECKS | {"run", "install", "ship"}
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_FINDING = re.compile(r"^\s*[\w./-]+\.\w{1,5}:\d+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """`quote` is the decisive line as printed, at most 240 characters."""

    ending: Ending
    quote: str
    rule: str


_SILENT = RunEnd("silent", "", "")


def read_result(step: Step, text: str, is_error: bool) -> RunEnd:
    """Return how a call ended that answered this text."""
    if not is_error and (step.kind not in _TELLING or step.is_mcp):
        return _SILENT
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if is_error:
        return _flagged(step, text)
    counts = wordings("counted", "check") if step.kind in CHECKS else wordings("counted")
    found = first(counts, text) or first(
        wordings("line"), text[:_LONG] if step.kind not in CHECKS else text
    )
    if found is not None:
        return _outcome(found[0], text, found[1])
    if step.kind in ("lint", "types", "build") and not _FINDING.search(text) and not _goes_on(text):
        return RunEnd("passes", _last_line(text) or "no output", "no-complaint")
    if step.kind in ("run", "install", "ship") and not _goes_on(text):
        return RunEnd("ran", _last_line(text) or "no output", "ran")
    return _SILENT


#: A longer answer of a command that is no check holds text of all kinds.
_LONG = 2000


def _goes_on(text: str) -> bool:
    return "running in background" in text[:400] or "<status>running" in text[:200]


def _flagged(step: Step, text: str) -> RunEnd:
    found = first(wordings("mechanics"), text)
    # A compiler that misses a file is a finding, an `ls` that misses one is mechanics.
    if found is not None and not (
        found[0].id == "wrong-place" and step.kind in CHECKS and ": cd: " not in text
    ):
        return RunEnd("mechanics", "", found[0].id)
    if step.kind in ("look", "tidy", "admin"):
        return RunEnd("mechanics", "", "flagged-look")
    failing = [
        row
        for row in wordings("counted", "check", "line")
        if row.says == "fails" and row.id != "exit-code"
    ]
    found = first(failing, text)
    if found is not None:
        return _outcome(found[0], text, found[1])
    line = _last_line(
        re.sub(
            r"^(?:Error: )?Exit code \d+\s*",
            "",
            text.lstrip(),
        )
    ) or _last_line(text)
    return RunEnd("fails", line, "flagged-error")


def _outcome(row: Wording, text: str, match: re.Match[str]) -> RunEnd:
    start = text.rfind("\n", 0, match.start() + 1) + 1
    if match.group(0)[:1] == "\n":
        start = match.start() + 1
    end = text.find("\n", max(match.end() - 1, start))
    line = " ".join(text[start : len(text) if end < 0 else end].split())[:240]
    return RunEnd("passes" if row.says == "passes" else "fails", line, row.id)


def _last_line(text: str) -> str:
    """Return the last line with words in it: what a run ends with says how it went."""
    lines = (
        line for line in reversed(text.strip().splitlines()[-12:]) if re.search(r"\w{2}", line)
    )
    return " ".join(next(lines, "").split())[:240]
