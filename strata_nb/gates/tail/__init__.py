"""The open block: which pooled keys a mend gets wrong, and what avoiding it costs."""
