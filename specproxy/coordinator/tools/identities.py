"""Ids of tool calls, in the forms that templates accept."""

import secrets
import string

_ALPHABET = string.ascii_letters + string.digits


def random_id(num_characters: int = 32) -> str:
    """Letters and digits, as llama-server gives them."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(num_characters))


def short_id() -> str:
    """Nine characters: what Mistral's templates demand."""
    return random_id(9)
