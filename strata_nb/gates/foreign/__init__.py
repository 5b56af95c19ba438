"""The gate for engines that are not ours: four calls, and what can be proved by them.

From outside one sees tokens and logits, never the state itself. So this gate finds what
reaches the logits, and it says nothing about damage that has not reached them yet: for
that, a gate has to compare the parts of the state, as those of our own engine do.

An engine needs an adapter of about ten lines:

```python
class Mine:
    def reset(self):
        self.state = model.new_state()
    def feed(self, tokens):
        self.rows, self.state = model.run(tokens, self.state)
    def logits(self):
        return self.rows  # [len(tokens), vocabulary]
    def save(self):
        return copy.deepcopy(self.state)
    def restore(self, saved):
        self.state = copy.deepcopy(saved)

report = examine(Mine(), prompt=prompt, profile="quick")
```

`print(report)` shows what came out. `save` and `restore` may be left out, and a third
call may be offered: `trim(count)`, for an engine that can drop its last rows. Those for
mlx-lm, transformers and our own engine are in `strata_nb.gates.adapters`.
"""

from strata_nb.gates.foreign.examination import examine
from strata_nb.gates.foreign.protocol import (
    CanSave,
    CanTrim,
    ForeignEngine,
    ForeignEngineError,
    RefusedError,
)
from strata_nb.gates.foreign.report import ForeignReport, Outcome

__all__ = [
    "CanSave",
    "CanTrim",
    "ForeignEngine",
    "ForeignEngineError",
    "ForeignReport",
    "Outcome",
    "RefusedError",
    "examine",
]
