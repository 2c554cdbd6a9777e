"""How records of a session are read: a call and how it ended, and a person's message.

`rules`, the evidence of models, the outcomes of trials and of lessons rest on the same reading.
`wordings.tsv` has the expressions.
"""
