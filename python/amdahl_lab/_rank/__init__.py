"""What runs in the ranks of `amdahl run`: counts the steps of a script, accounts for their time, writes the result."""
