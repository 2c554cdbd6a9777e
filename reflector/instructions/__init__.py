"""Instruction files: the list items, steps, table rows, sentences and commands of a Markdown text,
and which of them are rules.

Invariant: reading a file never raises for its content, and its time grows with its length alone.
"""
