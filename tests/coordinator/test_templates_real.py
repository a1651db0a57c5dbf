"""Rendered prompts equal those of llama-server's /apply-template."""

from pathlib import Path

import pytest

from specproxy.coordinator.templates import ChatTemplate
from specproxy.errors import RequestError
from specproxy.llama.model import Model
from specproxy.llama.template import read_template
from specproxy.llama.vocabulary import ModelVocabulary
from specproxy.pool.binaries import LlamaBinaries
from specproxy.pool.models import DemoModels
from tests.coordinator.conversations import WITH_TOOLS, WITHOUT_TOOLS
from tests.coordinator.plain_server import PlainServer, plain_server

pytestmark = pytest.mark.real
TEMPLATES = Path(__file__).parent / "templates"
WITH_TOOLS_KNOWN = ("hermes", "llama3", "mistral", "harmony")


def ours(template: ChatTemplate, body: dict[str, object]) -> str | None:
    try:
        return template.apply(body)
    except RequestError:
        return None


async def theirs(server: PlainServer, body: dict[str, object]) -> str | None:
    status, answer = await server.post("/apply-template", body)
    return answer["prompt"] if status == 200 else None


@pytest.mark.parametrize(
    "name", ["hermes", "thinking", "llama3", "mistral", "no_system", "harmony"]
)
async def test_written_templates(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path: Path, name: str
) -> None:
    path = TEMPLATES / f"{name}.jinja"
    arguments = ("--chat-template-file", str(path))
    async with plain_server(binaries, demo_models.draft, tmp_path, *arguments) as server:
        props = await server.get("/props")
        template = ChatTemplate(
            path.read_text(),
            bos_text=props["bos_token"],
            eos_text=props["eos_token"],
            model_name=name,
            adds_bos=False,
        )
        assert template.takes_tools == (name in WITH_TOOLS_KNOWN)
        bodies = [*WITHOUT_TOOLS, *(WITH_TOOLS if template.takes_tools else [])]
        num_rendered = 0
        for body in bodies:
            prompt = ours(template, body)
            assert prompt == await theirs(server, body), body
            num_rendered += prompt is not None
        assert num_rendered > len(bodies) / 2


async def test_model_s_own_template(
    binaries: LlamaBinaries, demo_models: DemoModels, tmp_path: Path
) -> None:
    model = Model(demo_models.draft, vocab_only=True)
    try:
        template = ChatTemplate.of(read_template(model), model.name)
        vocabulary = ModelVocabulary(model)
        async with plain_server(binaries, demo_models.draft, tmp_path) as server:
            for body in WITHOUT_TOOLS:
                prompt, expected = ours(template, body), await theirs(server, body)
                assert prompt == expected, body
                if prompt is None:
                    continue
                tokens = vocabulary.tokenize(prompt, add_special=True, parse_special=True)
                request = {"content": prompt, "add_special": True, "parse_special": True}
                _, answer = await server.post("/tokenize", request)
                assert tokens == answer["tokens"]
    finally:
        model.close()
