"""One slot and one task of the scripted target: tokens in, pieces of text out.

Mirrors `server_slot` and `process_token` of tools/server/server-context.cpp.
Invariant: `Slot.tokens` is what the slot's KV cache would hold: the prompt and what was
generated, without the last sampled token.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from specproxy.testing.language import Distribution, SamplingParams
from specproxy.testing.parameters import CompletionParams


class State(Enum):
    IDLE = "idle"
    STARTED = "started"
    PROMPT = "prompt"
    DONE_PROMPT = "done_prompt"
    GENERATING = "generating"


@dataclass(slots=True)
class Stats:
    """Counts and simulated times of one task; results hold copies."""

    num_cached: int = 0
    num_prompt: int = 0
    prompt_ms: float = 0.0
    num_predicted: int = 0
    predicted_ms: float = 0.0
    num_drafted: int = 0
    num_accepted: int = 0

    def add(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            setattr(self, name, getattr(self, name) + count)


@dataclass(frozen=True)
class TokenProbs:
    """A sampled token for `n_probs`; `top` is empty for tokens accepted from a draft."""

    token: int
    probability: float
    top: Distribution
    text: bytes = b""


@dataclass(frozen=True)
class Begin:
    """The prompt is being read: HTTP headers may go out."""


@dataclass(frozen=True)
class Partial:
    """One streamed token that completed a piece of text."""

    text: bytes
    token: int
    num_predicted: int
    stats: Stats | None
    probs: TokenProbs | None


@dataclass(frozen=True)
class Final:
    """The end of a task."""

    text: bytes
    tokens: tuple[int, ...]
    slot: int
    stats: Stats
    num_tokens_cached: int
    stop_type: str
    stopping_word: str
    truncated: bool
    has_new_line: bool
    probs: tuple[TokenProbs, ...]


@dataclass(frozen=True)
class Failed:
    """The task was refused."""

    message: str
    type: str
    status: int
    num_prompt_tokens: int
    n_ctx: int


Result = Begin | Partial | Final | Failed


@dataclass(eq=False)
class Task:
    """A completion to do. `emit` gets its results in order; `seed` is never the random one; a
    child is one more choice for a prompt."""

    id: int
    prompt: list[int]
    params: CompletionParams
    seed: int
    emit: Callable[[Result], None]
    index: int = 0
    is_child: bool = False
    sampling: SamplingParams = field(init=False)

    def __post_init__(self) -> None:
        self.sampling = replace(self.params.sampling, seed=self.seed)


@dataclass(eq=False)
class Slot:
    """A place for one task, keeping its tokens as prefix cache for the next.

    Attributes:
        shifts: it makes room in a full context (`--context-shift`).
        last_used: by a count of releases; -1: never.
    """

    id: int
    n_ctx: int
    shifts: bool = False
    tokens: list[int] = field(default_factory=list)
    task: Task | None = None
    previous: Task | None = None
    state: State = State.IDLE
    last_used: int = -1
    sampled: int = 0
    num_draws: int = 0
    draft: list[int] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)
    text: bytearray = field(default_factory=bytearray)
    num_sent: int = 0
    generated: list[int] = field(default_factory=list)
    probs: list[TokenProbs] = field(default_factory=list)
    stop_type: str = "none"
    stopping_word: str = ""
    truncated: bool = False
    has_new_line: bool = False

    @property
    def busy(self) -> bool:
        return self.state is not State.IDLE

    @property
    def num_remaining(self) -> int:
        """-1: no limit."""
        limit = self.task.params.limit if self.task else -1
        return limit if limit < 0 else limit - self.stats.num_predicted

    @property
    def is_full(self) -> bool:
        return len(self.tokens) + 1 >= self.n_ctx

    def shift(self) -> None:
        """Forget half of what is between the first token and the last."""
        del self.tokens[1 : 1 + (len(self.tokens) - 1) // 2]
        self.truncated = True

    @property
    def num_draft_max(self) -> int:
        room = self.n_ctx - len(self.tokens) - 2
        left = self.num_remaining
        return min(room, left - 1) if left > 0 else room

    def launch(self, task: Task) -> None:
        self.task = task
        self.state = State.STARTED

    def release(self, last_used: int) -> None:
        self.previous, self.task = self.task, None
        self.state = State.IDLE
        self.last_used = last_used
        self.num_draws = 0
        self.draft = []
        self.stats = Stats()
        self.text = bytearray()
        self.num_sent = 0
        self.generated = []
        self.probs = []
        self.stop_type, self.stopping_word = "none", ""
        self.truncated = self.has_new_line = False

    def take(self, token: int, piece: bytes, *, is_end: bool, probs: TokenProbs | None) -> bool:
        """Process a sampled token, emit its partial result; False: the task is complete."""
        task = self.task
        assert task is not None
        self.sampled = token
        self.text += piece
        if task.params.return_tokens:
            self.generated.append(token)
        goes_on = True
        sent = b""
        incomplete = num_complete(self.text) < len(self.text)
        if not incomplete:
            at = min(self.num_sent, len(self.text))
            fresh = bytes(self.text[at:])
            stop = self._find_stop(fresh, len(piece))
            holding = False
            if stop is not None:
                goes_on = False
                del self.text[at + stop :]
                at = min(self.num_sent, len(self.text))
            elif not is_end:
                holding = any(partial_stop(fresh, w.encode()) for w in task.params.stop)
            if not holding:
                sent = bytes(self.text[at:])
                self.num_sent += len(sent)
            if probs is not None:
                probs = replace(probs, text=sent)
                self.probs.append(probs)
            if task.params.stream:
                timed = self.stop_type != "none" or task.params.timings_per_token
                count = self.stats.num_predicted
                shown = probs if probs is not None and probs.top else None
                stats = replace(self.stats) if timed else None
                task.emit(Partial(sent, token, count, stats, shown))
        if incomplete:
            goes_on = True
        if self.is_full and not self.shifts:
            self.truncated, self.stop_type, goes_on = True, "limit", False
        if goes_on and task.params.limit >= 0 and self.num_remaining <= 0:
            self.stop_type, goes_on = "limit", False
        self.has_new_line = self.has_new_line or b"\n" in sent
        if is_end:
            self.stop_type, goes_on = "eos", False
        return goes_on

    def final(self) -> Final:
        """The task's last result; a streamed text is not repeated."""
        assert self.task is not None
        stream = self.task.params.stream
        return Final(
            text=b"" if stream else bytes(self.text),
            tokens=() if stream else tuple(self.generated),
            slot=self.id,
            stats=replace(self.stats),
            num_tokens_cached=len(self.tokens),
            stop_type=self.stop_type,
            stopping_word=self.stopping_word,
            truncated=self.truncated,
            has_new_line=self.has_new_line,
            probs=tuple(self.probs),
        )

    def _find_stop(self, text: bytes, num_last: int) -> int | None:
        """Where the first full stop word begins; remembers which one it was."""
        assert self.task is not None
        found: int | None = None
        for word in self.task.params.stop:
            data = word.encode()
            at = text.find(data, max(0, len(text) - len(data) - num_last))
            if at >= 0 and (found is None or at < found):
                found = at
                self.stop_type, self.stopping_word = "word", word
        return found


def partial_stop(text: bytes, word: bytes) -> bool:
    """Whether `text` ends with a beginning of `word`."""
    return any(text.endswith(word[:length]) for length in range(min(len(text), len(word)), 0, -1))


def num_complete(text: bytes | bytearray) -> int:
    """Length of `text` without a cut-off UTF-8 character at its end (`validate_utf8`)."""
    for back in range(1, min(4, len(text)) + 1):
        byte = text[-back]
        need = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4
        if byte & 0xC0 == 0xC0 and byte & 0xF8 != 0xF8 and back < need:
            return len(text) - back
    return len(text)
