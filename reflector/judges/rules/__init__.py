"""The work of the judge `rules`: a short list of findings, each for one side, and the reader of a
window that feeds them.

`findings.py` has the findings, and `follow.py` passes the messages to one `citation.py` for each
citation.
"""
