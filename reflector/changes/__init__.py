"""Changes of a playbook: apply, undo, erase and propose them, and find whose they are."""
