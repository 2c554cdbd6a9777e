"""An agent in a project of its own, for each test."""

from __future__ import annotations
