"""The deterministic reflector: a table of what shows that advice helped or harmed, and how it is read.

`wordings.tsv`, `findings.py` and `weights.json` are the rules; `follow.py` streams the messages into a `citation.py`
per citation, and `findings.py` judges it.
"""
