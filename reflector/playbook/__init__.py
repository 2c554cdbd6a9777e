"""Bullets, their names, playbook.json in and out, the fold, and the counting policies. Pure."""
