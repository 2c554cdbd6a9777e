"""Bans: the spellings of commands, acts in words, files to keep out, and messages of commits."""

import pytest

from reflector.counts.rules import (
    CAME_UP,
    IN_TIME,
    LATE,
    LOADED,
    MENTIONED,
    Marks,
    rule_of,
    rule_set,
)
from reflector.counts.tokens import tokens_of
from reflector.transcripts.message import Message
from tests.conftest import first_fast
from tests.counts.messages import calls, edits, runs


def _marks(rule: str, *messages: Message, title: str = "") -> Marks:
    made = rule_of(rule, titles=(title,))
    marks = rule_set([made]).count(messages).marks.get(made.key, Marks())
    return marks._replace(came_up=marks.came_up & ~MENTIONED)


def _breaks(rule: str, *messages: Message) -> bool:
    marks = _marks(rule, *messages)
    return (marks.run | marks.written) & rule_set([rule_of(rule)]).rules[
        rule_of(rule).key
    ].negated > 0


NO_VERIFY = "Never use `--no-verify` when committing."
RM = "Never run `rm -rf`."
UV = "Use uv, never pip."


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        (NO_VERIFY, "git commit -n -m 'x'"),
        (NO_VERIFY, "git -C app commit -anm x"),
        ("Never commit with `--no-verify`.", "git commit --no-verify"),
        ("Don't bypass pre-commit hooks.", "git commit -n"),
        (RM, "rm -fr build"),
        ("Never run `prettier`.", "npx prettier --write src"),
        ("Never run `eslint`.", "pnpm exec eslint src"),
        ("Use `rg`, not `grep -r`.", "grep -rn total src"),
        ("Never use `grep -r`.", "grep -inR total ."),
        (RM, "rm -r -f build"),
        (RM, "rm --recursive --force build"),
        (RM, "find . | xargs -0 rm -rf"),
        ("Use pnpm, not npm.", "npm i x"),
        ("Use pnpm, never npm or yarn.", "npm i x"),
        ("Use pnpm, never npm or yarn.", "yarn add x"),
        ("Don't use `npm install`; use `npm ci`.", "npm i"),
        ("Never use `npm install -g`.", "npm i --global x"),
        ("Never use `git add -A`.", "git add --all"),
        ("Never rebase with `git rebase -i`.", "git rebase --interactive x"),
        (UV, "python3 -m pip install x"),
        (UV, "pip3 install x"),
        (UV, "sudo -H pip install x"),
        ("Run scripts with `uv run`, not plain `python`.", "./.venv/bin/python a.py"),
        ("Use `./gradlew`, never a system-wide gradle.", "JAVA_HOME='/a b' gradle build"),
        ("Don't use `sed -i` to edit source files.", "bash -c \"sed -i 's/a/b/' a.ts\""),
        ("Never use sudo.", "sudo apt install x"),
        ("Não use `sudo`.", "sudo apt install x"),
        ("Nunca hagas force push.", "git push origin +x"),
        ("Never delete branches on the remote.", "git push origin :x"),
        ("Never delete remote branches.", "git push -d origin x"),
        ("Don't run database migrations yourself.", "A=1 python manage.py migrate x"),
        ("Never amend commits.", "git commit --amend --no-edit"),
        ("Never amend a commit.", "git commit --amend --no-edit"),
        ("Never push directly to `main`.", "git push origin HEAD:main"),
        ("Never install packages globally.", "npm install -g x"),
        ("Never merge pull requests.", "gh pr merge 1"),
        ("Never commit `.env` files.", "git add -f .env.production a"),
        ("Never commit `*.pem` files.", "git add keys/a.pem"),
        ("Don't read `.env` or anything in `secrets/`.", "bash -lc 'grep A .env | cut -f1'"),
        ("Don't read `.env` or anything in `secrets/`.", "cat ./secrets/key"),
    ],
)
def test_any_spelling_breaks_a_ban(rule: str, command: str) -> None:
    assert _breaks(rule, runs(command))


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        (NO_VERIFY, "git log -n 3"),
        (NO_VERIFY, "git commit -mnew && git log -n 1"),
        (NO_VERIFY, "git commit -m 'drop -n'"),
        ("Never use `--no-verify` unless CI is down.", "git commit -n"),
        (RM, "rm -r build; cp -f a b"),
        ("Use `npx vitest`, not `vitest`.", "npx vitest"),
        ("Never use `git commit -a`.", "git commit -m a"),
        (UV, "uv pip install x"),
        (UV, "pip --version"),
        ("Use `python3`, not `python`.", "python3 a.py"),
        ("Use `python -m pytest`, not `pytest`.", "python -m pytest"),
        ("Run scripts with `uv run`, not plain `python`.", "python -m http.server"),
        ("Never delete branches on the remote.", "git push origin a:b && git branch -d a"),
        ("Never push directly to `main`.", "git push origin fix/main-x"),
        ("Don't run database migrations.", "python manage.py makemigrations"),
        ("Never commit `.env` files.", "git add .env.example && git rm --cached .env"),
        ("Never read `.env`.", "ls .env; cp .env.example .env; cat a | grep .env"),
        ("Never read `.env`.", "cat .envrc"),
        ("Don't run these with `deno test`.", "deno test /tmp/scratch_test.ts"),
        ("Do not use `grep` to count lines.", "grep -c x a"),
        ("Never use `eval`.", "ls eval"),
        ("Never use `--force` with `git push`.", "git push && npm ci --force"),
        ("Never use `kubectl apply` against production.", "kubectl apply -f a"),
        ("Never use `kubectl apply` in production.", "kubectl apply -f a"),
        ("Never run `make a` in `api/v1/`.", "make a"),
    ],
)
def test_other_command_breaks_no_ban(rule: str, command: str) -> None:
    assert not _breaks(rule, runs(command))


@pytest.mark.parametrize(
    ("rule", "message", "is_broken"),
    [
        ("Never read `.env`.", calls("Read", file_path="/app/.env"), True),
        ("Never read `.env`.", calls("Read", file_path="/app/.env.example"), False),
        ("Never read `.env`.", calls("Grep", pattern=".env", path="/app"), False),
        ("Never use `localStorage` for tokens.", edits("localStorage.a", file="/app/a.ts"), False),
        ("Never use `@ts-ignore`.", edits("// @ts-ignore", file="/app/a.ts"), True),
        ("Never add `# type: ignore`.", edits("x = y  # type: ignore", file="/app/a.py"), True),
        ("Avoid `eval()` in production code.", edits("eval(x)", file="/app/a.py"), True),
        ("Avoid `eval()` in production code.", edits("eval(x)", file="/app/tests/a.py"), False),
        ("Never add a `config.yaml` file.", edits("x", file="/app/config.yml"), False),
        ("Add it to the root `tsconfig.json`.", edits("x", file="/app/tsconfig.jsonc"), False),
        ("Never edit `worker.d.ts`.", edits("x", file="/app/worker.d.ts"), True),
        ("Never use `any`.", edits("let a: Record<string, any>", file="/app/a.ts"), True),
        ("Never use `any`.", edits("f<a>(b, any other)", file="/app/a.ts"), False),
        ("Never use bare `except`.", edits("try:\n    a()\nexcept:\n    b()"), True),
        ("No bare excepts.", edits("except ValueError:"), False),
    ],
)
def test_file_of_a_call_breaks_a_ban(rule: str, message: Message, *, is_broken: bool) -> None:
    assert _breaks(rule, message) is is_broken


TITLES = "Commit titles stay under 50 characters."
KEYS = "Commit messages start with the key, e.g. `PAY-123: ...`."
CREDIT = "Never mention Claude in commit messages."
LONG = "Refactor the exporter so that it streams the rows now"


@pytest.mark.parametrize(
    ("rule", "command", "is_broken"),
    [
        (TITLES, f"git commit -am '{LONG}'", True),
        (TITLES, f"git commit -m \"$(cat <<'EOF'\n{LONG}\nEOF\n)\"", True),
        (TITLES, f"git commit -m 'Stream rows' -m '{LONG}'", False),
        (TITLES, f'git commit -m "$(printf {LONG})"', False),
        (TITLES, f"git commit -m 'Merge {LONG}'", False),
        (TITLES, f"git tag -m '{LONG}'", False),
        (KEYS, "git commit -F - <<'EOF'\nRound\n\nRefs PAY-481\nEOF", True),
        (KEYS, "git commit -qm 'PAY-481: round'", False),
        ("Use conventional commits.", "git commit -m 'Fix it'", True),
        ("Commits start with feat:, fix: or chore:.", "git commit -m 'Fix it'", True),
        ("Commits start with `feat:`/`fix:`.", "git commit -m 'fix: it'", False),
        ("Commits start with why: and how:", "git commit -m 'why: it'", False),
        ("Use conventional commits.", "git commit -m 'fix(a)!: it'", False),
        ("Don't add `Co-Authored-By` to commits.", "git commit -m a -m 'Co-authored-by: b'", True),
        (
            "Never add yourself as a co-author on commits.",
            "git commit -m 'a\n\nCo-Authored-By: b'",
            True,
        ),
        ("PR titles follow Conventional Commits.", "git commit -m 'Fix it'", False),
        ("Use a conventional-commit title.", "git commit -m 'Fix it'", False),
        (CREDIT, "git commit -m 'Fix (by Claude)'", True),
        (CREDIT, "git commit -m 'Fix claudette'", False),
    ],
)
def test_message_breaks_a_rule(rule: str, command: str, *, is_broken: bool) -> None:
    assert _breaks(rule, runs(command)) is is_broken


@pytest.mark.parametrize(
    ("rule", "title", "message", "is_broken"),
    [
        ("NEVER run: `make a`, `make b`", "", runs("make b"), True),
        ("**FORBIDDEN** - `make a`", "", runs("make a"), True),
        ("Never run `make a` — `make b` is for it.", "", runs("make b"), False),
        ("Run `make a`.", "Do not", runs("make a"), True),
        ("`make a`", "Never run these commands:", runs("make a"), True),
        ("❌ Use `getRows()`", "", edits("getRows(1)"), True),
        ("❌ Do NOT use `getRows()`", "", edits("getRows(1)"), True),
        ("Do not add `as: any` / `getRows()`.", "", edits("getRows(1)"), True),
        ("Use `getRows()` for imports.", "Don'ts", edits("getRows(1)"), False),
        ("Using `make a` instead of `make b`", "Avoid", runs("make b"), False),
        ("Commit without running `make a`.", "Never", runs("make a"), False),
        ("Run `make a`.", "Do not commit secrets", runs("make a"), False),
    ],
)
def test_ban_reaches_its_list(rule: str, title: str, message: Message, *, is_broken: bool) -> None:
    counting = rule_set([rule_of(rule, titles=(title,))]).rules[rule_of(rule).key]
    marks = _marks(rule, message, title=title)
    assert bool((marks.run | marks.written) & counting.negated) is is_broken


@pytest.mark.parametrize(
    "rule",
    [
        "Never import `getRows` from the old module.",
        "Avoid `getRows` in responses.",
        "Avoid `getRows` calls unless nothing else works.",
        "**FORBIDDEN** `getRows` - unless at the top.",
        "Never call `getRows` per frame.",
        "Never call `getRows` directly on a render path.",
        "Prefer a view over a new `getRows` argument when rows are many.",
        "Put rows into a view, not in `rowCount` or `getRows`.",
        "Use `allRows` instead of `getRows` for long lists.",
        "When rows are many, use `allRows` instead of `getRows`.",
        "`check` | a source with no `getRows` | Rows may be missing.",
        "(There is no `getRows` here.)",
        "The reader sets no `getRows`.",
        "Use `getRows` in tests, never `import { getRows } from 'rows'`.",
    ],
)
def test_restricted_ban_is_not_counted(rule: str) -> None:
    assert not _breaks(rule, edits("import { getRows } from 'rows'\ngetRows(1)", file="/app/a.ts"))


@pytest.mark.parametrize(
    "rule",
    [
        "Never use `getRows` in this project.",
        "Don't use the `getRows` function directly, it is slow.",
        "Never use `getRows` to avoid slow pages.",
        "Avoid `getRows` in TypeScript.",
        "Do NOT set `getRows`.",
        "Avoid `getRows`/`allRows` because they are slow when many rows exist.",
    ],
)
def test_words_after_a_ban_keep_it(rule: str) -> None:
    assert _breaks(rule, edits("getRows(1)", file="/app/a.ts"))


GO = "Run `go vet ./...` before you commit Go changes."


@pytest.mark.parametrize(
    ("rule", "file", "came_up"),
    [
        (GO, "/app/a.go", CAME_UP | LATE),
        (GO, "/app/README.md", 0),
        ("Run `terraform fmt` before committing `.tf` changes.", "/app/a.tf", CAME_UP | LATE),
        ("If you changed `web/`, run `make a` before you push.", "/app/api/a.go", 0),
        ("If only non-Rust was changed, run `make a` before you commit.", "/app/a.rs", 0),
        ("Run `make a` after code changes.", "/app/a.rs", CAME_UP),
        ("Run `make a` after code changes.", "/app/README.md", 0),
        ("Run `make watch` - builds on changes.", "/app/a.rs", 0),
        ("Run `make a` - after each change.", "/app/a.rs", CAME_UP),
        ("`make a` — run **immediately** after each change.", "/app/a.rs", CAME_UP),
    ],
)
def test_occasion_needs_a_changed_file(rule: str, file: str, came_up: int) -> None:
    assert _marks(rule, edits("x", file=file), runs("git commit")).came_up == came_up


@pytest.mark.parametrize(
    ("rule", "title", "came_up"),
    [
        ("Lint: `make lint`", "Before you commit", CAME_UP | IN_TIME),
        ("Run `make lint`.", "Before committing any changes, always run:", CAME_UP | IN_TIME),
        ("Do not edit pages: run `make lint`.", "Before each commit", 0),
        ("Run `make lint` if you changed a page.", "Before each commit", 0),
        ("Run `make lint`.", "Before a migration", 0),
        ("Run `make`.", "Before you commit", CAME_UP | IN_TIME),
    ],
)
def test_title_names_the_occasion(rule: str, title: str, came_up: int) -> None:
    assert _marks(rule, runs("make lint && git commit"), title=title).came_up == came_up


@pytest.mark.parametrize(
    ("message", "is_loaded"),
    [
        (edits("x", file="/app/ui/a.ts"), True),
        (calls("Read", file_path="/app/ui/a.ts"), True),
        (edits("x", file="/app/api/a.ts"), False),
        (runs("make lint"), False),
    ],
)
def test_rule_is_loaded_at_its_files(message: Message, *, is_loaded: bool) -> None:
    rule = rule_of("Be brief.", scope=("ui/",))
    marks = rule_set([rule]).count([message]).marks.get(rule.key, Marks())
    assert rule.is_loaded(marks) is is_loaded
    assert bool(marks.came_up & LOADED) is is_loaded


@pytest.mark.parametrize(
    ("rule", "shown"),
    [
        (TITLES, "wrote a title of more than 50 characters"),
        ("Never amend commits.", "amended a commit"),
        ("Never read `.env`.", "read `.env`"),
        ("Never commit `.env` files.", "staged `.env`"),
    ],
)
def test_token_has_a_name_for_the_page(rule: str, shown: str) -> None:
    assert tokens_of(rule)[0].shown == shown


@pytest.mark.parametrize(
    ("rule", "piece"),
    [
        ("Never run `git commit --a1 --b2 --c3 --d4`.", "git commit --a1 --b2 --c3 "),
        ("Never run `git commit --a1 --b2 --c3 --d4`.", "--a1 --b2 --c3 "),
        ("Run `tools/x.js a b c d` before you commit.", "tools/x.js a b c "),
        ("Run `tools/x.js` before you commit.", "bash -x "),
        ("Run `tools/x.js` before you commit.", "docker exec -it x node -r y tools/"),
        ("Never use `allow_draft`.", "sudo -u x env -i "),
        ("Don't read `secrets/**/**/**/**/x.key`.", "cat secrets/a/"),
    ],
)
def test_hostile_command_is_read_in_bounded_time(rule: str, piece: str) -> None:
    """Without the cure, each of these takes more than the time limit of a test."""
    rules = rule_set([rule_of(rule)])
    command = f"git commit {piece * (12_000 // len(piece))} allow_draft x.key d"
    assert rules.count([runs(command)]).steps == 1


@pytest.mark.parametrize(
    "piece", first_fast(2, ["use `x` instead of `y` ", "A_b ", "not ", "`a`, or "])
)
def test_hostile_rule_is_read_in_bounded_time(piece: str) -> None:
    """Without the cure, the first piece takes more than the time limit of a test."""
    text = f"Never use `git commit` {piece * (12_000 // len(piece))}"
    assert rule_set([rule_of(text)]).rules


def test_title_with_a_huge_limit_is_no_rule() -> None:
    digits = "9" * 5_000
    assert not _breaks(f"Keep commit titles under {digits} characters.", runs("git commit -m x"))
