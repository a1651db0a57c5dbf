"""Whether a draft suits a target, by their files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specproxy.pool.gguf.model import read_model
from specproxy.pool.gguf.vocabulary import Pairing, compare

Writer = Callable[..., Path]
PRE = "tokenizer.ggml.pre"
MERGES = "tokenizer.ggml.merges"


def paired(written: Writer, target: dict[str, Any], draft: dict[str, Any]) -> Pairing:
    return compare(
        read_model(written("target.gguf", **target)), read_model(written("draft.gguf", **draft))
    )


def test_the_same_vocabulary_fits_padded_or_not(written: Writer) -> None:
    tokens = [f"t{number}" for number in range(32)]
    pairing = paired(written, {"tokens": tokens}, {"tokens": tokens[:30]})
    assert pairing.is_fit
    assert pairing.doubts == ()


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        ({"tokens": ["a", "b", "c", "e"]}, "token 3 is 'e' in the draft and 'd' in the target"),
        ({"metadata": {PRE: "qwen2", MERGES: ["a b"]}}, "pre is 'qwen2' in the draft"),
        ({"metadata": {PRE: "llama-bpe", MERGES: ["b a"]}}, "their merges differ"),
        ({"tokens": ["a"], "metadata": {"tokenizer.ggml.bos_token_id": 3}}, "bos_token_id is 3"),
    ],
)
def test_the_first_difference_is_named(written: Writer, draft: dict[str, Any], said: str) -> None:
    tokens = ["a", "b", "c", "d"]
    common = {PRE: "llama-bpe", MERGES: ["a b"], "tokenizer.ggml.bos_token_id": 1}
    draft = {"tokens": tokens, **draft}
    draft["metadata"] = {**common, **draft.get("metadata", {})}
    pairing = paired(written, {"tokens": tokens, "metadata": common}, draft)
    assert said in pairing.difference


def test_doubts_do_not_forbid(written: Writer) -> None:
    name = "general.basename"
    pairing = paired(
        written,
        {"metadata": {name: "Llama-3.3", "tokenizer.chat_template": "a"}, "num_layers": 1},
        {"metadata": {name: "Llama-3.2", "tokenizer.chat_template": "b"}, "num_layers": 9},
    )
    assert pairing.is_fit
    assert len(pairing.doubts) == 3
    assert "larger" in pairing.doubts[0]
    assert "llama-3.2" in pairing.doubts[1]
