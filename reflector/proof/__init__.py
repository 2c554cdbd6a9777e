"""Proof that a ledger contains exactly the appended events: verification of events, tables and
schema, and published heads as anchors.
"""
