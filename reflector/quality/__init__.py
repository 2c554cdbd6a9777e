"""How good an answer was: its signals and their score, and the gate policies that read them."""
