"""The same text whatever the window."""
