"""Reflection on tasks that have a right answer: a trajectory, the expected answer and the reports
of the tests.
"""
