"""Does a draft suit a target, as far as their files tell? The tokenizers, compared token by token.

The same vocabulary is necessary, not sufficient: only acceptance, measured, tells the rest.
"""

from dataclasses import dataclass

from specproxy.pool.gguf.model import ModelFile

_KEYS = ("model", "pre", "bos_token_id", "eos_token_id", "add_bos_token", "add_space_prefix")


@dataclass(frozen=True, slots=True)
class Pairing:
    """How a draft fits a target.

    Attributes:
        difference: the first one found that makes it unfit; empty where there is none.
        doubts: what may make it a bad draft all the same.
    """

    difference: str
    doubts: tuple[str, ...]

    @property
    def is_fit(self) -> bool:
        return not self.difference


def compare(target: ModelFile, draft: ModelFile) -> Pairing:
    """Compare the two; ids that only one has (padding) do not count."""
    return Pairing(_difference(target, draft), tuple(_doubts(target, draft)))


def _difference(target: ModelFile, draft: ModelFile) -> str:
    for key in _KEYS:
        ours, theirs = (model.metadata.get(f"tokenizer.ggml.{key}") for model in (draft, target))
        if ours != theirs and (ours is not None and theirs is not None):
            return f"tokenizer.ggml.{key} is {ours!r} in the draft and {theirs!r} in the target"
    if not target.tokens or not draft.tokens:
        return "one of the two has no vocabulary"
    for token, (ours, theirs) in enumerate(zip(draft.tokens, target.tokens, strict=False)):
        if ours != theirs:
            return f"token {token} is {ours!r} in the draft and {theirs!r} in the target"
    merges = [model.metadata.get("tokenizer.ggml.merges") for model in (draft, target)]
    if merges[0] != merges[1]:
        return "their merges differ: the same text becomes other tokens"
    return ""


def _doubts(target: ModelFile, draft: ModelFile) -> list[str]:
    doubts = []
    if draft.file_bytes > target.file_bytes and target.tensors:
        doubts.append("the draft is larger than the target")
    names = [model.text("general.basename").lower() for model in (draft, target)]
    if all(names) and names[0] != names[1]:
        doubts.append(f"the draft calls itself {names[0]}, the target {names[1]}")
    elif draft.architecture != target.architecture:
        doubts.append(
            f"the draft's architecture is {draft.architecture}, the target's {target.architecture}"
        )
    if draft.chat_template and target.chat_template and draft.chat_template != target.chat_template:
        doubts.append("their chat templates differ (the target's is used)")
    return doubts
