"""One HTML page of the answers of `audit`."""
