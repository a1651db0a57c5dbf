"""What was asked for, and how much is measured where nothing was said."""

import pytest

from specproxy.bench.options import BenchCommand, read_modes, read_numbers
from specproxy.bench.workloads import PROMPTS
from specproxy.errors import ConfigError


@pytest.mark.parametrize(
    ("command", "num_prompts", "num_tokens"),
    [
        (BenchCommand(), len(PROMPTS), 96),
        (BenchCommand(quick=True), 4, 32),
        (BenchCommand(rtt_sweep=(0, 80)), 6, 64),
        (BenchCommand(rtt_sweep=(0, 80), quick=True), 4, 32),
        (BenchCommand(rtt_sweep=(0, 80), num_prompts=2, num_tokens=8), 2, 8),
    ],
)
def test_how_much_is_measured(command: BenchCommand, num_prompts: int, num_tokens: int) -> None:
    assert (len(command.prompts), command.options.num_tokens) == (num_prompts, num_tokens)


def test_modes() -> None:
    assert read_modes("coordinator") == ("coordinator",)
    assert read_modes("seeding, coordinator,seeding") == ("seeding", "coordinator")
    assert BenchCommand(modes=read_modes("seeding,coordinator")).mode == "seeding,coordinator"
    with pytest.raises(ConfigError, match="--mode fanout is not built yet"):
        read_modes("seeding,fanout")
    with pytest.raises(ConfigError, match="--mode magic does not exist"):
        read_modes("magic")


def test_numbers() -> None:
    assert read_numbers("--rtt-sweep", "0,20,80", smallest=0, largest=5000) == (0, 20, 80)
    for wrong in ("", "a", "-1", "0,,1", "99999"):
        with pytest.raises(ConfigError, match=r"is no list of numbers from 0 to 5000"):
            read_numbers("--rtt-sweep", wrong, smallest=0, largest=5000)
