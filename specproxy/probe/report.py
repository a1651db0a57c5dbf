"""What a probe has found of a target. Plain values, for a table or for JSON."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PoolFlags:
    """The n-gram pool as seeds find it.

    Attributes:
        n_match: key length; None: it took no seed.
        n_min, n_max: shortest and longest proposal seen.
        n_max_is_least: longer ones may be proposed: the probe had no longer text.
    """

    n_match: int | None
    n_min: int | None = None
    n_max: int | None = None
    n_max_is_least: bool = False


@dataclass(frozen=True, slots=True)
class Speeds:
    """Times, seconds.

    Attributes:
        link_s: shortest round trip of a request to the server.
        pass_s: of a pass by its number of tokens, the link's round trip included.
        first_s, again_s: of a number of tokens the first time, and of the same one later.
        alone_s, together_s: of one prompt, and of several with as many tokens in all.
    """

    link_s: float
    pass_s: dict[int, float]
    first_s: float
    again_s: float
    alone_s: float | None = None
    together_s: float | None = None

    @property
    def new_shape_s(self) -> float:
        """What a number of tokens costs more the first time."""
        return max(0.0, self.first_s - self.again_s)

    @property
    def warming_pays(self) -> bool:
        return self.first_s > 1.5 * self.again_s


@dataclass(frozen=True, slots=True)
class Report:
    """A target.

    Attributes:
        num_context: tokens of all slots together, or of one, if not unified.
        shares_passes: prompts of different lengths share a pass (unified KV cache, no cache of
            slot states); None: it was not measured.
        speculation: what it says of its own speculation (`speculative.types`).
        groups: batches that it keeps in flight; None: it does not say.
        lacking: what this build or these flags lack, and what goes without it.
    """

    url: str
    model: str
    build: str
    num_slots: int
    num_context: int
    num_context_trained: int
    num_vocab: int
    model_path: str = ""
    template: bool = False
    modalities: tuple[str, ...] = ()
    takes_drafts: bool = False
    shares_passes: bool | None = None
    several_prompts: bool = False
    speculation: str = ""
    groups: int | None = None
    pool: PoolFlags = PoolFlags(None)
    speeds: Speeds | None = None
    lacking: dict[str, str] = field(default_factory=dict)
