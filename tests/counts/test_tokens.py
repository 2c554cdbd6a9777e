"""The commands, paths and identifiers of a rule, and what it speaks against."""

import pytest

from reflector.counts.tokens import MOST_TOKENS, Token, tokens_of


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
    ],
)
def test_tokens_of_rule_are_found(rule: str, tokens: str) -> None:
    assert _written(rule) == tokens


@pytest.mark.parametrize(
    ("rule", "tokens"),
    [
        ("Use `pnpm`, not `npm`.", "pnpm !npm"),
        ("Never use `strings.Contains` in parsers.", "!strings.Contains"),
        ("Don't run `git push --force`.", "!git push --force"),
        ("Never commit without running `make lint`.", "make lint"),
        ("Instead of `left.pad`, use `right.pad`.", "!left.pad right.pad"),
        ("Avoid `print`. Use `logger`.", "!print logger"),
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
    [("Run `make lint`.", True), ("Use `pub use` sparingly.", False), ("Use `x`.", False)],
)
def test_code_is_not_a_command(rule: str, *, is_command: bool) -> None:
    assert any(token.is_command for token in tokens_of(rule)) is is_command
