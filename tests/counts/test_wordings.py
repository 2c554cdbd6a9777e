"""Wordings of rules, and the calls that follow or break them."""

import pytest

from reflector.counts.rules import Marks, rule_of, rule_set
from reflector.transcripts.message import Message
from tests.counts.messages import calls, edits, patches, runs, writes


def _verdict(rule: str, *messages: Message) -> str:
    """Return "followed", "broken", or "" if the messages show neither."""
    made = rule_of(rule)
    rules = rule_set([made])
    counting = rules.rules[made.key]
    marks = rules.count(messages).marks.get(made.key, Marks())
    acts = marks.run | marks.written
    if acts & counting.negated:
        return "broken"
    return "followed" if acts & counting.named else ""


@pytest.mark.parametrize(
    ("rule", "use", "avoid"),
    [
        ("Serve with `pnpm dev`, not with `node dist/a.js`.", "pnpm dev", "node dist/a.js"),
        ("Server: `pnpm dev`, not `node dist/a.js`.", "pnpm dev", "node dist/a.js"),
        ("Search with `rg`, not with `grep -r`.", "rg x src", "grep -rn x src"),
        ("Search using `rg` and not `grep -r`.", "rg x src", "grep -rn x src"),
        ("Tests: `pnpm test` (not `npx vitest`).", "pnpm test", "npx vitest run"),
        ("Format with `ruff format`, never `black .`.", "ruff format .", "black ."),
        ("Migrations run by `make up`, not by `alembic upgrade`.", "make up", "alembic upgrade"),
    ],
)
def test_choice_of_commands_is_counted(rule: str, use: str, avoid: str) -> None:
    assert _verdict(rule, runs(use)) == "followed"
    assert _verdict(rule, runs(avoid)) == "broken"


LOCK = "Never edit `pnpm-lock.yaml`."
MADE = "Do not touch generated files in `src/gen/`."


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        (LOCK, "sed -i 's/a/b/' pnpm-lock.yaml"),
        (LOCK, "cd app && sed -i.bak -e s/a/b/ -e s/c/d/ ./pnpm-lock.yaml"),
        (LOCK, "perl -0pi -e 's/a > b/c/' pnpm-lock.yaml"),
        (LOCK, "echo x | tee -a pnpm-lock.yaml"),
        (LOCK, "echo x > 'pnpm-lock.yaml'"),
        (LOCK, "jq . a.json >> pnpm-lock.yaml 2>/dev/null"),
        (LOCK, "> pnpm-lock.yaml"),
        (LOCK, "cat <<EOF > pnpm-lock.yaml\nx\nEOF"),
        (LOCK, "if grep -q x a; then mv /tmp/new.yaml pnpm-lock.yaml; fi"),
        (LOCK, "cp other.yaml pnpm-lock.yaml"),
        (LOCK, "mv pnpm-lock.yaml old.yaml"),
        (LOCK, "FOO=1 sudo rm -f pnpm-lock.yaml"),
        (LOCK, "git rm pnpm-lock.yaml"),
        ("`src/gen/` is generated; never edit it by hand.", "sed -i s/a/b/ src/gen/a.ts"),
        ("Generated code in `src/gen/` must not be edited.", "sed -i s/a/b/ src/gen/a.ts"),
        ("Do not edit auto-generated files in `src/gen/`.", "sed -i s/a/b/ src/gen/a.ts"),
        (MADE, "sed -i s/a/b/ src/gen/*.ts"),
        (MADE, "cp a.ts b.ts src/gen/"),
        (MADE, "rm src/gen/a.ts"),
        ("Don't touch lockfiles directly.", "sed -i s/a/b/ uv.lock"),
    ],
)
def test_command_changes_a_forbidden_file(rule: str, command: str) -> None:
    assert _verdict(rule, runs(command)) == "broken"


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Never change `a.toml` versions by hand.", "sed -i s/a/b/ a.toml"),
        ("Never edit files in `db/` after they are merged.", "sed -i s/a/b/ db/a.sql"),
        (LOCK, "pnpm install && git diff pnpm-lock.yaml > /tmp/a.diff"),
        (LOCK, "cp pnpm-lock.yaml /tmp/b.yaml"),
        ("Run `a.sh` for the client. Never edit it.", "sed -i s/a/b/ a.sh"),
        ("`a.sql` is made by a tool; don't edit it, unless asked.", "sed -i s/a/b/ a.sql"),
        (LOCK, "cp pnpm-lock.yaml.bak pnpm-lock.yaml"),
        (LOCK, "sed -n 1p pnpm-lock.yaml"),
        (LOCK, "sed s/a/b/ pnpm-lock.yaml"),
        (LOCK, "perl -ne 'print if /i/' pnpm-lock.yaml"),
        (LOCK, "git rm --cached pnpm-lock.yaml"),
        (LOCK, "git checkout pnpm-lock.yaml"),
        (LOCK, "make --silent lock > pnpm-lock.yaml"),
        (LOCK, "make lock | tee pnpm-lock.yaml"),
        (LOCK, "make lock 2> pnpm-lock.yaml"),
        (LOCK, "git commit -m 'x > pnpm-lock.yaml; rm pnpm-lock.yaml'"),
        (LOCK, 'psql -c "select a > pnpm-lock.yaml"'),
        (LOCK, "echo x > /tmp/pnpm-lock.yaml; rm $DIR/pnpm-lock.yaml"),
        (LOCK, "cd /tmp && echo x > pnpm-lock.yaml"),
        (LOCK, "cd && rm pnpm-lock.yaml"),
        (LOCK, "find . -name pnpm-lock.yaml | xargs cat"),
        (MADE, "rm -rf src/gen && make gen"),
        (MADE, "rm -f src/gen/*"),
        (MADE, "protoc a.proto > src/gen/a.ts"),
        (MADE, "cp src/gen/a.ts b.ts"),
        ("Never edit snapshot files manually.", "rm tests/old.snap"),
    ],
)
def test_other_command_changes_no_file(rule: str, command: str) -> None:
    assert _verdict(rule, runs(command)) != "broken"


def test_removed_file_is_not_written() -> None:
    rule = rule_of("Put translations into `locales/`.")
    marks = rule_set([rule]).count([runs("rm locales/de.json")]).marks[rule.key]
    assert not marks.written


@pytest.mark.parametrize(
    ("rule", "message", "verdict"),
    [
        ("Never put tests in `__tests__`.", writes("/app/src/__tests__/a.ts"), "broken"),
        ("Never put tests in the `src` folder.", writes("/app/src/a.test.ts"), "broken"),
        ("Never put tests in `src/`.", writes("/app/src/a.ts"), ""),
        ("Put tests in `tests/`, not in `src/`.", writes("/app/src/a.test.ts"), "broken"),
        ("Put tests in `tests/`, not in `src/`.", writes("/app/tests/a.test.ts"), ""),
        ("Tests never go into `src`.", writes("/app/src/test_a.py"), "broken"),
        ("Put styles in `styles/`, not in `src/`.", writes("/app/src/a.test.ts"), ""),
        ("Never put tests in `src/`.", edits("b", "a", file="/app/src/a.test.ts"), ""),
        ("Never add new files to `legacy/`.", writes("/app/legacy/a.ts"), "broken"),
        ("Never create files in `legacy/`.", runs("cat > legacy/a <<E\nx\nE"), "broken"),
        ("Never create files in `legacy/`.", runs("cat >> legacy/a <<E\nx\nE"), ""),
        ("Never create files in `legacy/`.", edits("b", "a", file="/app/legacy/a.ts"), ""),
        ("Never create files in `legacy/`.", patches("Add", "legacy/a.ts"), "broken"),
        ("Never create files in `legacy/`.", patches("Update", "legacy/a.ts"), ""),
        ("Never create `NOTES.md`.", writes("/app/NOTES.md"), "broken"),
        ("Do not add `plugins/<name>/.codex/`.", writes("/app/plugins/a/.codex/b.md"), "broken"),
        ("Do not add `plugins/<name>/.codex/`.", writes("/app/plugins/a/b.md"), ""),
        ("Do not add `.codex/` or `.agents/`.", writes("/app/.agents/a.md"), "broken"),
        ("Write guidance into `AGENTS.md`, not `CLAUDE.md`.", runs("git add CLAUDE.md"), ""),
        ("Don't put business logic in `routes/`.", writes("/app/routes/a.ts"), ""),
        ("Never add anything to `utils.py`.", writes("/app/utils.py"), ""),
    ],
)
def test_new_file_breaks_a_ban(rule: str, message: Message, verdict: str) -> None:
    assert _verdict(rule, message) == verdict


@pytest.mark.parametrize(
    ("rule", "message", "verdict"),
    [
        ("Do not read or print `.env`.", calls("Read", file_path="/app/.env"), "broken"),
        ("Do not read or print `.env`.", runs("cat .env"), "broken"),
        ("`.env` is secret: never read it.", runs("cat .env"), "broken"),
        ("Never open `secrets/`.", calls("Read", file_path="/app/secrets/key"), "broken"),
        ("Never look into the `secrets` folder.", runs("head secrets/key"), "broken"),
        ("Never read or edit `.env` files.", runs("cat .env.local"), "broken"),
        ("Never read or edit `.env` files.", edits("x", file="/app/.env"), "broken"),
        ("Never read or edit `.env` files.", runs("cat .env.example"), ""),
        ("Never read or edit `.env` files.", runs("git add .env"), ""),
    ],
)
def test_each_forbidden_deed_with_a_file_counts(rule: str, message: Message, verdict: str) -> None:
    assert _verdict(rule, message) == verdict


@pytest.mark.parametrize(
    ("rule", "command", "verdict"),
    [
        ("Never `git push --force`.", "git push --force-with-lease", ""),
        ("Never use `git push -f`.", "git push --force-with-lease origin a", ""),
        ("Never run `git push --force`.", "git push -f", "broken"),
        ("Never run `git push --force`.", "git push origin +main", "broken"),
        ("Never force push (`git push --force`).", "git push --force-with-lease", "broken"),
    ],
)
def test_option_of_a_forbidden_push_permits_lease(rule: str, command: str, verdict: str) -> None:
    assert _verdict(rule, runs(command)) == verdict
