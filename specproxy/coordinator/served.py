"""What the application serves: a loaded model with all that its answers need."""

from dataclasses import dataclass
from typing import Self

from specproxy.coordinator.answer_format import AnswerFormat
from specproxy.coordinator.generation import Engine
from specproxy.coordinator.templates import ChatTemplate
from specproxy.llama.model import Model
from specproxy.llama.template import read_template


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a GGUF says of itself, for `/props` and `/v1/models`; nothing depends on it."""

    path: str = ""
    ftype: str = ""
    num_bytes: int = 0
    num_embedding: int = 0
    bos_text: str = ""
    eos_text: str = ""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """Who generates, how prompts are written, how answers are read.

    Attributes:
        longest_piece: bytes that a token can stand for at most.
    """

    engine: Engine
    template: ChatTemplate
    format: AnswerFormat
    facts: ModelFacts = ModelFacts()
    longest_piece: int = 256

    @classmethod
    def of(cls, engine: Engine, model: Model) -> Self:
        """`engine`, which generates with `model`, and the template in its file.

        Raises:
            ConfigError: the file's template is none.
            SpecproxyError: the model is closed.
        """
        found = read_template(model)
        template = ChatTemplate.of(found, engine.model_name)
        architecture = model.metadata("general.architecture") or ""
        facts = ModelFacts(
            path=str(model.path),
            ftype=model.description,
            num_bytes=model.num_bytes,
            num_embedding=int(model.metadata(f"{architecture}.embedding_length") or 0),
            bos_text=found.bos_text,
            eos_text=found.eos_text,
        )
        vocabulary = engine.vocabulary
        longest = max((len(vocabulary.piece(token)) for token in range(len(vocabulary))), default=1)
        return cls(engine, template, AnswerFormat.of(template.source), facts, max(1, longest))

    @property
    def num_context(self) -> int:
        """Tokens that one answer may have, prompt included: its `n_ctx`."""
        return min(self.engine.num_context, self.engine.num_context_trained)
