"""Judging recorded windows: which, by which judge, and the events that answers become."""
