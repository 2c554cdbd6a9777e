"""Which files agents load or write, and who changed them."""
