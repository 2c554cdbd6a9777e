"""Random histories of three machines: real commands, real kills, and a model that counts by itself.

    python -m tests.campaign --histories 1000 --from-seed 0 --postgres 100
    python -m tests.campaign --seed 58 --script

A machine is a home and a project of its own. Each command is a process of its own, forked from one in which the
program is loaded, so that it costs 0.05 s in place of 0.3 s; a share of them is started as a shell would start them.
In every tenth step that writes, the process is killed by SIGKILL right before one of its calls that reach the disk or
the database, at random. A kill that comes too late for its command is made up for by the next step.

After full exchanges, `checks` compares the machines with each other, each with itself (`verify`, `rebuild`, `list`,
`--as-of`, the fold) and each with `model`, which imports nothing of reflector.
"""
