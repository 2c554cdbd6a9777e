"""The commands that agents and shells call: hook, statusline, completion."""

from __future__ import annotations

import click

from reflector.hooks import fast


@click.command()
def hook() -> None:
    """Record one hook event from stdin.

    `hook` writes the hook event to a file. `hook` then starts `drain` in the background, and
    `drain` records the hook event. `hook` always exits with 0. For the hook events SessionStart and
    SubagentStart, `hook` prints the playbook. For all other hook events, `hook` prints nothing.
    """
    fast.main()


@click.command()
def statusline() -> None:
    """Print the agent's status line.

    The status line shows the number of rules, the verdicts of the last session, and the number of
    waiting proposals.

    To show reflector's status line in Claude Code, add to its settings: {"statusLine": {"type":
    "command", "command": "reflector statusline"}}
    """
    fast.statusline()


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell's completion script.

    \b
    bash:  eval "$(reflector completion bash)"      in ~/.bashrc
    zsh:   eval "$(reflector completion zsh)"       in ~/.zshrc
    fish:  reflector completion fish > ~/.config/fish/completions/reflector.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None  # click ships these three
    click.echo(found(ctx.find_root().command, {}, "reflector", "_REFLECTOR_COMPLETE").source())
