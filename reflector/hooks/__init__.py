"""How it is called: the fast hook, its installation, and the doctor that checks it."""
