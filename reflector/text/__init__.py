"""Text from outside: bounded, with its secrets taken out, and divided into words."""
