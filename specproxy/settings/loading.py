"""Reading settings: a YAML file, overridden by `SPECPROXY_*` environment variables.

Nested keys in the environment are joined by two underscores: `SPECPROXY_TARGET__URL`.
"""

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsError,
    YamlConfigSettingsSource,
)
from yaml import YAMLError

from specproxy.errors import ConfigError
from specproxy.settings.checks import check
from specproxy.settings.settings import PREFIX, Settings

OTHERS = frozenset({"SPECPROXY_LLAMA_DIR"})
"""Variables of that prefix that are not settings of the proxy."""


def load(path: Path | None = None, **overrides: Any) -> Settings:
    """Read settings.

    Args:
        path: YAML file; None uses defaults and environment alone.
        overrides: sections given by the caller (tests, the demo); they win.

    Raises:
        ConfigError: which key is wrong, and what it may be.
    """
    if path is not None and not path.is_file():
        raise ConfigError(
            f"There is no settings file {path}.", remedy="Start from one of those in configs/."
        )

    return _loaded(Settings if path is None else _from_file(path), path, overrides)


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
    except (SettingsError, YAMLError, TypeError, ValueError) as error:
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
    """Settings that read the file, too, after all other sources."""

    class FileSettings(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *args: Any, **kwargs: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            sources = super().settings_customise_sources(settings_cls, *args, **kwargs)
            return (*sources, YamlConfigSettingsSource(settings_cls, yaml_file=path))

    return FileSettings


def _refuse_unknown_variables() -> None:
    """pydantic-settings passes over variables that name no setting; a typo must not pass."""
    for name in os.environ:
        head = name.removeprefix(PREFIX).split("__")[0].lower()
        if name.startswith(PREFIX) and head not in Settings.model_fields and name not in OTHERS:
            known = ", ".join(sorted(Settings.model_fields))
            raise ConfigError(
                f"The environment variable {name} names no setting.",
                remedy=f"Known sections are {known}; nested keys follow two underscores.",
            )


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
