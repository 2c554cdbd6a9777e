"""Reflection by a Claude model, through Anthropic's own SDK."""
