"""Reflection on tasks that have a right answer: an attempt, the expected answer and what the tests reported."""
