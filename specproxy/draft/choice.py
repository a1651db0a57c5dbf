"""From a row of logits to a drafted token: pure, and cheap on large vocabularies."""

import numpy as np
from numpy.typing import NDArray

from specproxy.core.drafted import DraftToken


class Chooser:
    """Greedy choice with probabilities; keeps a scratch row, so one thread uses it."""

    def __init__(self, num_vocabulary: int, num_alternatives: int) -> None:
        self._scratch = np.empty(num_vocabulary, np.float32)
        self._num_alternatives = num_alternatives

    def choose(self, logits: NDArray[np.float32]) -> DraftToken:
        """The most probable token of `logits`, shape (n,), and the next best ones.

        Equal logits: the lowest id first, as in llama.cpp's greedy sampler. Probabilities are
        those of the softmax over the given row. `logits` is not changed.

        Raises:
            ValueError: the row holds no finite maximum, so the model computed nonsense.
        """
        best = int(logits.argmax())
        top = float(logits[best])
        if not np.isfinite(top):
            raise ValueError(f"the largest of {len(logits)} logits is {top}")
        weights = self._scratch[: len(logits)]
        np.subtract(logits, logits[best], out=weights)
        np.exp(weights, out=weights)
        total = float(weights.sum())
        # A few passes of argmax cost a quarter of one argpartition over 49k values.
        weights[best] = -1.0
        alternatives = []
        for _ in range(min(self._num_alternatives, len(logits) - 1)):
            token = int(weights.argmax())
            alternatives.append((token, float(weights[token]) / total))
            weights[token] = -1.0
        return DraftToken(best, 1.0 / total, tuple(alternatives))
