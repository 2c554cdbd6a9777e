"""What ended: the deliveries that hooks left, their intake into the ledger, and the text that
the next start prints.
"""
