"""What a person sees: views of a trace and an engine."""
