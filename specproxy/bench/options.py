"""What `specproxy bench` was asked for, checked before anything is built or measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from specproxy.bench.drafts import check_draft
from specproxy.bench.kinds import WAYS, Wanted, Way
from specproxy.bench.outputs import Outputs
from specproxy.bench.runner import BenchOptions
from specproxy.bench.workloads import WORKLOADS, Prompt, Workload, choose
from specproxy.errors import ConfigError

FULL_TOKENS = 96
QUICK_PROMPTS, QUICK_TOKENS, QUICK_MODES = 4, 32, "seeding,fanout,coordinator"
SWEEP_PROMPTS, SWEEP_TOKENS = 6, 64
CLIENTS_PROMPTS, CLIENTS_TOKENS = 16, 48


@dataclass(frozen=True, slots=True)
class BenchCommand:
    """The command's options.

    Attributes:
        rtt_sweep: round trips to measure one after the other; empty measures at `rtt_ms`.
        clients: requests at a time; several numbers are measured one after the other.
        modes: ways of the proxy, each an arm of its own.
        workload: of `workloads.WORKLOADS`.
        num_tokens, num_prompts: None: all there is, less in a sweep, least when `quick`.
        draft_ns, on_draft_ns, groups: each is an arm of its own; `on_draft_ns` where seeds come
            on top of the server's own draft.
        draft: see `drafts.with_draft`.
        front_rtt_ms, recorded_ms: see `kinds.Wanted`.
        pause_s: see `runner.BenchOptions`.
        line: the command as it was typed, for reports.
    """

    rtt_ms: float = 80.0
    rtt_sweep: tuple[int, ...] = ()
    modes: tuple[Way, ...] = ("seeding",)
    num_tokens: int | None = None
    num_prompts: int | None = None
    draft_ns: tuple[int, ...] = (16,)
    on_draft_ns: tuple[int, ...] = (8,)
    draft: str | None = None
    front_rtt_ms: float = 0.0
    recorded_ms: float | None = None
    clients: tuple[int, ...] = (1,)
    workload: Workload = "short"
    groups: tuple[int, ...] = (1,)
    quick: bool = False
    pause_s: float = BenchOptions().pause_s
    outputs: Outputs = field(default_factory=Outputs)
    line: str = "specproxy bench"

    @property
    def mode(self) -> str:
        return ",".join(self.modes)

    @property
    def wanted(self) -> Wanted:
        """The kinds of proxy."""
        return Wanted(
            self.modes, self.on_draft_ns, self.groups, self.front_rtt_ms, self.recorded_ms
        )

    @property
    def is_sweep(self) -> bool:
        return bool(self.rtt_sweep) or len(self.clients) > 1

    @property
    def options(self) -> BenchOptions:
        """Of the first round."""
        default = FULL_TOKENS
        if self.is_sweep:
            default = SWEEP_TOKENS if self.rtt_sweep else CLIENTS_TOKENS
        return BenchOptions(
            num_tokens=self.num_tokens or (QUICK_TOKENS if self.quick else default),
            num_clients=self.clients[0],
            pause_s=self.pause_s,
            throughput=True if len(self.clients) > 1 else None,
            cold=not self.is_sweep,
        )

    @property
    def prompts(self) -> Sequence[Prompt]:
        return choose(self.num_prompts or self._default_prompts, self.workload)

    @property
    def _default_prompts(self) -> int | None:
        if self.workload == "long":
            return None
        if self.quick:
            return max(QUICK_PROMPTS, *self.clients)
        if self.is_sweep:
            return SWEEP_PROMPTS if self.rtt_sweep else CLIENTS_PROMPTS
        return None

    def check(self) -> None:
        """Find out what cannot work before anything is built or measured.

        Raises:
            ConfigError: there are not so many prompts, no such draft, two sweeps at once, or a file
                cannot be written.
        """
        check_draft(self.draft)
        if self.rtt_sweep and len(self.clients) > 1:
            raise ConfigError(
                "Round trips and clients cannot be swept at once.",
                remedy="Give --rtt-sweep, or several numbers of --clients with one --rtt-ms.",
            )
        if len(self.prompts) < max(self.clients):
            raise ConfigError(
                f"{len(self.prompts)} prompts are not enough for {max(self.clients)} at a time.",
                remedy="Raise --prompts, or lower --clients.",
            )
        self.outputs.check()


def read_modes(text: str) -> tuple[Way, ...]:
    """The ways the specproxy arms work, separated by commas.

    Raises:
        ConfigError: one does not exist.
    """
    return tuple(dict.fromkeys(_read_mode(mode.strip()) for mode in text.split(",")))


def _read_mode(mode: str) -> Way:
    for known in WAYS:
        if mode == known:
            return known
    raise ConfigError(f"--mode {mode} does not exist.", remedy=f"What exists: {', '.join(WAYS)}.")


def read_workload(text: str) -> Workload:
    """Raises:
    ConfigError: it does not exist.
    """
    for known in WORKLOADS:
        if text == known:
            return known
    raise ConfigError(
        f"--workload {text} does not exist.", remedy=f"What exists: {', '.join(WORKLOADS)}."
    )


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
