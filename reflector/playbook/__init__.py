"""Bullets, their names, the format of playbook.json, and the counting policies. Pure."""
