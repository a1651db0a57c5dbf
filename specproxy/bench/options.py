"""What `specproxy bench` was asked for, checked before anything is built or measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from specproxy.bench.outputs import Outputs
from specproxy.bench.pools import Way
from specproxy.bench.runner import BenchOptions
from specproxy.bench.workloads import Prompt, choose
from specproxy.errors import ConfigError

MODES: tuple[Way, ...] = ("seeding", "coordinator")
LATER_MODES = ("fanout",)
FULL_TOKENS = 96
QUICK_PROMPTS, QUICK_TOKENS = 4, 32
SWEEP_PROMPTS, SWEEP_TOKENS = 6, 64


@dataclass(frozen=True, slots=True)
class BenchCommand:
    """The command's options.

    Attributes:
        rtt_sweep: round trips to measure one after the other; empty measures at `rtt_ms`.
        modes: ways of the proxy, each an arm of its own.
        num_tokens, num_prompts: None: all there is, less in a sweep, least when `quick`.
        draft_ns, groups: each is an arm of its own.
        line: the command as it was typed, for reports.
    """

    rtt_ms: float = 80.0
    rtt_sweep: tuple[int, ...] = ()
    modes: tuple[Way, ...] = ("seeding",)
    num_tokens: int | None = None
    num_prompts: int | None = None
    draft_ns: tuple[int, ...] = (16,)
    num_clients: int = 1
    groups: tuple[int, ...] = (1,)
    quick: bool = False
    outputs: Outputs = field(default_factory=Outputs)
    line: str = "specproxy bench"

    @property
    def mode(self) -> str:
        return ",".join(self.modes)

    @property
    def options(self) -> BenchOptions:
        default = SWEEP_TOKENS if self.rtt_sweep else FULL_TOKENS
        return BenchOptions(
            num_tokens=self.num_tokens or (QUICK_TOKENS if self.quick else default),
            num_clients=self.num_clients,
        )

    @property
    def prompts(self) -> Sequence[Prompt]:
        default = SWEEP_PROMPTS if self.rtt_sweep else None
        return choose(self.num_prompts or (QUICK_PROMPTS if self.quick else default))

    def check(self) -> None:
        """Find out what cannot work before anything is built or measured.

        Raises:
            ConfigError: there are not so many prompts, or a file cannot be written.
        """
        choose(self.num_prompts)
        self.outputs.check()


def read_modes(text: str) -> tuple[Way, ...]:
    """The ways the specproxy arms work, separated by commas.

    Raises:
        ConfigError: one does not exist, or not yet.
    """
    return tuple(dict.fromkeys(_read_mode(mode.strip()) for mode in text.split(",")))


def _read_mode(mode: str) -> Way:
    for known in MODES:
        if mode == known:
            return known
    what = "is not built yet" if mode in LATER_MODES else "does not exist"
    raise ConfigError(f"--mode {mode} {what}.", remedy=f"What exists: {', '.join(MODES)}.")


def read_numbers(
    option: str, text: str, *, smallest: int = 1, largest: int = 64, example: str = "4,8,16"
) -> tuple[int, ...]:
    """Numbers separated by commas, as an option has them.

    Raises:
        ConfigError: something else was given.
    """
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in text.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not all(smallest <= number <= largest for number in numbers):
        raise ConfigError(
            f"{option} {text} is no list of numbers from {smallest} to {largest}.",
            remedy=f"For example: {option} {example}.",
        )
    return numbers
