"""Reads records of a session: a call and its result, and a user's message.

The judge `rules`, the evidence of models, and the outcomes of trials and of lessons use this
reading. `wordings.tsv` has the expressions.
"""
