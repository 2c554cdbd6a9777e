"""Finished sessions: the deliveries of hooks, their recording in the ledger, and the text that the
next start prints.
"""
