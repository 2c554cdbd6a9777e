"""Ledgers moved between files, machines and engines: export, import, merge, backup."""
