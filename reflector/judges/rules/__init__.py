"""The deterministic reflector: a short list of findings, each for one side, and how they are read.

`wordings.tsv` and `findings.py` are the rules; `follow.py` streams the messages into a
`citation.py` per citation.
"""
