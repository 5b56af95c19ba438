"""Take a mixture-of-experts inference engine apart: run, finish, commit."""
