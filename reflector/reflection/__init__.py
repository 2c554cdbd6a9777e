"""Judges recorded windows: chooses the window and the judge, and makes events of the answers."""
