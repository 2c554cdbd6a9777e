"""The deterministic reflector: a table of what shows that advice helped or harmed, and how it is read.

`table.py` and the `words_*.py` are the rules; `evidence.py` streams the messages into an `episode.py` per
citation; `verdicts.py` judges it. `docs/rules.md` is generated from the table.
"""
