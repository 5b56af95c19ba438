"""Three slips: a file's name, a size, and a number that fits."""
# ruff: noqa
# mypy: ignore-errors


# %%
def mend(folder):
    edited(folder / "model.safetensors.index.json", "00009-of", "00001-of")
    edited(folder / "config.json", '"head_dim": 32', '"head_dim": 64')
    edited(folder / "config.json", '"rope_theta": 1000.0', '"rope_theta": 10000.0')
