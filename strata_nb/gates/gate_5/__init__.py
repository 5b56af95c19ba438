"""An approximate policy beside the exact one: what it costs, measured."""
