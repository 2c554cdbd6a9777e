"""What was learned: lessons, what came of them, and how they are found again."""
