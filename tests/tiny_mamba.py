"""A recurrent model of a few hundred kilobytes with drawn weights: it says nonsense, always the
same, and nonsense of another kind where it goes on from a state that is not its context's."""

from pathlib import Path

import gguf
import numpy as np

NUM_VOCABULARY = 64
_WIDTH = 32
_INNER = 2 * _WIDTH
_STATE = 16
_CONVOLUTION = 4
_RANK = 2


def write_mamba(path: Path) -> Path:
    """One layer of Mamba; token 63 ends a text."""
    rng = np.random.default_rng(5)

    def drawn(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_context_length(2048)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_ssm_conv_kernel(_CONVOLUTION)
    writer.add_ssm_inner_size(_INNER)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_time_step_rank(_RANK)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"word{token}" for token in range(NUM_VOCABULARY)])
    writer.add_token_types([gguf.TokenType.NORMAL] * NUM_VOCABULARY)
    writer.add_token_merges(["w o"])
    writer.add_bos_token_id(NUM_VOCABULARY - 1)
    writer.add_eos_token_id(NUM_VOCABULARY - 1)
    writer.add_tensor("token_embd.weight", drawn(NUM_VOCABULARY, _WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(_WIDTH, np.float32))
    layer = {
        "attn_norm.weight": np.ones(_WIDTH, np.float32),
        "ssm_in.weight": drawn(2 * _INNER, _WIDTH),
        "ssm_conv1d.weight": drawn(_INNER, _CONVOLUTION),
        "ssm_conv1d.bias": drawn(_INNER),
        "ssm_x.weight": drawn(_RANK + 2 * _STATE, _INNER) / 8,
        "ssm_dt.weight": drawn(_INNER, _RANK) / 8,
        "ssm_dt.bias": np.full(_INNER, -4.0, np.float32),  # (so that it forgets slowly)
        "ssm_a": -np.tile(np.arange(1, _STATE + 1, dtype=np.float32) / _STATE, (_INNER, 1)),
        "ssm_d": np.ones(_INNER, np.float32),
        "ssm_out.weight": drawn(_WIDTH, _INNER),
    }
    for name, weights in layer.items():
        writer.add_tensor(f"blk.0.{name}", weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
