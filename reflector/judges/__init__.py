"""Judges of a session: the built-in judge, agents, Anthropic's API, recorded answers.

A judge gets messages and bullets, and returns text. It does not use the ledger.
"""
