"""What was asked for, and how much is measured where nothing was said."""

import pytest

from specproxy.bench.options import BenchCommand, read_modes, read_numbers, read_workload
from specproxy.bench.workloads import LONG, PROMPTS
from specproxy.errors import ConfigError


@pytest.mark.parametrize(
    ("command", "num_prompts", "num_tokens"),
    [
        (BenchCommand(), len(PROMPTS), 96),
        (BenchCommand(quick=True), 4, 32),
        (BenchCommand(rtt_sweep=(0, 80)), 6, 64),
        (BenchCommand(rtt_sweep=(0, 80), quick=True), 4, 32),
        (BenchCommand(rtt_sweep=(0, 80), num_prompts=2, num_tokens=8), 2, 8),
        (BenchCommand(clients=(1, 4, 8)), 16, 48),
        (BenchCommand(clients=(1, 8), quick=True), 8, 32),
        (BenchCommand(workload="long"), len(LONG), 96),
    ],
)
def test_how_much_is_measured(command: BenchCommand, num_prompts: int, num_tokens: int) -> None:
    assert (len(command.prompts), command.options.num_tokens) == (num_prompts, num_tokens)


def test_modes() -> None:
    assert read_modes("coordinator") == ("coordinator",)
    assert read_modes("seeding, coordinator,seeding") == ("seeding", "coordinator")
    assert BenchCommand(modes=read_modes("seeding,coordinator")).mode == "seeding,coordinator"
    with pytest.raises(ConfigError, match="--mode turbo does not exist"):
        read_modes("seeding,turbo")
    with pytest.raises(ConfigError, match="--mode magic does not exist"):
        read_modes("magic")


def test_what_cannot_be_measured_is_said() -> None:
    BenchCommand(clients=(1, 16)).check()
    with pytest.raises(ConfigError, match="cannot be swept at once"):
        BenchCommand(clients=(1, 4), rtt_sweep=(0, 80)).check()
    with pytest.raises(ConfigError, match="16 prompts are not enough for 17 at a time"):
        BenchCommand(clients=(1, 17)).check()
    with pytest.raises(ConfigError, match="There are 4 prompts, not 5"):
        BenchCommand(workload="long", num_prompts=5).check()


def test_a_sweep_over_clients_compares_throughput_from_one_client_on() -> None:
    assert BenchCommand(clients=(1, 4)).options.by_throughput
    assert BenchCommand(clients=(4,)).options.by_throughput
    assert not BenchCommand(clients=(1,)).options.by_throughput


def test_workloads() -> None:
    assert read_workload("long") == "long"
    with pytest.raises(ConfigError, match="--workload wide does not exist"):
        read_workload("wide")


def test_numbers() -> None:
    assert read_numbers("--rtt-sweep", "0,20,80", smallest=0, largest=5000) == (0, 20, 80)
    for wrong in ("", "a", "-1", "0,,1", "99999"):
        with pytest.raises(ConfigError, match=r"is no list of numbers from 0 to 5000"):
            read_numbers("--rtt-sweep", wrong, smallest=0, largest=5000)
