"""`reflector bench-reflection`: the gated reflection step on a fixed turn."""

from __future__ import annotations

import click


@click.command()
@click.option(
    "-c",
    "--config",
    metavar="FILE",
    help="YAML, TOML or JSON with t3 and scheduler; or an example that ships: rulebased, fixtures.",
)
@click.option("-n", "--repeats", type=click.IntRange(1, 1_000_000), default=1, help="So many runs; the last is shown.")
@click.option("--raw-time", is_flag=True, help="Show the milliseconds that it took; 0.0 without it, and with CI=true.")
def bench_reflection(config: str | None, repeats: int, raw_time: bool) -> None:
    """Measure the gated reflection step on a fixed turn; writes nothing.

    Prints one JSON object, the same on every machine.
    """
    from reflector.gating.config import GatedConfig
    from reflector.gating.log import canonical_line
    from reflector.gating.measure import measure, read_config

    settings = GatedConfig(allow_reflection=True) if config is None else read_config(config)
    click.echo(canonical_line(measure(settings, repeats=repeats, raw_time=raw_time)))
