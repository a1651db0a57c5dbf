"""What seeding policies are worth on links that nobody has to wait for.

    python -m specproxy.simulation --rtt-ms 80,200 --n-match 6,10
    SPECPROXY_SEEDING__BRANCH_TOKENS=0 python -m specproxy.simulation

The demo's models say what they say to the bench's prompts; a pass and a drafted token take what
they take alone on the machine of docs/measurements.md; the product's own seeder, sessions and
policy run in virtual time. The first figures take minutes: the draft is asked for all it may say.
"""

import argparse
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

from rich.console import Console
from rich.table import Table

from specproxy import logs
from specproxy.bench.workloads import choose
from specproxy.coordinator.templates import ChatTemplate
from specproxy.core.worth import N_MATCH, N_MAX
from specproxy.llama.model import Model
from specproxy.llama.template import read_template
from specproxy.pool.models import ensure_models
from specproxy.settings import LogSettings, load_one_target
from specproxy.simulation.run import Said, simulate
from specproxy.simulation.target import NO_TARGET, PassModel
from specproxy.simulation.words import ModelWords

NUM_WORKERS = 2
COMPUTE_S = 0.045
"""Of a pass with one row, without the link."""


def main() -> None:
    """Print a row for each link and each pool."""
    parser = argparse.ArgumentParser(prog="python -m specproxy.simulation")
    parser.add_argument("--rtt-ms", type=_numbers, default=[80, 200], help="per worker")
    parser.add_argument("--n-match", type=_numbers, default=[N_MATCH], help="of the pool")
    parser.add_argument("--n-max", type=_numbers, default=[N_MAX], help="of the pool")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=96)
    given = parser.parse_args()
    logs.configure(LogSettings(level="error"))
    settings = load_one_target(target={"url": NO_TARGET}).seeding
    models = ensure_models()
    workload = _workload(models.target, given.prompts, given.tokens)
    table = Table("ms", "n_match", "n_max", "x alone", "tokens/pass", "rows/pass", "plain", "draft")
    with closing(ModelWords(models.draft)) as words:
        for rtt_ms, n_match, n_max in product(given.rtt_ms, given.n_match, given.n_max):
            found = simulate(
                words,
                workload,
                PassModel(COMPUTE_S + NUM_WORKERS * rtt_ms / 1000),
                n_match=n_match,
                n_max=n_max,
                settings=settings,
            )
            table.add_row(
                *map(str, (rtt_ms, n_match, n_max)),
                f"{found.speed_up:.2f}",
                f"{found.tokens_per_pass:.2f}",
                f"{found.rows_per_pass:.1f}",
                f"{found.num_plain} of {len(found.passes)}",
                f"{found.draft_share:.0%}",
            )
    Console().print(table)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _workload(model: Path, num_prompts: int, num_tokens: int) -> Sequence[Said]:
    """The bench's prompts, and what the target says to them."""
    with closing(Model(model, vocab_only=True)) as file:
        template = ChatTemplate.of(read_template(file), model.name)
    with closing(ModelWords(model)) as target:
        workload: list[Said] = []
        for prompt in choose(num_prompts):
            text = template.apply({"messages": prompt.messages})
            tokens = target.vocabulary.tokenize(text, add_special=True, parse_special=True)
            workload.append((tokens, [one.token for one in target.say(tokens, num_tokens)]))
    return workload


if __name__ == "__main__":
    main()
