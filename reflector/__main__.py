"""Where every command starts.

Invariant: `reflector hook` is told apart before anything else is imported, so the agent never waits
for a command-line library that a hook does not use. The drain that a hook starts is told apart as well:
it needs no command line either.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Run the hook or the command line; both end the process with its exit code."""
    match sys.argv[1:]:
        case ["hook"]:
            from reflector.hooks import fast

            fast.main()
        case ["--project", project, "drain", "--background"]:
            from reflector.sessions import background

            _be_short_lived()
            code = background.run(project)
            if code is not None:
                _end(code)
    from reflector.cli import main as cli_main

    _be_short_lived()
    _end(cli_main())


def _be_short_lived() -> None:
    """Look for cycles seldom: while a library loads, every module was looked through again for each other one."""
    import gc

    gc.set_threshold(100_000)


def _end(code: int) -> "NoReturn":
    """End without tearing the interpreter down, which takes as long as a small command: 40 ms with SQLAlchemy.

    By now every ledger is closed. A stream that cannot take the rest makes a failure of a success.
    """
    import os

    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    main()
