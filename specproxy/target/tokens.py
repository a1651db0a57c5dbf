"""The target's own tokenizer and chat template, over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any

from specproxy.target.client import TargetClient


class TargetTokens:
    """Texts to the target's token ids and back."""

    def __init__(self, client: TargetClient) -> None:
        self._client = client

    async def tokenize(
        self, text: str | Sequence[Any], *, add_special: bool = False, parse_special: bool = True
    ) -> list[int]:
        """Ids of `text`, as the completion routes would read it with these flags."""
        reply = await self._client.json(
            "POST",
            "/tokenize",
            {"content": text, "add_special": add_special, "parse_special": parse_special},
        )
        return list(reply["tokens"])

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Text of `tokens`; broken UTF-8 comes back as U+FFFD."""
        reply = await self._client.json("POST", "/detokenize", {"tokens": list(tokens)})
        return str(reply["content"])

    async def num_tokens(self) -> int:
        """Size of the target's vocabulary, padding included."""
        reply = await self._client.json("GET", "/v1/models")
        return int(reply["data"][0]["meta"]["n_vocab"])

    async def chat_prompt(self, body: Mapping[str, Any]) -> list[int]:
        """Ids of the prompt that the chat route makes of `body`."""
        return await self.tokenize(await self.chat_text(body), add_special=True)

    async def chat_text(self, body: Mapping[str, Any]) -> str:
        """That prompt's text."""
        reply = await self._client.json("POST", "/apply-template", body)
        return str(reply["prompt"])
