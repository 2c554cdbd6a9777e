"""How a playbook looks: one HTML page of what `audit` answers."""
