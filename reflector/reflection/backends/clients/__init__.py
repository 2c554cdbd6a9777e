"""Who asks a model: each client sends one question and returns a `Reply`."""
