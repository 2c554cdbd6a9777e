"""A log of the files in which agents find their memory and rules, with `blame` and undo."""
