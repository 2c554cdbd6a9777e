"""Evidence that a ledger is what was appended: verification, drift, anchors, signatures and
merge proofs.
"""
