"""Plans: the commands for the example pools, what does not fit, what a pass costs on the links."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from specproxy.core.worth import N_MAX
from specproxy.errors import ConfigError
from specproxy.pool.gguf.model import read_model
from specproxy.pool.plan import Plan, load_plan, make_plan
from specproxy.pool.plan_report import plan_command, plan_lines
from specproxy.pool.poolfile import PoolFile

Writer = Callable[..., Path]
POOLS = Path(__file__).parents[2] / "configs/pools"
WORKER = {"host": "127.0.0.1", "memory_gib": 8}


def words(plan: Plan, role: str) -> list[tuple[str, ...]]:
    return [command.argv for command in plan.commands if command.role == role]


def after(argv: tuple[str, ...], flag: str) -> str:
    assert argv.count(flag) == 1, flag
    return argv[argv.index(flag) + 1]


def pool(model: Path, *, num_workers: int = 2, **more: Any) -> PoolFile:
    listed = [{**WORKER, "name": f"w{at}", "port": 50052 + at} for at in range(num_workers)]
    sections = {
        "name": "p",
        "target": {"model": model, "context_tokens": 4096},
        "coordinator": {"memory_gib": 8},
        "workers": listed,
    }
    for name, section in more.items():
        old = sections.get(name)
        sections[name] = {**old, **section} if isinstance(old, dict) else section
    return PoolFile.model_validate(sections)


@pytest.mark.parametrize("name", ["lan", "nas", "wan"])
def test_commands_come_in_the_order_of_starting(name: str) -> None:
    plan = load_plan(POOLS / f"{name}.yaml")
    roles = [command.role for command in plan.commands]
    assert roles == ["worker", "worker", "coordinator", "proxy"]
    assert plan.problems == ()
    lines = "\n".join(plan_lines(plan))
    places = [lines.index(command.line) for command in plan.commands]
    assert places == sorted(places)


def test_workers_listen_where_the_file_says_with_one_device() -> None:
    first, second = words(load_plan(POOLS / "lan.yaml"), "worker")
    assert first[0] == "ggml-rpc-server"
    assert (after(first, "-H"), after(first, "-p")) == ("192.168.1.21", "50052")
    assert after(second, "-H") == "192.168.1.22"
    assert after(second, "-d") == "CUDA0"
    assert "-c" in second


@pytest.mark.parametrize(
    ("name", "devices", "split", "slots"),
    [("lan", "RPC0,RPC1,CUDA0", "24,16,12", "3"), ("nas", "RPC0,RPC1,CUDA0", "24,16,0", "2")],
)
def test_llama_server_gets_all_that_was_learned(
    name: str, devices: str, split: str, slots: str
) -> None:
    ((argv),) = words(load_plan(POOLS / f"{name}.yaml"), "coordinator")
    assert argv[0] == "llama-server"
    assert after(argv, "--rpc") == "192.168.1.21:50052,192.168.1.22:50052"
    assert after(argv, "--device") == devices
    assert after(argv, "--tensor-split") == split
    assert "--kv-unified" in argv
    assert after(argv, "--cache-ram") == "0"
    assert after(argv, "-sps") == "0"
    assert after(argv, "-np") == slots
    assert after(argv, "--spec-type") == "ngram-mod"
    assert after(argv, "--spec-ngram-mod-n-min") == "1"
    assert after(argv, "--fit") == "off"
    assert ("--override-tensor" in argv) == (name == "nas")


def test_the_nas_is_reached_by_ssh_and_keeps_its_key_in_a_file() -> None:
    plan = load_plan(POOLS / "nas.yaml")
    coordinator = plan.commands[2]
    assert coordinator.ssh == "admin@192.168.1.10"
    assert after(coordinator.argv, "--api-key-file") == "/volume1/models/api-key"
    assert plan.output_local
    assert plan.split[-1] == 0


def test_our_own_coordinator_gets_the_same_pool() -> None:
    ((argv),) = words(load_plan(POOLS / "wan.yaml"), "coordinator")
    assert argv[0] == "env"
    assert "SPECPROXY_COORDINATOR__TENSOR_SPLIT=[24,12,12]" in argv
    assert "SPECPROXY_COORDINATOR__CACHE_TYPE_K=q8_0" in argv
    assert "SPECPROXY_COORDINATOR__OUTPUT_LOCAL=false" in argv
    at = argv.index("specproxy")
    assert argv[at + 1] == "coordinator"
    assert [argv[i + 1] for i, word in enumerate(argv) if word == "--worker"] == [
        "100.64.0.21:50052",
        "100.64.0.22:50052",
    ]


def test_the_proxy_knows_target_and_draft() -> None:
    ((argv),) = words(load_plan(POOLS / "nas.yaml"), "proxy")
    assert "SPECPROXY_TARGET__URL=http://192.168.1.10:8080" in argv
    assert "SPECPROXY_DRAFT__MODEL=/models/draft.gguf" in argv
    assert argv[argv.index("specproxy") + 1] == "serve"


def test_a_model_that_may_not_be_looked_at_is_as_one_elsewhere(tmp_path: Path) -> None:
    """A name that is too long is refused as a forbidden folder is, to root as well."""
    text = (POOLS / "lan.yaml").read_text(encoding="utf-8")
    assert "model: /models/target.gguf" in text
    path = tmp_path / "pool.yaml"
    path.write_text(text.replace("/models/target.gguf", f"/{'x' * 300}"), encoding="utf-8")
    assert load_plan(path).problems == ()


def test_layers_are_counted_where_the_model_is(written: Writer) -> None:
    plan = make_plan(pool(written(num_layers=5)), read_model(written(num_layers=5)))
    assert plan.split == (3, 3)
    assert [load.layers for load in plan.loads] == [range(3), range(3, 5)]
    assert plan.output_local  # no device here: on the processor
    assert plan.problems == ()


def test_a_local_device_comes_last_and_takes_the_output(written: Writer) -> None:
    devices = [{"name": "CUDA0", "memory_gib": 8}]
    described = pool(written(), coordinator={"devices": devices})
    plan = make_plan(described, read_model(written()))
    assert not plan.output_local
    assert plan.loads[-1].has_output
    ((argv),) = words(plan, "coordinator")
    assert after(argv, "--device") == "RPC0,RPC1,CUDA0"
    assert all(cost.logit_bytes == 0 for cost in plan.costs)


def test_what_does_not_fit_comes_with_what_would(written: Writer) -> None:
    path = written(tokens=[f"t{at}" for at in range(40)])
    small = [{**WORKER, "name": f"w{at}", "port": 1 + at, "memory_gib": 0.55} for at in range(2)]
    tight = pool(path, target={"context_tokens": 2_000_000})
    tight = tight.model_copy(
        update={
            "workers": PoolFile.model_validate({**tight.model_dump(), "workers": small}).workers
        }
    )
    plan = make_plan(tight, read_model(path))
    (problem,) = plan.problems
    assert "w0 by" in problem
    assert "w1 by" in problem
    tokens = int(problem.split("target.context_tokens: ")[1].split(",")[0])
    mended = tight.model_copy(
        update={"target": tight.target.model_copy(update={"context_tokens": tokens})}
    )
    assert make_plan(mended, read_model(path)).problems == ()
    assert "more memory" in problem


def test_layers_that_do_not_add_up_are_refused(written: Writer) -> None:
    path = written(num_layers=4)
    for layers in (1, 3):
        listed = [{**WORKER, "name": f"w{at}", "port": 1 + at, "layers": layers} for at in (0, 1)]
        with pytest.raises(ConfigError, match=f"add up to {2 * layers}, the model has 4"):
            make_plan(pool(path, workers=listed), read_model(path))
    with pytest.raises(ConfigError, match="is not here"):
        make_plan(pool(Path("/nowhere.gguf"), workers=listed), None)


@pytest.mark.parametrize("host", ["0.0.0.0", "8.8.8.8"])
def test_a_public_worker_is_a_problem_with_its_reason(host: str, written: Writer) -> None:
    described = pool(written(), workers=[{**WORKER, "name": "w", "host": host}])
    (problem,) = make_plan(described, read_model(written())).problems
    assert host in problem
    assert "no authentication" in problem


def test_a_pass_costs_a_round_trip_for_each_worker(written: Writer) -> None:
    link = {"rtt_ms": 10, "mbit_s": 8}
    listed = [{**WORKER, "name": f"w{at}", "port": 1 + at, "link": link} for at in range(2)]
    plan = make_plan(pool(written(), workers=listed), read_model(written()))
    one, most = plan.costs
    assert (one.num_rows, most.num_rows) == (1, 1 + N_MAX)
    assert one.num_round_trips == 2
    assert one.hidden_bytes == 2 * 2 * 32 * 4
    assert one.link_ms == pytest.approx(20 + one.hidden_bytes / 1000)
    assert one.logit_bytes == 0


def test_a_plan_on_paper(written: Writer, tmp_path: Path) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(pool(written()).model_dump_json(), encoding="utf-8")
    out = Console(record=True, width=500, file=StringIO())
    assert plan_command(path, out) == 0
    text = out.export_text()
    assert "w0: layers 0-1" in text
    assert "2 round trips" in text
    out = Console(record=True, width=80, file=StringIO())
    assert plan_command(path, out, as_json=True) == 0
    data = json.loads(out.export_text())
    assert data["tensor_split"] == [2, 3]
    assert data["devices"][1]["num_layers"] == 2
