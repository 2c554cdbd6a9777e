"""What people ask for and what a model thinks, as proposals."""
