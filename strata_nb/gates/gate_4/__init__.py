"""Resume: a saved, forked or padded text goes on like a cold run."""
