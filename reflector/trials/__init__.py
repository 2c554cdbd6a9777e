"""Whether a playbook helps: the outcome of each session, the sessions without the playbook, and the
comparison of the two kinds.
"""
