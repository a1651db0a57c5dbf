"""The same tokens as llama-server itself, for every sampler, with the same seed."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specproxy.core.sampling import SamplingParams
from specproxy.llama.batch import Batch
from specproxy.llama.context import Context
from specproxy.llama.model import Model
from specproxy.llama.sampler import Sampler
from specproxy.llama.vocabulary import ModelVocabulary
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.processes import free_ports

pytestmark = pytest.mark.real
NUM_TOKENS = 24
START_TIMEOUT_S = 60.0
PROMPT = "Once upon a time there was a small village by the sea. In the village by the sea there"
PLAIN = SamplingParams(seed=42)
FIELDS = {
    "penalty_last_n": "repeat_last_n",
    "penalty_repeat": "repeat_penalty",
    "penalty_freq": "frequency_penalty",
    "penalty_present": "presence_penalty",
}
"""llama-server's names, where they are not ours."""
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "greedy": {"temperature": 0.0},
    "hot": {"temperature": 1.7, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    "dynatemp": {"dynatemp_range": 0.6, "dynatemp_exponent": 1.3},
    "greedy with penalties": {
        "temperature": 0.0,
        "penalty_repeat": 1.3,
        "penalty_freq": 0.4,
        "penalty_present": 0.2,
    },
    "penalties over a short past": {"penalty_repeat": 1.5, "penalty_last_n": 6},
    "dry": {"dry_multiplier": 1.2, "dry_allowed_length": 1, "temperature": 0.6},
    "top_n_sigma": {"top_n_sigma": 1.1},
    "typical": {"typical_p": 0.6},
    "top_p": {"top_p": 0.5, "top_k": 0},
    "min_p": {"min_p": 0.3, "top_k": 0, "temperature": 1.4},
    "min_keep": {"min_p": 0.9, "top_p": 0.1, "min_keep": 5},
    "xtc": {"xtc_probability": 0.7, "xtc_threshold": 0.05},
    "mirostat": {"mirostat": 1, "mirostat_tau": 4.0},
    "mirostat 2": {"mirostat": 2, "mirostat_eta": 0.3},
    "another order": {"samplers": ("temperature", "top-p", "topk"), "temperature": 1.5},
    "no samplers": {"samplers": ()},
    "bias": {"logit_bias": ((28, 4.0), (260, float("-inf")))},
    "ignore_eos": {"ignore_eos": True, "temperature": 0.0},
    "grammar": {"grammar": 'root ::= ("yes" | "no" | [a-f] [0-9]) (" " root)?'},
    "greedy grammar": {"grammar": 'root ::= [A-Z]+ "." | [0-9]+', "temperature": 0.0},
}


@pytest.fixture(scope="module")
def server(
    binaries: LlamaBinaries, draft_model_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    (port,) = free_ports(1)
    command = f"{binaries.server} -m {draft_model_path} -c 512 -np 1 -t 1 --port {port}".split()
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as child:
        deadline = time.monotonic() + START_TIMEOUT_S
        url = f"http://127.0.0.1:{port}"
        while True:
            try:
                urllib.request.urlopen(f"{url}/health").close()
                break
            except (urllib.error.URLError, ConnectionError):
                assert child.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url
        child.kill()


@pytest.fixture(scope="module")
def context(model: Model) -> Iterator[Context]:
    opened = Context(model, num_tokens=512, num_batch_tokens=512)
    yield opened
    opened.close()


@pytest.mark.parametrize("name", CASES)
def test_llama_server_says_the_same(
    name: str, server: str, context: Context, model: Model, vocabulary: ModelVocabulary
) -> None:
    prompt = vocabulary.tokenize(PROMPT)
    params = replace(PLAIN, **CASES[name])
    assert ours(prompt, params, context, model, vocabulary) == theirs(prompt, params, server)


def ours(
    prompt: list[int],
    params: SamplingParams,
    context: Context,
    model: Model,
    vocabulary: ModelVocabulary,
) -> list[int]:
    context.seq_rm(0)
    sampler = Sampler(params, model, len(vocabulary))
    sampler.prime(prompt)
    batch = Batch(512)
    row = batch.extend(prompt, 0, 0, wants_last_logits=True)
    tokens: list[int] = []
    while True:
        assert context.decode(batch)
        tokens.append(sampler.choose(context.logits(row)))
        sampler.accept(tokens[-1])
        if len(tokens) == NUM_TOKENS or vocabulary.is_end(tokens[-1]):
            sampler.close()
            return tokens
        batch.clear()
        row = batch.add(tokens[-1], len(prompt) + len(tokens) - 1, [0], wants_logits=True)


def theirs(prompt: list[int], params: SamplingParams, server: str) -> list[int]:
    body: dict[str, Any] = {
        FIELDS.get(name, name): getattr(params, name) for name in SamplingParams.__slots__
    }
    body["logit_bias"] = [
        [token, False if bias == float("-inf") else bias] for token, bias in params.logit_bias
    ]
    body |= {
        "prompt": prompt,
        "n_predict": NUM_TOKENS,
        "cache_prompt": False,
        "return_tokens": True,
    }
    if not params.grammar:
        del body["grammar"]
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{server}/completion", data)
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as reply:
        tokens: list[int] = json.load(reply)["tokens"]
    return tokens
