"""The grammar of a schema is llama-server's own, letter by letter."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from specproxy.coordinator.formats import grammar_for
from specproxy.errors import RequestError
from specproxy.llama.grammar import Grammar
from specproxy.llama.library import load
from specproxy.llama.model import Model
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from tests.coordinator.plain_server import PlainServer, plain_server
from tests.coordinator.schema.schemas import REFUSED, SCHEMAS

pytestmark = pytest.mark.real
CONVERTED = re.compile(r"Converted grammar: (.*?)\n\n", re.DOTALL)


async def theirs(server: PlainServer, schema: Any) -> str | None:
    seen = server.log_path.stat().st_size
    body = {"prompt": "x", "json_schema": schema, "n_predict": 1}
    status, _ = await server.post("/completion", body)
    if status != 200:
        return None
    for _ in range(100):
        with server.log_path.open("rb") as log:
            log.seek(seen)
            if found := CONVERTED.search(log.read().decode("utf-8", "replace")):
                return found[1]
        await asyncio.sleep(0.02)
    raise AssertionError("its log does not show the grammar")


async def test_grammars_are_the_same(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path: Path
) -> None:
    async with plain_server(binaries, demo_models.draft, tmp_path, "-lv", "5") as server:
        for schema in SCHEMAS:
            grammar = grammar_for({"json_schema": schema}).strip()
            assert grammar == await theirs(server, schema), json.dumps(schema)
        for schema, _ in REFUSED:
            with pytest.raises(RequestError):
                grammar_for({"json_schema": schema})
            if isinstance(schema, dict):
                assert await theirs(server, schema) is None


def test_libllama_reads_them(demo_models: DemoModels) -> None:
    model = Model(demo_models.draft, vocab_only=True)
    with model.hold() as handle:
        native = load().llama_model_get_vocab(handle)
        for schema in SCHEMAS:
            Grammar(grammar_for({"json_schema": schema}), native).close()
    model.close()
