"""Shows where a benchmark is, while it runs."""

from rich.console import Console

from specproxy.bench.arms import Arm
from specproxy.bench.runner import Watch
from specproxy.bench.stats import Answer, summarise
from specproxy.bench.workloads import Prompt
from specproxy.progress import Step


class BenchProgress(Watch):
    """On a console. A context manager.

    Args:
        where: which of several rounds it is; put before everything.
    """

    def __init__(
        self, console: Console, num_arms: int, num_prompts: int, *, where: str = ""
    ) -> None:
        self._console = console
        self._num_arms = num_arms
        self._num_prompts = num_prompts
        self._before = f"{where}: " if where else ""
        self._step: Step | None = None
        self._where = ""
        self._num_pieces = 0

    def __enter__(self) -> "BenchProgress":
        return self

    def __exit__(self, *error: object) -> None:
        self._next(None)

    def recording(self) -> None:
        self._next(f"Recording the draft along {self._num_prompts} answers")

    def warming(self) -> None:
        self._next(f"Warming {self._num_arms} arms alike")

    def asking(self, arm: Arm, prompt: Prompt, index: int) -> None:
        if not self._where:
            self._next(f"Measuring {self._num_arms} arms with {self._num_prompts} prompts")
        self._where = f"[prompt {index + 1}/{self._num_prompts}, {arm.label}]"
        self._num_pieces = 0
        self._update()

    def text(self, piece: str) -> None:
        self._num_pieces += 1
        self._update()

    def answered(self, arm: Arm, answer: Answer) -> None:
        if not self._console.is_terminal:
            rate = summarise([answer]).tokens_per_s or 0.0
            self._console.print(
                f"  {self._where[1:-1]}: {answer.num_tokens} tokens, {rate:.1f} tok/s",
                style="dim",
                highlight=False,
            )

    def judging(self) -> None:
        self._next("Comparing the answers, token by token")

    def _update(self) -> None:
        if self._step is not None:
            self._step.update(f"{self._where} {self._num_pieces} pieces of text")

    def _next(self, title: str | None) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None
        if title is not None:
            self._step = Step(self._console, self._before + title).__enter__()
