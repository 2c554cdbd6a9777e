"""Tests of the log of memory files."""
