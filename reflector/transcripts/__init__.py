"""Readers of agents' transcripts: messages, records and citations. Pure."""
