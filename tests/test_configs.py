"""The example settings: all of them load, and example.yaml explains every key as it is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from specproxy.settings import (
    CoordinatorSettings,
    DraftSettings,
    RouteSettings,
    Settings,
    load,
)

CONFIGS = Path(__file__).parent.parent / "configs"
FILES = sorted(CONFIGS.glob("*.yaml"))
EXAMPLE = CONFIGS / "example.yaml"
BOUNDS = {"ge": "Minimum", "gt": "Above", "le": "Maximum", "lt": "Below"}


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """The group of settings that a field holds, also where it may be left out."""
    kinds = [field.annotation, *get_args(field.annotation)]
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)


def settings_keys(
    model: type[BaseModel] = Settings, above: str = ""
) -> Iterator[tuple[str, FieldInfo]]:
    """Every key that has a value, with dots between the sections."""
    for name, field in model.model_fields.items():
        section = section_of(field) if name != "routes" else None
        if section is None:
            yield above + name, field
        else:
            yield from settings_keys(section, f"{above}{name}.")


KEYS = dict(settings_keys())


def explained() -> dict[str, tuple[Any, str]]:
    """Key -> (its value in example.yaml, the comment above it)."""
    found: dict[str, tuple[Any, str]] = {}
    section, comment = "", ""
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment += f" {text.lstrip('# ')}"
        elif re.fullmatch(r"\w+:", line):
            section, comment = f"{line}.".replace(":", ""), ""
        elif text:
            ((name, value),) = yaml.safe_load(text).items()
            found[(section if line.startswith(" ") else "") + name] = (value, comment)
            comment = ""
        else:
            comment = ""
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_example_loads(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = tmp_path / "draft.gguf"
    draft.touch()
    monkeypatch.setenv("SPECPROXY_DRAFT__MODEL", str(draft))
    monkeypatch.setenv("SPECPROXY_LISTEN__API_KEY", "a-key")
    written = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "coordinator" in written:
        monkeypatch.setenv("SPECPROXY_COORDINATOR__MODEL", str(draft))
    settings = load(path)
    assert settings.draft is not None
    assert settings.draft.model == draft
    (name, first), *more = settings.all_routes.items()
    if written.get("routes"):
        assert [name, *(name for name, _ in more)] == list(written["routes"])
        target = written["routes"][name]["target"]
    else:
        assert (name, more) == (written["route"], [])
        target = written["target"]
    assert first.target.url == target["url"]
    assert settings.draft.gpu_layers == written["draft"].get("gpu_layers", 0)


def test_the_examples_are_those_that_the_readme_names() -> None:
    names = {path.name for path in FILES}
    assert names == {
        "example.yaml",
        "lan.yaml",
        "nas-coordinator.yaml",
        "routes.yaml",
        "wan-tailscale.yaml",
    }
    readme = (CONFIGS.parent / "README.md").read_text(encoding="utf-8")
    assert all(f"configs/{name}" in readme for name in names)


def test_example_mentions_every_key_and_no_other() -> None:
    assert set(explained()) == set(KEYS)


def test_routes_mentions_every_key_of_a_route_with_its_default() -> None:
    text = (CONFIGS / "routes.yaml").read_text(encoding="utf-8")
    routes = yaml.safe_load(text)["routes"].values()
    assert {key for route in routes for key in route} == set(RouteSettings.model_fields)
    for key in ("aliases", "keys", "max_requests", "max_body_bytes"):
        default = RouteSettings.model_fields[key].default
        comment = text.split(f"    {key}: ")[0].split("\n\n")[-1].replace("\n    #", "")
        said = json.dumps(list(default) if default == () else default)
        assert f"Default: {said}" in comment, comment


@pytest.mark.parametrize("key", [key for key in KEYS if not key.endswith(".model")])
def test_example_has_each_key_with_its_true_default(key: str) -> None:
    value, comment = explained()[key]
    default = KEYS[key].get_default(call_default_factory=True)
    default = list(default) if isinstance(default, tuple) else default
    assert value == default
    assert type(value) is type(default)
    said = json.dumps(default).strip('"')
    assert re.search(rf"Default: {re.escape(said)}[.,; ]", f"{comment} "), comment


@pytest.mark.parametrize("key", KEYS)
def test_example_says_each_keys_bounds(key: str) -> None:
    _, comment = explained()[key]
    limits = {
        word: getattr(item, name)
        for item in KEYS[key].metadata
        for name, word in BOUNDS.items()
        if getattr(item, name, None) is not None
    }
    said = {
        word: float(n) for word, n in re.findall(r"(Minimum|Above|Maximum|Below): (-?\d+)", comment)
    }
    assert said == limits
    words = [word for kind in (KEYS[key].annotation,) for word in get_args(kind)]
    assert all(re.search(rf"\b{word}\b", comment) for word in words if isinstance(word, str)), (
        comment
    )


@pytest.mark.parametrize("section", ["draft", "coordinator"])
def test_a_section_with_a_model_may_be_left_out_but_not_its_model(section: str) -> None:
    assert getattr(load(None), section) is None
    kind = {"draft": DraftSettings, "coordinator": CoordinatorSettings}[section]
    assert kind.model_fields["model"].is_required()
