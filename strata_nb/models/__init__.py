"""Model families, one room each, named by the `model_type` of their checkpoints."""
