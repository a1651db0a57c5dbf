"""The prompts of a benchmark.

Invariant: no prompt is asked twice of one server, for a server with an n-gram pool learns every
prompt and answer it processes; so all are different, and warm-up has prompts of its own.
Neighbours are of different kinds: the first few are a fair sample.

The prompts are our own. Grouping them by category, and asking long ones apart, is SPEED-Bench's
idea (NVIDIA, 2026: a qualitative split of eleven categories, a throughput split by length).
Where a category means the same it has its name there: coding, writing, summarization,
multilingual, qa, roleplay. `chat` and `structured` are added, for much of what people send to a
pool of their own is a dialogue or wants JSON and lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from specproxy.bench.logbook import logbook
from specproxy.errors import ConfigError

Category = Literal[
    "chat",
    "coding",
    "multilingual",
    "qa",
    "roleplay",
    "structured",
    "summarization",
    "writing",
]
Workload = Literal["short", "long"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation that waits for its answer.

    Attributes:
        kind: what sort of work it is; another one for each prompt of a workload.
        turns: texts of user and assistant in turn; the user has the first and the last.
        system: the system message; None leaves it to the model's template.
    """

    kind: str
    turns: tuple[str, ...]
    system: str | None = None
    category: Category = "qa"

    @property
    def messages(self) -> list[dict[str, str]]:
        """As the chat route wants them."""
        roles = ("user", "assistant")
        said = [{"role": roles[i % 2], "content": text} for i, text in enumerate(self.turns)]
        return said if self.system is None else [{"role": "system", "content": self.system}, *said]

    @property
    def title(self) -> str:
        """One line that tells it from the others."""
        return " ".join(self.turns[-1].split())


_LETTER = (
    "Hi Tom, just wanted to say that we cant make it on friday because the car broke down and the "
    "garage says it takes until monday. Sorry about that, maybe next week? Say hi to Anna."
)
_ARTICLE = (
    "The lighthouse on Gull Point was built in 1871 after three ships were lost in one winter. For "
    "ninety years a keeper lit the lamp every evening and kept a diary of the weather. In 1961 the "
    "lamp was made electric, and the last keeper moved to the village. Today volunteers look after "
    "the building, and every summer some four thousand visitors climb its 112 steps."
)
_CODE = (
    "def total(items):\n    t = 0\n    for i in range(len(items)):\n"
    "        t = t + items[i]['price'] * items[i]['count']\n    return t\n"
)

PROMPTS = (
    Prompt("explain", ("Explain how a bicycle stays upright while it is moving.",), category="qa"),
    Prompt(
        "code",
        ("Write a Python function that checks whether a string is a palindrome.",),
        category="coding",
    ),
    Prompt(
        "list",
        ("List ten things to pack for a weekend of camping in the mountains.",),
        category="structured",
    ),
    Prompt(
        "summarise",
        (f"Summarise this text in two sentences:\n\n{_ARTICLE}",),
        category="summarization",
    ),
    Prompt(
        "story",
        ("Write a short story about a clockmaker who repairs a very old watch.",),
        category="writing",
    ),
    Prompt(
        "rewrite",
        (f"Rewrite this message so that it is polite and correct:\n\n{_LETTER}",),
        category="writing",
    ),
    Prompt(
        "question", ("What is the capital of France, and why is the city famous?",), category="qa"
    ),
    Prompt(
        "json",
        (
            "Give me a JSON array of five planets. Each object has the keys name, diameter_km and"
            " has_rings. Answer with JSON only.",
        ),
        category="structured",
    ),
    Prompt(
        "email",
        ("Write an email to my manager asking for a day off next Thursday.",),
        category="writing",
    ),
    Prompt(
        "french",
        ("Explique en français comment on fait du pain à la maison.",),
        category="multilingual",
    ),
    Prompt(
        "dialogue",
        (
            "I would like to learn the guitar. Where should I start?",
            "Start with a few easy chords such as G, C and D, and practise changing between them.",
            "How long should I practise each day, and what should I do in the second month?",
        ),
        category="chat",
    ),
    Prompt(
        "edit code",
        (f"Add type hints and a docstring to this function:\n\n{_CODE}",),
        category="coding",
    ),
    Prompt(
        "compare",
        ("Compare trains and aeroplanes for travelling between two large cities.",),
        category="qa",
    ),
    Prompt(
        "recipe",
        ("Give me a recipe for tomato soup, with the ingredients and the steps.",),
        category="structured",
    ),
    Prompt(
        "role",
        ("Tell me about the tides.",),
        system="You are a patient teacher. You explain things to children of ten years.",
        category="roleplay",
    ),
    Prompt(
        "spanish",
        ("Escribe una lista de cinco consejos para dormir mejor.",),
        category="multilingual",
    ),
)

WARM_UPS = (
    Prompt("explain", ("Describe what a compass is and how sailors use one.",)),
    Prompt("list", ("Name six kinds of trees and say something about each of them.",)),
    Prompt("question", ("What is a harbour, and what happens there in the morning?",)),
)
"""One for each slot of a demo pool's server, so that each has the template's beginning cached."""


COLD = Prompt("cold", ("Say what a lantern is, and what people used before there were any.",))
"""The first thing that a server is asked, before anything is warm."""

LONG = (
    Prompt(
        "long summary",
        (f"Summarise this logbook in five sentences:\n\n{logbook(1)}",),
        category="summarization",
    ),
    Prompt(
        "long question",
        (f"{logbook(2)}\n\nWhich ships of this logbook came in fog, and what did they carry?",),
        category="qa",
    ),
    Prompt(
        "long json",
        (
            f"{logbook(3)}\n\nGive me the last five entries of this logbook as a JSON array. Each"
            " object has the keys day, ship, cargo and wind. Answer with JSON only.",
        ),
        category="structured",
    ),
    Prompt(
        "long letter",
        (
            f"{logbook(4)}\n\nWrite a letter to the harbour office that reports what is most"
            " important in this logbook.",
        ),
        category="writing",
    ),
)
"""About 2,000 tokens each."""

WORKLOADS: dict[Workload, Sequence[Prompt]] = {"short": PROMPTS, "long": LONG}


def choose(num_prompts: int | None, workload: Workload = "short") -> Sequence[Prompt]:
    """The first `num_prompts` of a workload; all for None.

    Raises:
        ConfigError: there are not so many.
    """
    prompts = WORKLOADS[workload]
    if num_prompts is not None and not 1 <= num_prompts <= len(prompts):
        raise ConfigError(
            f"There are {len(prompts)} prompts, not {num_prompts}.",
            remedy="No prompt is asked twice, for the target's pool would know its answer.",
        )
    return prompts[:num_prompts]


def shares(prompts: Sequence[Prompt], num_shares: int) -> list[list[Prompt]]:
    """Disjoint parts of `prompts` that are as alike as can be: dealt out by category.

    Each part keeps the order of `prompts`.
    """
    dealt = sorted(prompts, key=lambda one: one.category)  # stable
    part = {prompt: number % num_shares for number, prompt in enumerate(dealt)}
    return [[one for one in prompts if part[one] == number] for number in range(num_shares)]
