"""What a model file says about chat: its templates, and the literals they refer to."""

from dataclasses import dataclass

from specproxy.llama.library import load
from specproxy.llama.model import Model


@dataclass(frozen=True, slots=True)
class ModelTemplate:
    """Attributes:
    source: the Jinja text; None: the file brings none.
    adds_bos: tokenising with specials puts BOS in front.
    adds_eos: ... and EOS at the end.
    """

    source: str | None
    bos_text: str
    eos_text: str
    adds_bos: bool
    adds_eos: bool


def read_template(model: Model) -> ModelTemplate:
    """The chat template of `model`; the one for tool use where there is no other.

    Raises:
        SpecproxyError: the model is closed.
    """
    api = load()
    with model.hold() as handle:
        vocabulary = api.llama_model_get_vocab(handle)

        def text_of(token: int) -> str:
            text = api.llama_vocab_get_text(vocabulary, token) if token >= 0 else b""
            return (text or b"").decode("utf-8", "replace")

        source = api.llama_model_chat_template(handle, None) or api.llama_model_chat_template(
            handle, b"tool_use"
        )
        return ModelTemplate(
            source.decode("utf-8", "replace") if source else None,
            text_of(api.llama_vocab_bos(vocabulary)),
            text_of(api.llama_vocab_eos(vocabulary)),
            bool(api.llama_vocab_get_add_bos(vocabulary)),
            bool(api.llama_vocab_get_add_eos(vocabulary)),
        )
