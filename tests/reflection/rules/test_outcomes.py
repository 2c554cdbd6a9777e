# ruff: noqa: E501 - what tools print is kept on one line, as it is compared.
"""How results are read: counted summaries first, then lines, and mechanics never as failures."""

from __future__ import annotations

import pytest

from reflector.reflection.rules.outcomes import read_result
from reflector.reflection.rules.steps import read_call
from reflector.transcripts.message import ToolCall


def ending(command: str, text: str, *, is_error: bool = False) -> str:
    step = read_call(ToolCall("c", "Bash", {"command": command}))
    found = read_result(step, text, is_error).ending
    return "passes" if found == "ran" else found


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("pytest -q", "....\n===== 4 passed in 0.10s =====", "passes"),
        ("pytest -q", "..F\n===== 1 failed, 2 passed in 0.10s =====", "fails"),
        ("go test ./... | tail", "ok  \tapp/a\t0.1s\nFAIL\tapp/b\t0.2s\nFAIL", "fails"),
        ("bun test", "error: item 3 failed: 12\n 40 pass\n 0 fail", "passes"),
        ("npm test", "Tests:       1 failed, 9 passed, 10 total", "fails"),
        ("npm test", "something without a summary", "silent"),
        ("npx tsc --noEmit", "", "passes"),
        ("npx tsc --noEmit | head", "src/a.ts(1,2): error TS2304: Cannot find name 'x'.", "fails"),
        ("npm run lint", "✖ 3 problems (0 errors, 3 warnings)", "passes"),
        ("ssh web1 'systemctl restart app'", "app.service: Failed with result 'exit-code'.", "fails"),
        ("git push", "To example.org:a/b.git\n   1a2b3c4..5d6e7f8  main -> main", "passes"),
        ("git push", " ! [rejected]        main -> main (fetch first)", "fails"),
        ("npm run bulid", 'npm error Missing script: "bulid"', "fails"),
        ("cat notes.txt", "Traceback (most recent call last)", "silent"),
    ],
)
def test_an_unflagged_result_is_read_by_its_text(command: str, text: str, expected: str) -> None:
    assert ending(command, text) == expected


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("pytest", "Exit code 1\nE   AssertionError\n=== 1 failed in 0.1s ===", "fails"),
        ("frobnicate", "Exit code 127\nbash: frobnicate: command not found", "fails"),
        ("grep x a.txt", "Exit code 1", "mechanics"),
        ("cat b.txt", "Exit code 1\ncat: b.txt: No such file or directory", "mechanics"),
        ("npm install", "Exit code 1\nnpm error code ERESOLVE", "fails"),
    ],
)
def test_a_flagged_result_is_a_failure_only_if_it_is_not_mechanics(command: str, text: str, expected: str) -> None:
    assert ending(command, text, is_error=True) == expected


@pytest.mark.parametrize(
    "text",
    [
        "<tool_use_error>File has not been read yet. Read it first before writing to it.</tool_use_error>",
        "<tool_use_error>Found 2 matches of the string to replace, but replace_all is false.</tool_use_error>",
        "<tool_use_error>Sibling tool call errored</tool_use_error>",
    ],
)
def test_slips_of_the_edit_tool_are_mechanics(text: str) -> None:
    step = read_call(ToolCall("c", "Edit", {"file_path": "a.py"}))
    assert read_result(step, text, True).ending == "mechanics"


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        ("flutter analyze", "12 issues found. (ran in 3.1s)", "fails"),
        ("flutter analyze", "No issues found! (ran in 3.1s)", "passes"),
        ("gh issue list", "0 issues match your search", "silent"),
        ("tracker list --open", "Showing 0 issues", "ran"),
    ],
)
def test_issues_are_counted_where_a_checker_counts_them(command: str, text: str, expected: str) -> None:
    step = read_call(ToolCall("c", "Bash", {"command": command}))
    assert read_result(step, text, False).ending == expected


@pytest.mark.parametrize(
    ("command", "text", "is_error", "expected"),
    [
        (
            "vitest run",
            " RUN  v1.2.0\n\n ✓ src/a.test.ts (3)\n ❯ src/b.test.ts (2)\n   × adds\n\n Test Files  1 failed | 1 passed (2)\n      Tests  1 failed | 4 passed (5)",
            False,
            "fails",
        ),
        ("npx vitest run", " Test Files  2 passed (2)\n      Tests  5 passed (5)\n   Duration  1.2s", False, "passes"),
        (
            "npx jest",
            "PASS src/a.test.js\nFAIL src/b.test.js\n  ● adds\n\nTests:       1 failed, 4 passed, 5 total",
            False,
            "fails",
        ),
        (
            "npx jest",
            "console.error\n  Error: something logged\nTest Suites: 2 passed, 2 total\nTests:       5 passed, 5 total",
            False,
            "passes",
        ),
        ("npx mocha", "  5 passing (20ms)\n  1 failing\n\n  1) adds", False, "fails"),
        ("npx mocha", "  5 passing (20ms)\n  1 pending", False, "passes"),
        ("python -m unittest", "......\n----\nRan 6 tests in 0.01s\n\nOK", False, "passes"),
        ("python -m unittest", "F.\nRan 2 tests in 0.01s\n\nFAILED (failures=1)", True, "fails"),
        ("pytest", "collected 0 items\n\nno tests ran in 0.01s", False, "fails"),
        ("pytest -q | tail -3", "3 passed, 1 warning in 0.12s", False, "passes"),
        ("pytest -q", "1 error in 0.12s", False, "fails"),
        (
            "pytest -q 2>&1|tail",
            "=========== short test summary info ======\nFAILED tests/a.py::test_b - assert 1 == 2\n2 failed, 10 passed in 1.2s",
            False,
            "fails",
        ),
        (
            "cargo test",
            "running 3 tests\ntest a ... ok\n\ntest result: ok. 3 passed; 0 failed; 0 ignored; 0 measured",
            False,
            "passes",
        ),
        ("cargo test", "error[E0382]: borrow of moved value\nerror: could not compile `x`", True, "fails"),
        (
            "cargo build",
            "   Compiling x v0.1.0\nwarning: unused variable\n    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.5s",
            False,
            "passes",
        ),
        (
            "cargo clippy",
            "warning: this could be simplified\n    Finished dev [unoptimized] target(s)",
            False,
            "passes",
        ),
        ("go test ./...", "--- FAIL: TestX (0.00s)\n    x_test.go:10: got 1\nFAIL\nFAIL\tm/x\t0.1s", True, "fails"),
        ("go build ./...", "", False, "passes"),
        ("go build ./...", "# m/x\n./x.go:3:5: undefined: foo", True, "fails"),
        ("go vet ./...", "", False, "passes"),
        ("bundle exec rspec", "Finished in 0.1 seconds\n12 examples, 0 failures", False, "passes"),
        ("bundle exec rspec", "12 examples, 1 failure, 2 pending", False, "fails"),
        ("bin/rails test", "12 runs, 30 assertions, 0 failures, 0 errors, 0 skips", False, "passes"),
        ("bin/rails test", "12 runs, 30 assertions, 1 failures, 0 errors, 0 skips", False, "fails"),
        ("./gradlew test", "> Task :test\n\nBUILD SUCCESSFUL in 3s\n4 actionable tasks", False, "passes"),
        (
            "./gradlew test",
            "> Task :test FAILED\n\n3 tests completed, 1 failed\nFAILURE: Build failed with an exception.",
            True,
            "fails",
        ),
        (
            "mvn -q verify",
            "[ERROR] Tests run: 4, Failures: 1, Errors: 0, Skipped: 0\n[INFO] BUILD FAILURE",
            False,
            "fails",
        ),
        ("mvn test", "[INFO] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0\n[INFO] BUILD SUCCESS", False, "passes"),
        ("dotnet test", "Passed!  - Failed:     0, Passed:    21, Skipped:     0, Total:    21", False, "passes"),
        ("dotnet build", "Build succeeded.\n    0 Warning(s)\n    0 Error(s)", False, "passes"),
        (
            "dotnet build",
            "Program.cs(3,1): error CS0103: The name x does not exist\n\nBuild FAILED.\n    0 Warning(s)\n    1 Error(s)",
            True,
            "fails",
        ),
        ("vendor/bin/phpunit", "OK (12 tests, 30 assertions)", False, "passes"),
        ("vendor/bin/phpunit", "FAILURES!\nTests: 12, Assertions: 30, Failures: 1.", False, "fails"),
        ("php artisan test", "  Tests:    2 failed, 10 passed (30 assertions)", False, "fails"),
        ("php artisan test", "  Tests:    12 passed (30 assertions)\n  Duration: 0.5s", False, "passes"),
        ("ctest", "100% tests passed, 0 tests failed out of 12", False, "passes"),
        (
            "swift test",
            "Test Suite 'All tests' passed at 2024\n\t Executed 12 tests, with 0 failures (0 unexpected) in 0.1 seconds",
            False,
            "passes",
        ),
        ("xcodebuild test -scheme X", "** TEST FAILED **", False, "fails"),
        ("mix test", "Finished in 0.1 seconds\n2 doctests, 12 tests, 0 failures", False, "passes"),
        ("mix test", "12 tests, 2 failures", False, "fails"),
        ("flutter test", "00:05 +12: All tests passed!", False, "passes"),
        ("flutter test", "00:05 +11 -1: Some tests failed.", False, "fails"),
        ("npx playwright test", "  2 passed (5.1s)", False, "passes"),
        ("npx playwright test", "  1 failed\n    [chromium] › a.spec.ts\n  2 passed (5.1s)", False, "fails"),
        ("npx cypress run", "  ✔  All specs passed!   00:05   3   3", False, "passes"),
        ("npx cypress run", "  ✖  1 of 1 failed (100%)   00:05   3   2   1", False, "fails"),
        ("node --test", "# tests 3\n# pass 3\n# fail 0", False, "passes"),
        ("node --test", "ℹ tests 3\nℹ pass 2\nℹ fail 1", False, "fails"),
        ("deno test", "ok | 3 passed | 0 failed (10ms)", False, "passes"),
        ("deno test", "FAILED | 2 passed | 1 failed (10ms)", True, "fails"),
        ("prove -v", "not ok 2 - x\nResult: FAIL", False, "fails"),
        ("ruff check .", "All checks passed!", False, "passes"),
        ("ruff check .", "a.py:1:1: F401 `os` imported but unused\nFound 1 error.\n[*] 1 fixable", True, "fails"),
        ("mypy .", "Success: no issues found in 12 source files", False, "passes"),
        ("mypy . | tail -1", "Found 3 errors in 2 files (checked 12 source files)", False, "fails"),
        ('npx tsc --noEmit; echo "exit: $?"', "exit: 0", False, "passes"),
        ('npx tsc --noEmit; echo "exit: $?"', "exit: 2", False, "fails"),
        ("npx tsc --noEmit 2>&1 | head -20", "src/a.ts:3:1 - error TS2304: Cannot find name 'x'.", False, "fails"),
        (
            "npx eslint src",
            "\n/app/a.js\n  1:1  error  no-unused-vars\n\n✖ 1 problem (1 error, 0 warnings)",
            True,
            "fails",
        ),
        ("golangci-lint run", "0 issues.", False, "passes"),
        (
            "npm run build",
            "> vite build\n\n✓ 34 modules transformed.\ndist/index.html\n✓ built in 1.2s",
            False,
            "passes",
        ),
        (
            "npm run build",
            "> next build\n ✓ Compiled successfully\n   Linting and checking validity of types ...\nFailed to compile.\n\n./a.tsx:1:1\nType error: x",
            True,
            "fails",
        ),
        ("npm run build 2>&1 | tail -20", "Failed to compile.\n\n./a.tsx:1:1\nType error: x", False, "fails"),
        ("npm run build", "   ▲ Next.js 14\n ✓ Compiled successfully\nRoute (app)   Size\n○ /  5 kB", False, "passes"),
        ("make", "cc -c a.c\na.c:1:1: error: unknown type\nmake: *** [a.o] Error 1", True, "fails"),
        ("make", "gcc -o a a.c", False, "passes"),
        ("docker build .", "#8 exporting to image\n#8 naming to docker.io/library/x done", False, "passes"),
        (
            "docker compose build",
            'failed to solve: process "/bin/sh -c npm ci" did not complete successfully: exit code: 1',
            True,
            "fails",
        ),
        ("npm ci", "added 200 packages in 3s\n\n2 vulnerabilities", False, "passes"),
        (
            "npm install x",
            "npm error code ERESOLVE\nnpm error ERESOLVE unable to resolve dependency tree",
            True,
            "fails",
        ),
        ("python app.py", 'Traceback (most recent call last):\n  File "app.py"\nValueError: x', True, "fails"),
        ("python app.py 2>&1 | tail -5", "ValueError: bad", False, "fails"),
        ("node a.js", "Error: Cannot find module ./b", True, "fails"),
        ("curl -s localhost:3000", "<html>ok</html>", False, "passes"),
        ("curl -s localhost:3000/x", '{"status":200}', False, "passes"),
        ("curl -sS localhost:1", "curl: (7) Failed to connect to localhost port 1: Connection refused", True, "fails"),
        ("git push", "Everything up-to-date", False, "passes"),
        (
            "git push",
            "remote: error: GH006: Protected branch update failed\n ! [remote rejected] main -> main (protected branch hook declined)",
            True,
            "fails",
        ),
        ("git commit -m x", "[main 1234567] x\n 1 file changed", False, "passes"),
        ("git commit -m x", "husky - pre-commit hook exited with code 1 (error)", True, "fails"),
        ("gh run watch 1", "✓ main CI · 123\nTriggered via push\n\nJOBS\n✓ test in 35s (ID 1)", False, "passes"),
        (
            "gh run watch 1",
            "X main CI · 123\n\nJOBS\nX test in 35s (ID 1)\n  ✓ Set up job\n  X Run npm test",
            False,
            "fails",
        ),
        ("gh run list --limit 3", "completed\tfailure\tfix\tCI\tmain\tpush\t1\t1m2s", False, "fails"),
        ("gh pr checks", "test\tpass\t35s\thttps://x\nlint\tpass\t10s\thttps://x", False, "passes"),
        ("gh pr checks", "test\tfail\t35s\thttps://x", True, "fails"),
        ("kubectl get pods", "x CrashLoopBackOff", False, "silent"),
        ("kubectl rollout status deploy/a", 'deployment "a" successfully rolled out', False, "passes"),
        ("terraform apply -auto-approve", "Apply complete! Resources: 3 added, 0 changed.", False, "passes"),
        ("ansible-playbook a.yml", "web1 : ok=14 changed=0 unreachable=0 failed=0", False, "passes"),
        ("ansible-playbook a.yml", "web1 : ok=3 changed=0 unreachable=0 failed=1", False, "fails"),
        ("zig build test", "Build Summary: 3/3 steps succeeded; 27/27 tests passed", False, "passes"),
        ("zig build test", "Build Summary: 2/3 steps succeeded; 26/27 tests passed; 1 failed", False, "fails"),
        ("gh run view 7", "✓ build in 1m2s (ID 3)\nX lint in 14s (ID 4)", False, "fails"),
        ("terraform plan", "Plan: 1 to add, 0 to change, 0 to destroy.", False, "passes"),
        ("./scripts/deploy.sh", "Deploying...\nerror: no credentials", False, "fails"),
        ("npm run e2e", "Error: Timed out waiting 60s from config.webServer", True, "fails"),
        ("frob", "bash: frob: command not found", True, "fails"),
        ("npm run foo", 'npm error Missing script: "foo"', True, "fails"),
        ("pnpm typecheck", " ERR_PNPM_NO_SCRIPT  Missing script: typecheck", True, "fails"),
        ("python3 -m pytest", "/usr/bin/python3: No module named pytest", True, "fails"),
        ("sleep 5 && npm test", "Command timed out after 2m 0.0s", True, "fails"),
        ("ls foo", "ls: foo: No such file or directory", True, "mechanics"),
        ("cd foo && npm test", "bash: cd: foo: No such file or directory", True, "mechanics"),
        ("grep -c x a", "0", True, "mechanics"),
    ],
)
def test_the_output_of_each_ecosystem_is_read(command: str, text: str, is_error: bool, expected: str) -> None:
    assert ending(command, f"Exit code 1\n{text}" if is_error else text, is_error=is_error) == expected
