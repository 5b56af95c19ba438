"""What owns an open file's descriptor, and gives it back."""

import os
from typing import Self


class Descriptor:
    """Gives its descriptor back at the end of a `with` block, or by `close`."""

    _descriptor: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptor back; harmless when repeated."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
