"""Changes of a playbook: apply one, undo it, erase its words, propose it; whose act it was."""
