"""The agent's side: the hook, the deliveries it leaves, their intake, installation and the doctor."""
