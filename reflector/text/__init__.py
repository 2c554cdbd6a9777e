"""Text from outside: bounded, and with its secrets taken out."""
