"""Event types, each one value, and the playbook as a pure fold over events. Pure."""
