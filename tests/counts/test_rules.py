"""The counts of rules in one part of a session."""

import json
import re

import pytest
from hypothesis import given, strategies as st

from reflector.counts.occasions import names_case
from reflector.counts.rules import (
    AGAIN,
    CAME_UP,
    IN_TIME,
    LATE,
    MENTIONED,
    Marks,
    PartCounts,
    _words_in,
    restored,
    rule_of,
    rule_set,
)
from reflector.transcripts.message import Message
from tests.counts.messages import calls, edits, injected, printed, refuses, runs, says, you

LINT = "Run `make lint` before you commit."
SPECIFIC = "PREFER running specific tests over running the entire test suite"
TESTS_APART = "Put tests in `tests/`, never beside the code."
DIFF_FIRST = "Show me the diff before you commit."
CONTAINS = "Never use `strings.Contains`."


def _marks(rule: str, *messages: Message) -> Marks:
    """The marks of a rule, without mentions of its words."""
    counts = rule_set([rule_of(rule)]).count(messages)
    marks = counts.marks.get(rule_of(rule).key, Marks())
    return marks._replace(came_up=marks.came_up & ~MENTIONED)


@pytest.mark.parametrize(
    "message",
    [
        runs("cd app && make lint"),
        runs("make lint <<'EOF'\nx\nEOF"),
        calls("PowerShell", command="make lint"),
    ],
)
def test_command_in_shell_call_is_run(message: Message) -> None:
    assert _marks(LINT, message).run == 1


@pytest.mark.parametrize(
    "message",
    [
        edits("x = strings.Contains(a, b)"),
        edits("strings.Contains(strings.Contains(a))", "strings.Contains(a)"),
        calls("Write", file_path="a.go", content="strings.Contains"),
        calls("MultiEdit", file_path="a", edits=[{"new_string": "strings.Contains"}]),
        calls("NotebookEdit", notebook_path="a", new_source="strings.Contains"),
        calls("Edit", file_path="a", edits=[{"newText": "strings.Contains", "oldText": ""}]),
        calls("Edit", input="*** Begin Patch\n*** Update File: a.go\n+strings.Contains\n"),
        runs("cat > a.go <<'EOF'\nstrings.Contains\nEOF"),
    ],
)
def test_added_text_is_written(message: Message) -> None:
    assert _marks(CONTAINS, message) == Marks(written=1)


@pytest.mark.parametrize(
    "message",
    [
        edits("x = a", "x = strings.Contains(a, b)"),
        edits("strings.Contains(a, c)", "strings.Contains(a, b)"),
        calls("Edit", input="*** Begin Patch\n*** Update File: a.go\n-strings.Contains\n"),
        calls(
            "Edit",
            input="*** Begin Patch\n*** Update File: a\n-strings.Contains\n+strings.Contains(a)\n",
        ),
        calls("Read", file_path="strings.Contains"),
        calls("Grep", pattern="strings.Contains"),
        edits("strings.ContainsAny(a, b)"),
        runs("git commit -m - <<'EOF'\nstrings.Contains\nEOF"),
        runs("strings.Contains", chain="subagent"),
        printed("strings.Contains make lint"),
        injected("Never use strings.Contains."),
        says("Never use strings.Contains."),
        you("Never use strings.Contains.", chain="subagent"),
    ],
)
def test_other_text_counts_nothing(message: Message) -> None:
    assert _marks(CONTAINS, message) == Marks()


def test_path_of_changed_file_is_written() -> None:
    marks = _marks("Put translations into `locales/`.", edits("a", file="/app/locales/de.json"))
    assert marks == Marks(written=1)


def test_each_token_has_its_bit() -> None:
    assert _marks("Use `pnpm`, not `npm`.", runs("npm install")) == Marks(run=0b10)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (LINT, runs("git -C app commit -m x")),
        ("Ask before you push.", runs("git push")),
        ("Always run `make lint` before `git push`.", runs("git push")),
        ("提交前运行检查。", runs("git commit")),
        ("コミットの前に確認する。", runs("git commit")),
        ("Open a pull request as a draft.", runs("gh pr create --draft")),
        ("Commit to Git often, with `git add -p`.", runs("git commit")),
        ("Run `make lint` at the end of each task.", edits("x")),
        ("If you changed files in the repo, run `make lint`.", edits("x")),
        ("Run `make lint` after each change.", runs("git commit")),
        ("After making changes, run `make lint`.", edits("x")),
        ("Run `make e2e` when changing tests.", edits("x", file="/app/tests/a.py")),
        ("After changes to `src/a/`, run `make a`.", edits("x", file="/app/src/a/b.py")),
        ("After changing Go code, run `make lint`.", edits("x", file="/app/a.go")),
        ("Keep tests small.", runs("mise run test")),
        ("Keep tests small.", edits("x", file="/app/tests/test_a.py")),
        ("Nunca borres las pruebas.", runs("pytest -q")),
        ("Apague os testes antigos.", runs("npm run unit:test")),
        ("Prefer types in TypeScript.", edits("x", file="/app/a.tsx")),
        ("Files in `src/**/*.sql` are frozen.", edits("x", file="/app/src/a/b.sql")),
    ],
)
def test_occasion_comes_up(rule: str, message: Message) -> None:
    assert _marks(rule, message).came_up & CAME_UP


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (LINT, runs("git status")),
        ("Keep tests small.", runs("cat README.md")),
        ("Files in `src/*.sql` are frozen.", edits("x", file="/app/src/a/b.sql")),
        ("Be brief.", runs("git commit")),
        ("Never commit to `main`; use `git checkout -b` first.", runs("git commit")),
        ("Don't commit directly to main: use `git switch -c`.", runs("git commit")),
        ("Run `make lint` before you push to the release branch.", runs("git push")),
        ("Run `make lint` at the end of a task.", runs("ls")),
        ("Run `make lint` at the end of a task.", edits("x", file="/tmp/a.py")),
        ("Run `make docs` after changing settings of a page.", edits("x")),
        ("Run `make lint` before finishing a large change to `a/`.", edits("x")),
        ("When a change belongs to a commit of someone else, run `make it`.", runs("git commit")),
        ("When you open a PR that adds a page, run `make docs`.", runs("gh pr create")),
        ("Never update dependencies. Use `uv lock` for lockfiles.", runs("uv add x")),
        ("Use `uv lock` to refresh dependencies that are old.", runs("uv add x")),
        ("Use `uv run` for Python.", edits("x")),
        ("Install all dependencies with `make install`.", runs("uv add x")),
        ("Compare it with merged PRs: `gh pr list --all`.", runs("gh pr create")),
        ("Run the tests with `pytest -q`.", runs("pytest -q")),
        ("Run `scripts/all.sh` to run the tests.", runs("pytest -q")),
    ],
)
def test_other_occasion_does_not_come_up(rule: str, message: Message) -> None:
    assert _marks(rule, message).came_up == 0


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("Answer each review comment in its own thread.", "Please answer each review comment."),
        ("Use pnpm, not npm.", "use pnpm, not npm!"),
        ("Use `pnpm` for packages, never `npm` or `yarn`.", "Use pnpm here please, not npm"),
        ("Always use pnpm (never npm or yarn).", "no, use pnpm not npm"),
        (LINT, "Please run make lint first."),
        (LINT, "You forgot to run `make lint`, CI is red."),
        (LINT, "You didn't run make lint."),
        ("Run it with `uv run`.", "no, use `uv run`, not python"),
        ("Run a script with `uv run <script>`.", "no, use `uv run`, not python"),
        ("Don't use comments to narrate code.", "please don't add comments that restate it"),
        ("Commit messages must not contain emoji.", "stop putting emojis in the message"),
        ("Keep the PR description short.", "The PR body is too long again."),
        ("Tests run against Postgres; never mock the database.", "no, don't mock the database"),
        ("Never mock the database in tests.", "Don't mock the database."),
        ("Commit and push your changes.", "Did you commit and push?"),
        (SPECIFIC, "Always run specific tests rather than the entire test suite."),
        (SPECIFIC, "Run specific tests, not the entire test suite."),
        (SPECIFIC, "Please prefer specific tests over the entire suite"),
        (SPECIFIC, "Don't run the complete suite."),
        (
            "Run only the tests that matter, not all of them.",
            "only run the tests that matter for this, not all of them",
        ),
        (DIFF_FIRST, "show me the diff before committing, always"),
        (DIFF_FIRST, "Before you commit, show me the diff"),
        ("Use top-level imports, not local imports.", "prefer top-level imports over local ones"),
        ("Ask before deleting any file.", "ask me before you delete a file"),
        ("Run the tests before you commit.", "You did not run the tests!"),
        ("Run `make test` before every commit.", "And you did not run the tests."),
        ("Do not edit files below `api/migrations/`.", "We never edit migrations."),
        (TESTS_APART, "The test belongs in tests/, not next to the code."),
        (TESTS_APART, "Tests go in tests/, not in api/."),
        ("数据库测试不要使用模拟对象。", "数据库测试不要使用模拟对象"),
        ("データベースのモックは禁止。", "データベースのモックは禁止です"),
    ],
)
def test_alike_sentence_says_rule_again(rule: str, sentence: str) -> None:
    assert _marks(rule, you(sentence)).said & AGAIN


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("Never mock the database in tests.", "Mock the database."),
        ("Answer each review comment in its own thread.", "Can you review this comment?"),
        ("Deploy to staging first.", "I just deployed it to staging."),
        ("Fix all review comments.", "...more review comments"),
        ("Keep the PR description short.", "keep your answers short"),
        ("Never use comments.", "there are no comments in it"),
        ("Use rg, not grep.", "why did you use grep instead of rg?"),
        ("Never run `make lint`.", "You forgot to run `make lint`."),
        ("Make a plan before you implement.", "Implement the following plan:"),
        (LINT, "> run make lint before you commit"),
        (LINT, "You did not run the tests!"),
        ("Run the tests before you commit.", "I did not run the tests."),
        ("Do not edit files below `api/migrations/`.", "We never edit the API."),
        ("Do not edit files below `api/migrations/`.", "We edit the migrations."),
        ("Put fixtures in `tests/`.", "The test belongs in tests/, not next to the code."),
        (TESTS_APART, "Does the test go in tests/?"),
        (LINT, "make lint " * 40 + "before you commit"),
        (SPECIFIC, "run the entire test suite"),
        (SPECIFIC, "Run the entire test suite, not specific tests"),
        (SPECIFIC, "prefer running the entire test suite over specific tests"),
        (SPECIFIC, "run the specific test for the resolver"),
        ("Prefer small functions over long ones.", "Prefer long functions over small ones"),
        ("Run only the tests that matter, not all of them.", "run all the tests"),
        (DIFF_FIRST, "show me the diff"),
        (DIFF_FIRST, "commit the diff"),
        (DIFF_FIRST, "commit before you show me the diff"),
    ],
)
def test_other_sentence_does_not_say_it_again(rule: str, sentence: str) -> None:
    assert not _marks(rule, you(sentence)).said & AGAIN


def test_named_token_has_bit_in_said() -> None:
    assert _marks(LINT, you("make lint printed an error")).said == 0b10


def test_instruction_in_no_rule_is_remark() -> None:
    counts = rule_set([rule_of(LINT)]).count([you("Fine. Never touch the build folder.")])
    assert [(remark.number, remark.rules) for remark in counts.remarks] == [(1, ())]


def test_key_follows_from_words() -> None:
    assert rule_of("Run `make lint`!").key == rule_of("run make lint").key
    assert rule_of("Run it").key != rule_of("Run that").key


_MESSAGES = st.lists(
    st.sampled_from([runs("make lint"), runs("git commit"), edits("x"), you("Run make lint.")])
)


@pytest.mark.parametrize(
    "rule",
    [
        LINT,
        "Never commit without `make lint`.",
        "Ejecuta `make lint` antes de hacer commit.",
        "Execute `make lint` antes do commit.",
        "提交之前运行 `make lint`。",
        "コミットする前に `make lint` を実行する。",
    ],
)
@pytest.mark.parametrize(
    ("commands", "order"),
    [
        (["make lint", "git commit"], IN_TIME),
        (["git commit", "make lint", "git commit"], LATE),
        (["make lint && git commit"], IN_TIME),
        (["git commit && make lint"], LATE),
        (["git commit"], LATE),
    ],
)
def test_command_is_in_time_before_occasion(rule: str, commands: list[str], order: int) -> None:
    assert _marks(rule, *map(runs, commands)).came_up == CAME_UP | order


def test_rule_without_before_has_no_order() -> None:
    assert _marks("Run `make lint` after each commit.", runs("git commit")).came_up == CAME_UP


def test_refused_call_is_no_act() -> None:
    assert _marks(LINT, runs("make lint && git commit"), refuses()) == Marks()
    assert _marks(LINT, runs("make lint"), printed("ok"), refuses()).run == 1


NEW_FORM = "In the `cli` package: Use `NewForm()` instead of `huh.NewForm()`."


@pytest.mark.parametrize(
    ("rule", "file", "written"),
    [
        (NEW_FORM, "/app/cmd/cli/form.go", 0b010),
        (NEW_FORM, "/app/cmd/cli/strategy/form.go", 0),
        ("Never use `eval()` in `src/`.", "/app/src/a/b.py", 0),
        ("Use `NewForm()` in `*.go` files.", "/app/a.go", 1),
        ("Use `NewForm()` in `*.go` files.", "/app/a.py", 0),
        ("Avoid `NewForm()` in unit tests.", "/app/form_test.go", 1),
        ("Avoid `NewForm()` in unit tests.", "/app/form.go", 0),
        ("Never use `NewForm()` in test data.", "/app/form.go", 1),
    ],
)
def test_place_restricts_written(rule: str, file: str, written: int) -> None:
    assert _marks(rule, edits("cli = NewForm(cli())", file=file)).written == written


@pytest.mark.parametrize(
    "rule", [NEW_FORM, "Use go-git for `cli`.", "Use `cli_form` and `cli`.", "`cli` 包中不写注释。"]
)
def test_word_of_a_place_is_no_act(rule: str) -> None:
    assert _marks(rule, runs("go build ./cli"), edits("cli()")) == Marks()


ANY = "Never use `any`."


@pytest.mark.parametrize(
    "text",
    [
        "x: any = 1",
        "f(a: any, b)",
        "x = any(y)",
        "y.any()",
        "any.of(x)",
        "import any",
        'import {x} from "any"',
        "a = b as any",
        "any x = 1",
    ],
)
def test_plain_word_in_code_is_written(text: str) -> None:
    assert _marks(ANY, edits(text, file="/app/a.ts")).written == 1


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("// any of them, any(x)", "a.ts"),
        ("x = 1  # without any call", "a.py"),
        ('print("x: any")', "a.py"),
        ("Use any(x) here.", "a.md"),
        ("/* import any */", "a.ts"),
        ("not any more", "a.go"),
        ('"""\nany x\n"""', "a.py"),
    ],
)
def test_plain_word_in_prose_is_not_written(text: str, file: str) -> None:
    assert _marks(ANY, edits(text, file=file)).written == 0


def test_plain_word_in_command_is_run() -> None:
    assert _marks("Never use `npm`.", runs("npm ci")).run == 1


@pytest.mark.parametrize(
    ("rule", "file", "came_up"),
    [
        ("Run it when changing integration test code.", "/app/integration_test/a.go", CAME_UP),
        ("Run it when changing integration test code.", "/app/a_test.go", 0),
        ("Las pruebas de integración son lentas.", "/app/tests/integration/a.py", CAME_UP),
        ("Os testes de integração são lentos.", "/app/tests/a.py", 0),
        ("集成测试很慢。", "/app/tests/integration/a.py", CAME_UP),
        ("統合テストは遅い。", "/app/tests/a.py", 0),
        ("Keep e2e tests short.", "/app/e2e/a.spec.ts", CAME_UP),
        ("Keep smoke tests short.", "/app/tests/smoke/a.py", 0),
    ],
)
def test_kind_of_tests_is_in_the_path(rule: str, file: str, came_up: int) -> None:
    assert _marks(rule, runs("make test"), edits("x", file=file)).came_up == came_up


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        ("Run `make a` if you change `docs/`.", "`docs/`"),
        ("Write Go code or shell scripts without globals.", "Go or shell files"),
        ("Keep integration tests and e2e tests short.", "integration or e2e tests"),
        ("Write Python, Ruby and SQL without globals.", "the files that the rule names"),
    ],
)
def test_occasion_names_its_files(rule: str, files: str) -> None:
    (counting,) = rule_set([rule_of(rule)]).rules.values()
    assert counting.occasion is not None
    assert counting.occasion.label == f"sessions that changed {files}"


@given(_MESSAGES, _MESSAGES)
def test_cut_does_not_change_marks(first: list[Message], second: list[Message]) -> None:
    rules = rule_set(map(rule_of, (LINT, CONTAINS)))
    whole = rules.count([*first, *second])
    joined = PartCounts()
    joined.join(rules.count(first))
    joined.join(rules.count(second))
    assert (joined.marks, joined.steps) == (whole.marks, whole.steps)


def test_repeated_mention_is_marked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[int] = []
    monkeypatch.setattr(PartCounts, "add", lambda _, key, __: marked.append(key))
    rules = rule_set(map(rule_of, (LINT, CONTAINS)))
    rules.count([runs("cat strings.txt lint.txt")] * 20)
    assert sorted(marked) == sorted(rules.rules)


@given(st.text(st.characters(max_codepoint=0x2FF) | st.sampled_from("a_0 \x1c—"), max_size=40))
def test_words_of_a_call_are_its_word_characters(text: str) -> None:
    assert _words_in(text) == set(re.findall(r"\w+", text))


def test_saved_rules_are_restored() -> None:
    rules = rule_set(map(rule_of, (LINT, CONTAINS, "Be brief.", "不要使用 `npm`。")))
    saved = json.loads(json.dumps(list(rules.rules.values())))
    assert restored(saved).rules == rules.rules


FORMAT = "Run `tools/format.js` before you commit."


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        *(
            (FORMAT, command)
            for command in (
                "tools/format.js",
                "git add -A && ./tools/format.js --fix && git commit",
                "/home/me/app/tools/format.js",
                "node --import tsx tools/format.js",
                "/usr/bin/node ./tools/format.js 2>&1 | tail",
                "deno run -A tools/format.js",
                "docker compose exec app tools/format.js",
                "bash -lc './tools/format.js'",
                "cd /home/me/app/tools && ./format.js",
            )
        ),
        ("Run `node tools/format.js` before you commit.", "./tools/format.js"),
        ("Make sure `./tools/format.js` is run.", "node tools/format.js"),
        ("Run `tools/lint.js --js`.", "./tools/lint.js --fix --js"),
        ("Run `bin/lint` and `scripts/check`.", "bin/lint"),
        ("Run `python manage.py migrate`.", "./manage.py migrate"),
        ("Run `./check.sh`.", "bash scripts/check.sh"),
        ("Run `bin/rspec plugins/<area>`.", "bin/rspec plugins/a"),
        ("Never run `scripts/deploy.sh`.", "sh scripts/deploy.sh"),
    ],
)
def test_script_is_run_in_any_form(rule: str, command: str) -> None:
    assert _marks(rule, runs(command)).run == 1


def test_all_scripts_are_needed() -> None:
    rule = rule_of("Run `./a.sh` and `./b.sh` before you commit.")
    assert rule_set([rule]).rules[rule.key].needs_all


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        *(
            (FORMAT, runs(command))
            for command in (
                "cat tools/format.js",
                "rg format tools/format.js",
                "git add \\\n  tools/format.js",
                "git commit -m 'Run tools/format.js; tools/format.js'",
                "node --check tools/format.js",
                "chmod +x tools/format.js",
                "deno fmt tools/format.js",
                "tools/format.json",
                "cd tools && cat format.js",
            )
        ),
        (FORMAT, edits("tools/format.js", file="/app/tools/format.js")),
        (FORMAT, edits("def a():\n    import os\n\n\ntools/format.js", file="/app/a.py")),
        ("Run `tools/lint.js --js`.", runs("tools/lint.js && x --js")),
        ("Never run `scripts/deploy.sh`.", runs("cat scripts/deploy.sh")),
        ("Run scripts/check.sh before each release.", runs("cat scripts/check.sh")),
    ],
)
def test_named_script_is_not_run(rule: str, message: Message) -> None:
    marks = _marks(rule, message)
    assert not marks.run | marks.written


@pytest.mark.parametrize(
    "rule",
    [
        "Never force push.",
        "No `force push`.",
        "NEVER force push, NEVER commit secrets.",
        "When pushing updates to the PR, make sure to never force-push. Add commits until it is "
        "merged.",
        "Never amend published commits; never force push (`git push -f`).",
    ],
)
@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("git push --force", 1),
        ("cd app && git -C x push -uf origin a", 1),
        ("git push origin +main", 1),
        ("git push --force-with-lease=a:b origin a", 1),
        ("git push -u origin feature-f", 0),
        ("git push --follow-tags && rm -f x", 0),
        ("rg -n 'git push --force'", 0),
        ("notify 'git push --force is forbidden'", 0),
        ("git pull --force", 0),
    ],
)
def test_force_of_a_push_is_found(rule: str, command: str, run: int) -> None:
    assert _marks(rule, runs(command)).run == run


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Use `pnpm`, not `npm`.", "cd app && npm install"),
        ("Use `bun`, not `node`.", "CI=1 node server.js"),
        ("Never edit files with `sed -i` or `python3`.", "python3 - fix.py"),
        ("Never use `git add .`.", "git add . && git commit"),
        ("Never use `git add .`.", "git commit -m 'Add it' && git add ."),
        ("Use `uv`, not `pip`, for packages.", "pip install x"),
        ("Use rg, not grep", "grep -rn x src"),
        ("Use rg, not grep", "test -d src || grep -rn x src | head"),
        ("Use rg, not grep", "find . -name '*.ts' | xargs grep x"),
        ("Install with uv, never pip.", "pip install x"),
        ("Use `uv` and never `pip` to install.", "pip install x"),
        ("Never use `print(` for logging.", "python -c 'print(1)'"),
        ("Never use `--no-verify`.", "git commit -m 'It'\\''s fixed' --no-verify"),
        ("Never use `pip install`.", "echo y | pip install x"),
        ("Never use `pip install`.", "echo $(pip install x)"),
        ("Never use `pip install`.", "grep -q x setup.py && pip install x"),
    ],
)
def test_forbidden_command_is_run(rule: str, command: str) -> None:
    assert _marks(rule, runs(command)).run > 0


_NAMED = "Use `dispatch.json` instead of `pull_request_target` workflows."


@pytest.mark.parametrize(
    "command",
    [
        "rg -n pull_request_target .github",
        "cd a && rg -l pull_request_target | head",
        "git -C a grep -n pull_request_target",
        "git log -S pull_request_target",
        "cat docs/pull_request_target.md",
        "sed -n 1,9p pull_request_target.md",
        "find . -name pull_request_target.md | xargs grep pull_request_target",
        "gh pr list --search pull_request_target",
        "cargo nextest run -E 'test(pull_request_target)'",
        "pytest -k pull_request_target",
    ],
)
def test_named_argument_is_not_run(command: str) -> None:
    assert not _marks(_NAMED, runs(command)).run


@pytest.mark.parametrize(
    ("file", "text", "is_written"),
    [
        ("/a/.github/workflows/a.yml", "on:\n  pull_request_target:\n", True),
        ("/a/ci.yaml", "paths: [src/*]\non: pull_request_target\nfiles: a/*/b", True),
        ("/a/ci.yml", "on: push # pull_request_target\n", False),
        ("/a/ci.yml", "name: don't\n# it isn't pull_request_target\n", False),
        ("/a/Cargo.toml", 'a = "x # y"; pull_request_target = "1"', True),
        ("/a/Cargo.toml", "# pull_request_target\n", False),
        ("/a/a.json", '{"pull_request_target": "https://a.b"}', True),
        ("/a/a.jsonc", '{} // "pull_request_target"', False),
        ("/a/Dockerfile", "ENV pull_request_target=1", True),
        ("/a/Makefile", "a: # pull_request_target\n", False),
        ("/a/.env.local", "pull_request_target=//a", True),
        ("/a/a.ini", "; pull_request_target\n", False),
        ("/a/a.ini", "pull_request_target = 1\n", True),
        ("/a/a.md", "pull_request_target", False),
    ],
)
def test_configuration_is_code(file: str, text: str, is_written: bool) -> None:
    assert (_marks(_NAMED, edits(text, file=file)).written > 0) is is_written


@pytest.mark.parametrize(
    "command",
    [
        "cd a && pull_request_target --now",
        "rg pull_request_target; pull_request_target",
        "env pull_request_target=1 make",
        "docker run -e pull_request_target=1 a",
    ],
)
def test_name_is_run_as_command(command: str) -> None:
    assert _marks(_NAMED, runs(command)).run


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("Use `uv`, not `pip`.", runs("uv pip install x")),
        ("Never git push.", runs("git commit")),
        ("Use rg, not grep", runs("rg x src")),
        ("Never run bare `pytest`.", edits("def pytest_addoption(parser):", file="/a.py")),
        ("Search with `rg`, not `grep`.", runs("pnpm test 2>&1 | grep -E 'passed|failed'")),
        ("Never use `sed` to edit files.", runs("git log --oneline | sed -n 1,5p")),
        ("Use `bun`, not `npm` or `node`.", edits('import a from "node:path"', file="/a.ts")),
        ("Never use `git add .`.", runs("git add .github/ci.yml")),
        ("Never commit to `main`.", runs("git checkout main && git log main..HEAD")),
        ("Never store `privateKey` in `localStorage`.", edits("localStorage.email")),
        ("Never store `privateKey` in `localStorage`.", edits("privateKey = made()")),
        ("Never use `.buffer` on a `Uint8Array`.", edits("new Uint8Array(2)")),
        ("Never use `unwrap()` outside of tests.", edits("x.unwrap()")),
        ("Never use `--amend` on pushed commits.", runs("git commit --amend")),
        ("Never amend a commit that was pushed.", runs("git commit --amend")),
        ("Never run `git push` without asking.", runs("git push")),
        ("Never use `console.log`.", edits("// console.log is not used", file="/a.ts")),
        ("Never use `console.log`.", edits("console.log is not used", file="/a.md")),
        ("Avoid `as any`.", runs("git commit -am 'Remove `as any` casts' && git push")),
        ("Avoid `as any`.", runs("gh api x --raw-field body='It isn'\\''t `as any`.' | tail")),
        ("Avoid `as any`.", runs("# 5: as any\ngh api x")),
        ("Do not `ssh` into production to edit files.", runs("ssh host journalctl")),
        ("Do not use `node` or `python3` to parse JSON.", runs("node a.js; python3 a.py")),
        ("Do not use `useEffect` to fetch data.", edits("useEffect(draw)", file="/a.tsx")),
        ("Do not use `curl` for health checks.", runs("curl example.org")),
        ("Don't install without asking: no `npm install`.", runs("npm install x")),
        ("Read with `psql`, never `DELETE`.", runs("echo DELETE")),
        ("Avoid `export`.", runs("export A=1")),
        ("Avoid `checkout`.", edits("uses: actions/checkout", file="/a.yml")),
        ("Never run `npm install`.", edits("run: npm install", file="/a.yml")),
        ("Read with `psql`, never `DELETE`.", edits('["GET", "DELETE"]', file="/a.json")),
        ("Never run `git push --force`.", runs('git commit -m "Never git push --force" -v')),
        ("Never use `pip install`.", runs('rg -n "pip install" docs')),
        ("Never use `pip install`.", runs("echo 'pip install x' > notes.txt")),
        ("Never use `git commit --amend`.", runs("git grep -n -- 'git commit --amend'")),
        ("Never use `--no-verify`.", runs("git log --grep=--no-verify")),
        *(
            (rule, runs("git push --force-with-lease"))
            for rule in (
                "Never force push to `main`.",
                "Never force push shared branches.",
                "Never force push, except to your own branch.",
                "Never force push without asking.",
                "Never force push or commit to main.",
                "On main: never force push.",
                "For reviews: never force push.",
                "When you review, never force push.",
                "When `main` is checked out, never force push.",
                "Force push only your own branch.",
                "Never force push; use `--force-with-lease`.",
            )
        ),
        ("Do not run `a/b.sh x` in production.", runs("a/b.sh x")),
        ("Never run `npm run test`.", runs("npm run test:unit")),
        ("Never run `bun <file>`.", runs("bun test")),
        ("Use `cargo update --precise`, never `cargo update`.", runs("cargo update --precise x")),
        ("Never edit `package.json`.", runs("git add package.json")),
        ("Never edit `package.json`.", edits("see package.json", file="/app/a.py")),
        ("Never import from `src/a.ts`.", edits("x", file="/app/src/a.ts")),
        ("Internal `a_*` crates use `path = 1`, not `b.c`.", edits("b.c = 1")),
        ("Never pass `privateKey` to `localStorage`.", edits("privateKey = made()")),
        ("Avoid `[allow()]`.", edits("// [allow(dead_code)]", file="/app/a.rs")),
    ],
)
def test_harmless_call_breaks_no_rule(rule: str, message: Message) -> None:
    marks = _marks(rule, message)
    negated = rule_set([rule_of(rule)]).rules[rule_of(rule).key].negated
    assert not (marks.run | marks.written) & negated


SNAPSHOTS = "Never edit snapshot files manually."
PREFIX = "Don't prefix tests with `test_`."
IMPORTS = "Imports go to the top of the file, never locally in functions."


@pytest.mark.parametrize(
    ("rule", "file", "text"),
    [
        (SNAPSHOTS, "/app/a/E501.py.snap", "x"),
        ("Don't touch lockfiles directly.", "/app/uv.lock", "x"),
        ("Do not manually modify `docs/api/**`.", "/app/docs/api/a.md", "x"),
        ("Never edit `package.json`.", "/app/package.json", "x"),
        ("Do not edit files in `generated/`.", "/app/generated/a.py", "x"),
        (PREFIX, "/app/a.rs", "#[test]\nfn test_sorted() {"),
        (IMPORTS, "/app/a.rs", "pub(crate) fn a() {\n    x();\n\n    use std::b;\n}"),
        (IMPORTS, "/app/a.py", "def a():\n    if b:\n        from c import d"),
        ("Prefer `#[expect()]` over `[allow()]`.", "/app/a.rs", "#[allow(dead_code)]"),
    ],
)
def test_form_of_code_is_written(rule: str, file: str, text: str) -> None:
    marks = _marks(rule, edits(text, file=file))
    assert marks.written & rule_set([rule_of(rule)]).rules[rule_of(rule).key].negated


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (SNAPSHOTS, edits("see E501.snap", file="/app/a.rs")),
        (SNAPSHOTS, runs("cat a/E501.py.snap")),
        (PREFIX, edits("x = test_sorted()", file="/app/a.rs")),
        (PREFIX, edits("fn test_a() { 2 }", "fn test_a() { 1 }", file="/app/a.rs")),
        (IMPORTS, edits("use std::a;\nfn b() {\n}\nmod c {\n    use super::*;\n}", file="a.rs")),
        (IMPORTS, edits("    use std::a;", file="/app/a.rs")),
        (IMPORTS, edits("function a() {\n  import b\n}", file="/app/a.js")),
    ],
)
def test_other_code_has_no_form(rule: str, message: Message) -> None:
    assert _marks(rule, message) == Marks()


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("uv run scripts/a.py", 1),
        ("uv run --with x a.py --y", 1),
        ("uv run --only-group dev --locked prek run --files a.py", 0),
        ("uv run pytest", 0),
    ],
)
def test_program_with_a_file_is_run(command: str, run: int) -> None:
    assert _marks("Run a script with `uv run <script>`.", runs(command)).run == run


@pytest.mark.parametrize(
    ("message", "is_mentioned"),
    [
        (edits("let a = b"), True),
        (edits("a", "let a = b"), True),
        (calls("Read", file_path="/app/let/a.rs"), True),
        (calls("Skill", skill="let"), True),
        (edits("enum A { }"), True),
        (edits("letter = 1"), False),
        (says("let"), False),
    ],
)
def test_word_of_a_rule_is_mentioned(message: Message, *, is_mentioned: bool) -> None:
    rule = rule_of("Prefer let chains (`if let`) to an enum.")
    marks = rule_set([rule]).count([message]).marks.get(rule.key, Marks())
    assert marks == Marks(came_up=MENTIONED * is_mentioned)


@pytest.mark.parametrize(
    "command", ["pnpm test", "pnpm run test", "pnpm --filter web test", "pnpm -r --stream test"]
)
def test_command_may_have_options(command: str) -> None:
    assert _marks("Run `pnpm test` before you push.", runs(command)).run == 1


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("go test -v -run 'Test_X' ./...", 1),
        ("go -C app test -count=1 ./...", 1),
        ("go test && ls ./...", 0),
        ("go test cmd ./...", 0),
    ],
)
def test_options_follow_each_word(command: str, run: int) -> None:
    assert _marks("Run `go test ./...` before you push.", runs(command)).run == run


@pytest.mark.parametrize("asked", ["`make lint` and `make types`", "`make lint && make types`"])
@pytest.mark.parametrize(
    ("commands", "order"),
    [(["make lint"], 0), (["make lint", "make types"], IN_TIME), (["make types"], 0)],
)
def test_all_commands_are_needed_in_time(asked: str, commands: list[str], order: int) -> None:
    rule = f"Run {asked} before you commit."
    assert _marks(rule, *map(runs, commands)).came_up == order


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("Ask before you commit.", "git config commit.gpgsign false"),
        ("Ask before you commit.", "git log --grep commit"),
        ("Ask before you push.", "git stash push"),
        ("Ask before you publish.", "git tag -l"),
        ("Write a plan with `gh pr create` for each pull request.", "gh pr create"),
    ],
)
def test_command_is_no_occasion(rule: str, command: str) -> None:
    assert not _marks(rule, runs(command)).came_up


@pytest.mark.parametrize(
    ("heading", "is_case"),
    [
        ("When Modifying Strategies", True),
        ("Before a release", True),
        ("发布时", True),
        ("Whenever", True),
        ("Rules", False),
        ("Iffy tests", False),
        ("How we release when it rains", False),
    ],
)
def test_heading_may_name_a_case(heading: str, is_case: bool) -> None:
    assert names_case(heading) is is_case


@pytest.mark.parametrize(
    ("rule", "command", "is_run"),
    [
        ("Use `cargo update --precise`.", "cargo update serde --precise 1.0", True),
        ("Use `cargo update --precise`.", "cargo update -p serde --precise=1.0", True),
        ("Use `cargo update --precise`.", "cargo update && a --precise", False),
        ("Use `cargo test --doc`.", "cargo test a -- --doc", False),
        ("Never run a bare `cargo update`.", "cargo update", True),
        ("Never run a bare `cargo update`.", "cargo update 2>&1 && cargo check", True),
        ("Never run a bare `cargo update`.", "cargo update a --precise 1.0", False),
        ("Never run a bare `cargo update`.", "cargo update -p a", False),
    ],
)
def test_options_follow_arguments(rule: str, command: str, is_run: bool) -> None:
    assert (_marks(rule, runs(command)).run > 0) is is_run


@pytest.mark.parametrize(
    ("rule", "command", "bits"),
    [
        ("Never run `cargo update` without `--precise`.", "cargo update", 1),
        ("Never run `cargo update` without `--precise`.", "cargo update a --precise 1.0", 2),
        ("Never run `cargo update` without `--precise`.", "rustup update", 0),
        ("Never run `pytest` without the `-x` flag.", "pytest -q a", 1),
        ("Never run `pytest` without the `-x` flag.", "pytest -qx a", 2),
        ("Don't run `npm install` without `--save-exact`!", "npm i -E a", 2),
        ("Never run `a b` without `-c`: slow", "a b; a d -c", 1),
        ("Never run `a b` without `-c`: slow", "a -c d b", 2),
        ("Never run `a b` without `-c` or `-d`.", "a b -d", 0),
        ("On `main`, never run `a b` without `-c`, ever", "rg 'a b'", 0),
    ],
)
def test_option_makes_command_acceptable(rule: str, command: str, bits: int) -> None:
    assert _marks(rule, runs(command)).run == bits


_LINT = "Never suppress the `no-any` lint; fix it."
_EXPECT = "Prefer `#[expect()]` over `[allow()]`."


@pytest.mark.parametrize(
    ("rule", "text", "file", "is_written"),
    [
        (_LINT, "a: b # zizmor: ignore[no-any]", "/a/ci.yml", True),
        (_LINT, "// eslint-disable-next-line @ts/no-any", "/a/a.ts", True),
        ("Never use `eslint-disable`.", "// eslint-disable-next-line no-x", "/a/a.ts", True),
        ("Never use `eslint-disable`.", "eslint-disable-plugin", "/a/a.ts", False),
        (_LINT, "rules: { 'no-any': 'off' }", "/a/eslint.config.js", True),
        (_LINT, "rules: { 'no-any': 'error' }", "/a/eslint.config.js", False),
        (_LINT, "// disable; see no-any", "/a/a.ts", False),
        (_LINT, "zizmor: ignore[no-any]", "/a/a.md", False),
        (_LINT, "expect(rule).toBe('no-any')", "/a/a.ts", False),
        ("Never suppress the `no-any` lint in tests.", "# ignore[no-any]", "/a/a.py", False),
        (_EXPECT, "#[allow(dead_code)]", "/a/a.rs", True),
        (_EXPECT, "fn allow(a: A) {}", "/a/a.rs", False),
        ("Prefer `a_b` over `c_d` if it must be disabled", "c_d()", "/a/a.rs", False),
    ],
)
def test_suppressed_check_is_written(rule: str, text: str, file: str, is_written: bool) -> None:
    assert (_marks(rule, edits(text, file=file)).written > 0) is is_written


def test_general_purpose_decides_nothing() -> None:
    assert not _marks("Never run benchmarks with `cargo run`", runs("cargo run -- a")).run


@pytest.mark.parametrize(
    ("rule", "came_up"), [("Run `make lint` before you push.", True), ("Run `make lint`.", False)]
)
def test_own_occasion_comes_before_that_of_a_heading(rule: str, came_up: bool) -> None:
    made = rule_of(rule, titles=("Before you commit",))
    marks = rule_set([made]).count([runs("git push")]).marks.get(made.key, Marks())
    assert (marks.came_up & CAME_UP > 0) is came_up
