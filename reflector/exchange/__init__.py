"""Moves ledgers between files, machines and engines: export, import, merge, backup."""
