"""Defaults: no draft, no approximation, nothing fetched, unless asked."""
