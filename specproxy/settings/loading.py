"""Reading settings: a YAML file, overridden by `SPECPROXY_*` environment variables.

Nested keys in the environment are joined by two underscores: `SPECPROXY_TARGET__URL`.
"""

import os
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
)

from specproxy.errors import ConfigError
from specproxy.settings.checks import check
from specproxy.settings.settings import PREFIX, Settings
from specproxy.settings.yaml_file import read_yaml

OTHERS = frozenset({"SPECPROXY_LLAMA_DIR"})
"""Variables of that prefix that are not settings of the proxy."""
_OF_A_SERVICE = re.compile(
    rf"{PREFIX}(\w+_)?(SERVICE_HOST|SERVICE_PORT\w*|PORT_\d+_(TCP|UDP|SCTP)\w*)"
)
"""What Kubernetes gives every container where a Service is called specproxy or specproxy-x; and
`..._PORT`, an address there."""


def load(path: Path | None = None, **overrides: Any) -> Settings:
    """Read settings.

    Args:
        path: YAML file; None uses defaults and environment alone.
        overrides: sections given by the caller (tests, the demo); they win.

    Raises:
        ConfigError: which key is wrong, and what it may be.
    """
    kind = Settings if path is None else _from_file(path)
    return _loaded(kind, path, overrides)


def load_one_target(**overrides: Any) -> Settings:
    """Settings for a command that looks at one target, from the environment alone: what that has
    for routes, such as their keys, is for `specproxy serve`.

    Raises:
        ConfigError: as `load`.
    """
    return _loaded(_OneTarget, None, overrides)


def _loaded(kind: type[Settings], path: Path | None, overrides: dict[str, Any]) -> Settings:
    _refuse_unknown_variables()
    try:
        settings = kind(**overrides)
    except ValidationError as error:
        raise ConfigError(_explain(error), remedy=_where(path)) from error
    except (SettingsError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"The settings cannot be read: {reason}.", remedy=_where(path)) from error
    check(settings)
    return settings


class _OneTarget(Settings):
    """Settings without routes beside the target at the top."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, _WithoutRoutes(settings_cls)


class _WithoutRoutes(EnvSettingsSource):
    """The environment but for its routes."""

    def __call__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__call__().items() if name != "routes"}


def _from_file(path: Path) -> type[Settings]:
    """Settings that take what the file says, too, after all other sources."""
    content = read_yaml(path, "settings file", remedy="Start from one of those in configs/.")

    class FileSettings(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *args: Any, **kwargs: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            sources = super().settings_customise_sources(settings_cls, *args, **kwargs)
            return (*sources, InitSettingsSource(settings_cls, content))

    return FileSettings


def _refuse_unknown_variables() -> None:
    """pydantic-settings passes over variables that name no setting; a typo must not pass."""
    for name, value in os.environ.items():
        head = name.removeprefix(PREFIX).split("__")[0].lower()
        if not name.startswith(PREFIX) or head in Settings.model_fields or name in OTHERS:
            continue
        if not _is_of_a_service(name, value):
            known = ", ".join(sorted(Settings.model_fields))
            raise ConfigError(
                f"The environment variable {name} names no setting.",
                remedy=f"Known sections are {known}; nested keys follow two underscores.",
            )


def _is_of_a_service(name: str, value: str) -> bool:
    is_address = name.endswith("_PORT") and "://" in value
    return is_address or _OF_A_SERVICE.fullmatch(name) is not None


def _explain(error: ValidationError) -> str:
    """One sentence per wrong key; never the value, which may be a secret."""
    lines = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"])
        text = item["msg"].removeprefix("Value error, ")
        text = "no such key" if item["type"] == "extra_forbidden" else text
        lines.append(f"{key}: {text}.")
    return "Settings: " + " ".join(lines)


def _where(path: Path | None) -> str:
    source = f"{path} and the SPECPROXY_* variables" if path else "the SPECPROXY_* variables"
    return f"Check {source} against configs/example.yaml, which explains every key."
