"""The token ids of a model and their texts, as `core.vocabulary.Vocabulary`.

Invariant: the tables are built once and never change; only `tokenize` reaches for libllama, whose
vocabulary is constant, so that every method may be called from any thread.
"""

import ctypes
from typing import Any

from specproxy.errors import SpecproxyError
from specproxy.llama.library import load
from specproxy.llama.model import Model

_PIECE_BYTES = 256


class ModelVocabulary:
    """A model's vocabulary. Everything but `tokenize` outlives the model."""

    def __init__(self, model: Model) -> None:
        """Read all pieces; takes about a microsecond per token and piece.

        Raises:
            SpecproxyError: the model is closed or has no vocabulary.
        """
        self._model = model
        api = load()
        with model.hold() as handle:
            native = api.llama_model_get_vocab(handle)
            num_tokens: int = api.llama_vocab_n_tokens(native)
            if num_tokens == 0:
                raise SpecproxyError(f"The model {model.name} has no vocabulary.")
            self.adds_bos: bool = api.llama_vocab_get_add_bos(native)
            reader = _PieceReader(api, native)
            self._pieces = [reader.read(token, special=False) for token in range(num_tokens)]
            self._ends = frozenset(
                token for token in range(num_tokens) if api.llama_vocab_is_eog(native, token)
            )
            unspoken = api.LLAMA_TOKEN_ATTR_CONTROL | api.LLAMA_TOKEN_ATTR_UNKNOWN
            literal = unspoken | api.LLAMA_TOKEN_ATTR_USER_DEFINED
            attributes = [api.llama_vocab_get_attr(native, token) for token in range(num_tokens)]
            self._specials = {
                token: reader.read(token, special=True).decode("utf-8", "replace")
                for token, attribute in enumerate(attributes)
                if attribute & literal
            }
        # User-defined tokens count as ordinary here: they show in a stream, and the tokenizer
        # makes them of their text without being asked to read specials. Byte tokens come last:
        # a tokenizer uses them only for what it has no other token for.
        self._by_piece: dict[bytes, int] = {}
        for byte_tokens in (0, api.LLAMA_TOKEN_ATTR_BYTE):
            for token, piece in enumerate(self._pieces):
                kind = attributes[token]
                if (
                    piece
                    and not kind & unspoken
                    and kind & api.LLAMA_TOKEN_ATTR_BYTE == byte_tokens
                ):
                    self._by_piece.setdefault(piece, token)

    def __repr__(self) -> str:
        return f"<ModelVocabulary {self.name} {len(self)} tokens>"

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def name(self) -> str:
        return self._model.name

    def piece(self, token: int) -> bytes:
        if token < 0:
            raise IndexError(token)
        return self._pieces[token]

    def special_text(self, token: int) -> str | None:
        """As in the protocol; the unknown-token's literal too."""
        return self._specials.get(token)

    def token_of(self, piece: bytes) -> int | None:
        """As in the protocol; a byte token only where no other has this piece."""
        return self._by_piece.get(piece)

    def is_end(self, token: int) -> bool:
        return token in self._ends

    def tokenize(
        self, text: str, *, add_special: bool = False, parse_special: bool = False
    ) -> list[int]:
        """As in the protocol. Lone surrogates become `?`.

        Raises:
            SpecproxyError: the model is closed.
        """
        api = load()
        encoded = text.encode("utf-8", "replace")
        capacity = len(encoded) + 8
        with self._model.hold() as handle:
            native = api.llama_model_get_vocab(handle)
            while True:
                tokens = (ctypes.c_int32 * capacity)()
                count: int = api.llama_tokenize(
                    native, encoded, len(encoded), tokens, capacity, add_special, parse_special
                )
                if count >= 0:
                    return tokens[:count]
                if -count <= capacity:
                    raise SpecproxyError(f"libllama cannot tokenize {len(encoded)} bytes.")
                capacity = -count


class _PieceReader:
    """`llama_token_to_piece` with one buffer."""

    def __init__(self, api: Any, native: int) -> None:
        self._convert = api.llama_token_to_piece
        self._native = native
        self._buffer = ctypes.create_string_buffer(_PIECE_BYTES)

    def read(self, token: int, *, special: bool) -> bytes:
        buffer = self._buffer
        count: int = self._convert(self._native, token, buffer, len(buffer), 0, special)
        if count < 0:
            self._buffer = buffer = ctypes.create_string_buffer(-count)
            count = self._convert(self._native, token, buffer, len(buffer), 0, special)
        return ctypes.string_at(buffer, count)
