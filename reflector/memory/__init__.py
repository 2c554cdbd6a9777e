"""A log of the files in which agents find their memory and rules: `blame` for them, and undo."""
