"""The entry point of every command.

Invariant: `reflector hook`, the status line and the drain that a hook starts are dispatched before
any other import. So the agent never waits for a command-line library that a hook does not use.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Run the hook or the command line; both end the process with its exit code."""
    if sys.platform == "win32":
        sys.exit(
            "reflector runs on Linux and macOS. On Windows, install WSL (wsl --install), then "
            "install reflector there."
        )
    match sys.argv[1:]:
        case ["hook"]:
            from reflector.hooks import fast

            fast.main()
        case ["statusline"]:
            from reflector.hooks import fast

            fast.statusline()
            _end(0)
        case ["--project", project, "drain", "--background"]:
            from reflector.sessions import drain

            _be_short_lived()
            code = drain.drain_for_hook(project)
            if code is not None:
                _read_first(project)
                _end(code)
    from reflector.cli import main as cli_main

    _be_short_lived()
    _end(cli_main())


def _read_first(project: str) -> None:
    """Carry out the order of a first reading; usually there is none."""
    from reflector import handover

    if not handover.read_own(project, handover.ORDER, 1 << 16):
        return
    from reflector.sessions import first

    first.carry_out_for_hook(project)


def _be_short_lived() -> None:
    """Run the garbage collector rarely, because by default it scans all modules repeatedly while
    they load.
    """
    import gc

    gc.set_threshold(100_000)


def _end(code: int) -> "NoReturn":
    """End the process without Python's normal exit, which takes as long as a small command: 40 ms
    with SQLAlchemy.

    Every ledger is closed by now. If a stream cannot write its remaining text, a success becomes a
    failure.
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
