"""Whether a playbook helps: what came of each session, which sessions go without it, and what
the two kinds show.
"""
