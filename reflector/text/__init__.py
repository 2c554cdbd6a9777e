"""Text from outside: bounded, without its secrets, and divided into words."""
