"""The quality of an answer: its signals and their score, and the gate policies that use them."""
