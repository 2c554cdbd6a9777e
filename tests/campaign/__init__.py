"""Random histories of three machines: real commands, real kills, and a model that counts by itself.

    python -m tests.campaign --histories 1000 --from-seed 0 --postgres 100
    python -m tests.campaign --seed 15 --shrink

The second command plays one history, leaves out the steps that it breaks without, and prints the
rest for a shell. A seed gives the commands, texts and kills of a history. Times, and ids that a
command draws, differ between runs.

A machine is a home and a project of its own, on SQLite or PostgreSQL. Each command is a process of
its own, forked from one in which the program is loaded, so that it costs 0.04 s in place of 0.3 s.
One in fifty is started as a shell starts it. Questions of a check run one after the other in one
process.

In every tenth command that writes, the process kills itself by SIGKILL right before one of its
calls that reach the disk or the database, drawn from the first 420. If the command ends before that
call, the next command is killed.

After each step, the machine is compared with `model`, which knows what people did and nothing of
merges. After a full exchange, `checks` compares the machines with each other, and each with its
proof, past, file and rebuild. `folds` compares the six folds (playbook, windows, usage, lessons,
proposals, trials) with the program's answers: now, at two positions, and after a rebuild.

Not in it: clocks that differ between machines, two commands at once, models as judges, hooks, and
PostgreSQL's roles.
"""
