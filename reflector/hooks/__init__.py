"""The fast hook, its installation, and the doctor that checks it."""
