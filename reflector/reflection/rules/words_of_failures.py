# ruff: noqa: E501 - a wording that is broken at column 110 can neither be read nor searched for.
"""Rows for what failing tools print where no summary counts, and for errors that mean nothing.

Invariant: an error is one of three things: a failure of the work, a command that could not be run as
written, or mechanics of editing and shells; only the last never speaks about the advice by itself.
"""

from __future__ import annotations

from reflector.reflection.rules.table import Rule
from reflector.reflection.rules.table import result_row as row

#: Lines that tell failure where no summary counts.
FAILING_LINES: tuple[Rule, ...] = (
    row(
        "exit-code",
        "fails",
        3,
        "a non-zero exit code or status in the text",
        r"\b(?:[Ee]xit(?:ed)?(?: with)?(?: code| status)?|ExitCode|EXIT(?:[_ ]CODE)?)[:=]? ?[1-9]\d{0,2}\b(?= *(?:$|[),.;\n<]))|ELIFECYCLE|exited \([1-9]|Process completed with exit code [1-9]|non-zero (?:exit|code|status)",
        "Process completed with exit code 1.",
        "exit code 0",
    ),
    row(
        "failed-with-result",
        "fails",
        3,
        "systemd and jobs: Failed with result, failed state",
        r"Failed with result|Active: failed|Main process exited, code=exited, status=[1-9]|Failed to start\b|dependency failed to start|is unhealthy\b|CrashLoopBackOff|ImagePullBackOff|\bOOMKilled",
        "app.service: Failed with result 'exit-code'.",
        "Active: active (running)",
    ),
    row(
        "traceback",
        "fails",
        3,
        "a stack trace or an uncaught exception",
        r"Traceback \(most recent call last\)|^panic: |^thread '.*' panicked|^Exception in thread|Unhandled(?:PromiseRejection| exception| rejection)|Uncaught (?:\w*Error|exception)|^[ \t]*(?:\w+\.)*\w*(?:Error|Exception): \S|[Ss]egmentation fault|core dumped|^fatal error:|goroutine \d+ \[running\]|PHP (?:Fatal|Parse) error",
        "Traceback (most recent call last)",
        "the traceback module is imported",
    ),
    row(
        "error-line",
        "fails",
        2,
        "a line that begins with error:, fatal:, FAIL, ✗",
        r"^(?:\[?(?:error|fatal|ERROR|FATAL|ERR!?|FAIL(?:ED|URE)?)\]?(?:\[\w+\])?(?::|!| TS\d+| in | -|\s*$)|npm (?:ERR!|error)|(?:psql:\S+ )?(?:ERROR|FATAL):  |ERROR \d+ \(|ERROR in |[ \t]*(?:✗|✘|✕|❌|⨯|🔴|×) \S|Error: |error TS\d+|E: |make(?:\[\d+\])?: \*\*\*|CMake Error|\S+\(\d+,\d+\): error|\S+:\d+(?::\d+)?: (?:fatal )?(?:error|undefined)|\S+\.go:\d+:\d+: |> Build failed|Failed to (?:compile|build|load|run|parse|resolve|fetch|connect|install|push|create|execute)|ERR_\w+|✖ \S)",
        "error: failed to push some refs",
        "errors are listed below the table",
    ),
    row(
        "compile-error",
        "fails",
        3,
        "compilers and bundlers: error TS…, Module not found, cannot find",
        r"error TS\d+|Module not found|Cannot find (?:module|name|package|symbol)|cannot find (?:symbol|package|module|crate)|ModuleNotFoundError|SyntaxError|undefined reference|unresolved (?:import|reference)|No module named|Could not (?:resolve|find) |build failed|Build failed|Compilation (?:failed|error)|compilation (?:failed|terminated)|ERESOLVE|ENOENT|EADDRINUSE|ECONNREFUSED|Failed to compile",
        "src/a.ts(3,1): error TS2304: Cannot find name 'x'.",
        "the module was found at once",
    ),
    row(
        "push-rejected",
        "fails",
        3,
        "git: rejected, conflict, hook failed",
        r"! \[(?:remote )?rejected\]|CONFLICT \(|Automatic merge failed|failed to push|hook (?:declined|failed)|pre-commit hook.*fail|husky.*fail|^fatal: |Merge conflict",
        "! [rejected]        main -> main (non-fast-forward)",
        "main -> main",
    ),
    row(
        "denied",
        "fails",
        1,
        "permission, authentication, network refusals",
        r"[Pp]ermission denied|Access denied|Unauthorized|authentication failed|[Cc]onnection refused|Could not resolve host|[Oo]peration not permitted|\b(?:HTTP/[\d.]+ |status:? ?|HTTP )(?:40[0-9]|4[12]\d|50\d)\b|\b(?:500 Internal|502 Bad Gateway|503 Service|404 Not Found|403 Forbidden|401 Unauthorized)",
        "curl: (7) Connection refused",
        "permission bits are 0644",
    ),
    row(
        "timed-out",
        "fails",
        2,
        "the command ran out of time",
        r"[Cc]ommand timed out|timed out after|TimeoutError|Timeout \d+ms exceeded|deadline exceeded",
        "Command timed out after 2m 0s",
        "the timeout is 30 seconds",
    ),
    row(
        "ci-red",
        "fails",
        3,
        "CI: run completed with failure",
        r"completed\s+failure\b|conclusion\W+failure|(?:^|\t)fail\t(?:\d+m)?\d+s|^X .*\b(?:\d+m)?\d+s \(ID|Some checks were not successful|[1-9]\d* failing\b",
        "completed\tfailure\tFix the parser\tCI",
        "completed\tsuccess\tFix the parser\tCI",
    ),
    row(
        "lint-findings",
        "fails",
        2,
        "linters print findings as file:line:col",
        r"^[ \t]*\S+\.\w+:\d+:\d+:? (?:error|warning|[A-Z]{1,4}\d{2,5}\b)|^[ \t]+\d+:\d+\s+error\s|Formatter would have printed|would reformat \S|Code style issues found",
        "src/app.py:3:1: F401 'os' imported but unused",
        "src/app.py: 14 lines",
    ),
)

#: The command could not be run as written: it says something about the advice that named it.
UNUSABLE: tuple[Rule, ...] = (
    row(
        "unknown-command",
        "unusable",
        3,
        "unknown command, subcommand, option or script",
        r"command not found|not recognized as an? (?:internal|name)|unrecognized (?:sub)?command|[Uu]nknown (?:command|option|argument|flag|subcommand|target)|unrecognized (?:option|argument)s?|invalid (?:option|choice)|no such (?:command|option|subcommand)|[Mm]issing script|No rule to make target|Couldn't find a script|is not a (?:git|mix|\w+) (?:command|task)|unexpected argument|No such tool available|InputValidationError|flag provided but not defined|does not exist in the (?:scripts|manifest)|task .* (?:could not be found|not found)",
        "error: unrecognized subcommand 'bun'",
        "the command ended",
    ),
)

#: Errors of editing and shell mechanics: they say nothing about advice that is not about them.
MECHANICS: tuple[Rule, ...] = (
    row(
        "not-read-yet",
        "mechanics",
        1,
        "a file was not read before it was edited",
        r"File has not been read yet|has been modified since (?:it was )?(?:read|last)|[Rr]ead it (?:again|first) before|must (?:use the )?[Rr]ead",
        "File has not been read yet. Read it first before writing to it.",
        "read the file before the meeting",
    ),
    row(
        "no-unique-match",
        "mechanics",
        1,
        "the text to replace was not found, or more than once",
        r"Found \d+ matches of the string|String to replace not found|old_string (?:not found|is not unique)|No changes to make|No match(?:es)? found",
        "Found 2 matches of the string to replace",
        "2 files matched the query",
    ),
    row(
        "sibling",
        "mechanics",
        1,
        "a parallel call failed and took this one with it",
        r"Sibling tool call errored|Cancelled: parallel tool call|tool call was cancelled",
        "Sibling tool call errored",
        "the sibling branch was merged",
    ),
    row(
        "wrong-place",
        "mechanics",
        1,
        "a path or directory that is not there",
        r"No such file or directory|(?:File|Path|Directory) does not exist|EISDIR|is a directory|not a directory|[Cc]annot (?:access|stat)|can't cd|no matches found|was blocked\. For security, Claude Code may only|not a git repository|pathspec .* did not match|No files found|file not found|does not exist\. (?:Note|Did you|Current)",
        "ls: cannot access 'src/old': No such file or directory",
        "the directory was created",
    ),
    row(
        "too-large",
        "mechanics",
        1,
        "the file or answer exceeds a limit of the client",
        r"exceeds maximum allowed (?:tokens|size)|Use offset and limit|Output too large|too large to (?:read|include)|result \([\d,]+ characters\) exceeds",
        "File content (31000 tokens) exceeds maximum allowed tokens (25000).",
        "the limit was raised",
    ),
    row(
        "wait-for-it",
        "mechanics",
        1,
        "polling, killing or waiting for something that is done",
        r"(?:Shell|Task|Process) \S+ is not running|No (?:task|shell) found|already (?:exists|running|completed|up to date|in use)|nothing to commit|no changes added|retrieval_status|is still running|not running, so cannot be killed|Blocked: sleep|File unchanged since",
        "Shell 12 is not running, so cannot be killed",
        "the server is running",
    ),
    row(
        "bare-exit",
        "mechanics",
        1,
        "an exit code 1 without a word, as grep and diff give",
        r"\A\s*(?:<\w+>)?(?:Error: )?Exit code 1\s*(?:</\w+>)?\Z",
        "Exit code 1",
        "Exit code 1\nerror: boom",
    ),
    row(
        "client-notice",
        "mechanics",
        1,
        "the client's own notices: permissions, plan mode, hooks, interrupts",
        r"requested permissions to|doesn't want to (?:proceed|take this action)|\[Request interrupted|plan mode|Permission to use \w+ (?:with .* )?has been (?:denied|auto-denied)|Tool permission (?:request failed|stream closed)|PreToolUse:\w+ hook|API Error|Interrupted by user",
        "Claude requested permissions to use Bash",
        "the permission model is simple",
    ),
)

RULES: tuple[Rule, ...] = FAILING_LINES + UNUSABLE + MECHANICS
