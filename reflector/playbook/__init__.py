"""Bullets, their names, playbook.json in and out, and the counting policies. Pure."""
