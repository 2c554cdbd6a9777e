"""Changes that people make: bullets, proposals, retractions, erasure, and playbook.json kept in
step.
"""
