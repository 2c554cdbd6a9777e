"""Where every command starts.

Invariant: `reflector hook` is told apart before anything else is imported, so the agent never waits
for a command-line library that a hook does not use. The drain that a hook starts is told apart as well:
it loads its code only where no other is about to do the same work.
"""

import sys


def main() -> None:
    """Run the hook or the command line; both end the process with its exit code."""
    match sys.argv[1:]:
        case ["hook"]:
            from reflector.hooks import fast

            fast.main()
        case ["--project", project, "drain", "--background"]:
            from importlib import import_module

            from reflector.hooks.turn import load_in_turn

            if not load_in_turn(project, lambda: import_module("reflector.hooks.drain")):
                return
    from reflector.cli import main as cli_main

    sys.exit(cli_main())


if __name__ == "__main__":
    main()
