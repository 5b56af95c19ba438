"""Measurements beside peers: ratios in one process, medians, the command with them."""
