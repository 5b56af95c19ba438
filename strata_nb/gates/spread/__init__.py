"""Who runs the cases: this process, others of this machine, or other machines."""
