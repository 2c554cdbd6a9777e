"""Tests of the authors of changes."""
