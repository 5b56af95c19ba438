"""Any causal language model of transformers, with its own cache.

```python
model = AutoModelForCausalLM.from_pretrained(path)
engine = Transformers(model)
print(examine(engine, prompt=tokens, reference=engine.twin()))
```
"""

import copy
import inspect
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from strata_nb.gates.foreign import RefusedError


class Transformers:
    """One sequence of a causal language model of transformers.

    Args:
        model: it is put into evaluation mode, since dropout would look like a fault.

    Raises:
        ModuleNotFoundError: PyTorch or transformers is not installed.
    """

    def __init__(self, model: Any) -> None:
        self._torch, self._library = _import("torch"), _import("transformers")
        self._model = model.train(False)
        self.name = f"transformers {model.config.model_type} {model.dtype}"
        # Its name has changed; before, it was the keyword `past_key_values`.
        known = inspect.signature(model.forward).parameters
        self._keyword = "cache" if "cache" in known else "past_key_values"
        self.reset()

    def reset(self) -> None:
        """Begin with a new cache of the kinds of layers that the model has."""
        self.cache: Any = self._library.DynamicCache(config=self._model.config)
        self._rows: Any = None

    def feed(self, tokens: Sequence[int]) -> None:
        """Call the model on `tokens` as one batch row."""
        ids = self._torch.tensor([list(tokens)], device=self._model.device)
        with self._torch.no_grad():
            answer = self._model(ids, use_cache=True, **{self._keyword: self.cache})
        self._rows = answer.logits[0]

    def logits(self) -> np.ndarray:
        """Of the rows of the last `feed`, float64 [rows, V]."""
        rows: np.ndarray = self._rows.double().cpu().numpy()
        return rows

    def trim(self, count: int) -> None:
        """Drop the last rows with `crop`.

        Raises:
            RefusedError: the cache says that it is not croppable, as that of a model
                with recurrent layers.
        """
        if not getattr(self.cache, "is_croppable", True):
            kinds = {type(c).__name__ for c in self.cache.layers if not c.is_croppable}
            raise RefusedError(
                "transformers cannot crop this cache, because of "
                f"{', '.join(sorted(kinds))}"
            )
        self.cache.crop(-count)

    def save(self) -> Any:
        """A copy of the cache with tensors of its own."""
        return copy.deepcopy(self.cache)

    def restore(self, saved: Any) -> None:
        """Go on with another copy, so that `saved` can be restored again."""
        self.cache = copy.deepcopy(saved)

    def twin(self) -> "Transformers":
        """The same model in float64, to measure rounding by.

        Where the model's own code computes in float32, so does the twin.
        """
        model = copy.deepcopy(self._model).double()
        # The grouped product of experts, the usual one, has no float64.
        if hasattr(model, "set_experts_implementation"):
            model.set_experts_implementation("eager")
        return Transformers(model)


def _import(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "this adapter needs PyTorch and transformers; install them with `pip "
            "install torch transformers`"
        ) from error
