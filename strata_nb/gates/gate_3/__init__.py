"""Forced rejection: what was rejected left nothing behind."""
