"""`reflector completion`: what a shell needs to complete our commands."""

from __future__ import annotations

import click


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
