"""Lessons, their outcomes, and the search for them."""
