"""The commands, paths and identifiers of a rule, and what it speaks against."""

import pytest

from reflector.counts.token import Token
from reflector.counts.tokens import MOST_TOKENS, tokens_of


def _written(text: str) -> str:
    return " ".join(f"{'!' if token.negated else ''}{token.text}" for token in tokens_of(text))


@pytest.mark.parametrize(
    ("rule", "tokens"),
    [
        ("Run `make lint` before you commit.", "make lint"),
        ("Pass --no-color and read src/app/main.py.", "--no-color src/app/main.py"),
        ("Put translations into `locales/`.", "locales/"),
        ("Call parse_line or parseLine, not GitHub.", "parse_line parseLine"),
        ("In `.ts` files use `zod`.", "*.ts zod"),
        ("Keep `.env` out.", ".env"),
        ("Name branches `fix/<issue>`.", "fix/"),
        ("Call `getUser()` on the server.", "getUser("),
        ("Be kind and/or brief.", ""),
        ("Use `x` or `ok`.", ""),
        ("Use `gh ... --body-file a` or `gh <command>`.", "gh"),
        ("Use `gh ... --body-file a`.", ""),
        ("`make lint && make test` must pass.", "make lint make test"),
        ("Mark it with `#[expect()]` or `[allow()]`.", "#[expect( [allow("),
    ],
)
def test_tokens_of_rule_are_found(rule: str, tokens: str) -> None:
    assert _written(rule) == tokens


@pytest.mark.parametrize(
    ("rule", "tokens"),
    [
        ("Use `pnpm`, not `npm`.", "pnpm !npm"),
        ("Never use `strings.Contains`.", "!strings.Contains"),
        ("Don't run `git push --force`.", "!git push --force"),
        ("Never commit without running `make lint`.", "make lint"),
        ("Instead of `left.pad`, use `right.pad`.", "!left.pad right.pad"),
        ("Avoid `print`. Use `logger`.", "!print logger"),
        ("Prefer `left.pad` over `right.pad`.", "left.pad !right.pad"),
        ("Use `a_b` instead of `b_c`, and `c_d` instead of `d_e`.", "a_b !b_c c_d !d_e"),
        ("Use `a_b` to avoid `b_c`.", "a_b b_c"),
        ("Never wait, because it is slow with `a_b`.", "a_b"),
        ("A task is not `a_b`.", "a_b"),
        ("**Do not** use `a_b`.", "!a_b"),
        ("`a_b`에 작성 (폴더를 만들지 않음)", "a_b"),
        ("Fold fixes (not those on main) with `git rebase -i`.", "git rebase -i"),
        ("Keys are never logged (search for `privateKey`).", "privateKey"),
        ("不要使用 `npm`，改用 `pnpm`", "!npm pnpm"),
        ("`npm` は使わない。`pnpm` を使う", "!npm pnpm"),
        ("`pnpm` しなければならない", "pnpm"),
        ("No uses `npm`, usa `pnpm`.", "!npm pnpm"),
        ("Não use `npm`, prefira `pnpm`.", "!npm pnpm"),
    ],
)
def test_negation_before_token_is_read(rule: str, tokens: str) -> None:
    assert _written(rule) == tokens


@pytest.mark.parametrize(
    ("rule", "scopes"),
    [
        ("When running `make test` with `A=1`, read `a.log`.", ["condition", "condition", ""]),
        ("Run `make docs` after changing `a_b` or `b_c`.", ["", "condition", "condition"]),
        ("If you change `a_b`, or `b_c`, run `make docs`.", ["condition", "condition", ""]),
        ("Report it (unless `a_b` is set) with `make it`.", ["condition", ""]),
        ("**Before `git push`:** run `make lint`.", ["condition", ""]),
        ("Commit only after `make lint` passes.", ["", ""]),
        ("Never push until `make lint` passes.", ["", ""]),
        ("**Never amend commits** (`--amend`).", [""]),
        ("When you review, never use `a_b`.", ["part"]),
        ("When you review, use `b_c`, not `a_b`.", ["", "part"]),
        ("When you review, use `make a`, not `make b`.", ["", ""]),
        ("Never assume that `a_b` works.", ["part"]),
        ("Write a title with no `fix:` / `docs:` prefix.", ["mention", "mention"]),
        ("Avoid `make test` between edits.", ["part"]),
        ("For type errors only: use `make types`, not `make all`.", ["", "part"]),
        ("Avoid `--all` for local runs.", ["part"]),
        ("Avoid modifying `process.env`.", ["part"]),
        ("Avoid names such as `a_b`.", ["part"]),
        ("Avoid calls such as `a_b`.", [""]),
        ("Name it well, e.g., use `a_b` instead of `b_c`.", ["mention", "mention"]),
        ("The marker tells `make lint` that all is well.", ["mention"]),
        ("Run `make lint` and `make types`.", ["", ""]),
        ("`make help` lists the rest.", ["mention"]),
        ("Use `make a` instead of `make b` to test.", ["", ""]),
        ("`make lint` passes.", [""]),
        ("Before you commit, if you changed `a_b`, run `make docs`.", ["condition", ""]),
    ],
)
def test_words_around_a_token_scope_it(rule: str, scopes: list[str]) -> None:
    assert [token.scope for token in tokens_of(rule)] == scopes


@pytest.mark.parametrize(
    ("rule", "form"),
    [
        ("Run scripts with `uv run <script>`.", "before a file"),
        ("Create it with `fix/<file>`.", ""),
        ("Never edit `docs/api/**` by hand.", "file"),
        ("Never edit snapshot files by hand.", "file"),
        ("Do not edit files in `generated/`.", "file"),
        ("Don't prefix tests with `test_`.", "name"),
        ("Never use `test_`.", ""),
        ("Imports go to the top of the file, never locally in functions.", "import"),
    ],
)
def test_rule_describes_the_form_of_an_act(rule: str, form: str) -> None:
    assert [token.form for token in tokens_of(rule)] == [form]


@pytest.mark.parametrize(
    "rule",
    [
        "Never take snapshots.",
        "Imports go to the top of the file.",
        "Avoid local imports unless there is a circular import.",
    ],
)
def test_other_rule_has_no_form(rule: str) -> None:
    assert tokens_of(rule) == ()


def test_tokens_are_bounded() -> None:
    rule = " ".join(f"`name_{number}`" for number in range(MOST_TOKENS + 5))
    assert len(tokens_of(rule)) == MOST_TOKENS


@pytest.mark.parametrize(
    ("text", "is_distinct"),
    [("make lint", True), ("parse_line", True), ("pnpm", False), ("src/app/main.py", False)],
)
def test_distinct_tokens_have_more_than_one_word(text: str, *, is_distinct: bool) -> None:
    assert Token(text, negated=False).is_distinct is is_distinct


@pytest.mark.parametrize(
    ("rule", "is_command"),
    [
        ("Run `make lint`.", True),
        ("Use `pub use` sparingly.", False),
        ("Use `if let`.", False),
        ("Use `x`.", False),
        ("Run `uv <script>`.", True),
        ("Run `scripts/check.sh`.", True),
        ("Make sure `a.js` and `b.js` are run.", True),
        ("See `docs/x.md`.", False),
        ("Put it in `src/lib/`.", False),
        ("Edit `scripts/check.sh`.", False),
        ("The job runs `scripts/check.sh`.", False),
        ("Run `tests/test_a.py`.", False),
        ("Run Node.js tests.", False),
    ],
)
def test_code_is_not_a_command(rule: str, *, is_command: bool) -> None:
    assert any(token.is_command for token in tokens_of(rule)) is is_command
