"""Where every command starts.

Invariant: `reflector hook` is told apart before anything else is imported, so the agent never waits
for a command-line library that a hook does not use.
"""

import sys


def main() -> None:
    """Run the hook or the command line; both end the process with its exit code."""
    if sys.argv[1:] == ["hook"]:
        from reflector.hooks import fast

        fast.main()
    from reflector.cli import main as cli_main

    sys.exit(cli_main())


if __name__ == "__main__":
    main()
