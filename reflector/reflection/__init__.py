"""Judging recorded windows: gate, backends, prompts, answers and what they become in the ledger."""
