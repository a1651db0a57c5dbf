"""Settings: `load` reads them, strict and frozen; `Settings` holds them, by sections."""

from specproxy.settings.loading import OTHERS, load, load_one_target
from specproxy.settings.routes import ANY, RouteSettings
from specproxy.settings.sections import (
    ApiKey,
    CacheType,
    CoordinatorSettings,
    DraftSettings,
    FanoutSettings,
    ListenSettings,
    LogSettings,
    Origin,
    OwnPath,
    PageSettings,
    Section,
    SeedingSettings,
    StateSettings,
    TargetSettings,
    Worker,
)
from specproxy.settings.settings import PREFIX, Settings
from specproxy.settings.yaml_file import read_yaml

__all__ = [
    "ANY",
    "OTHERS",
    "PREFIX",
    "ApiKey",
    "CacheType",
    "CoordinatorSettings",
    "DraftSettings",
    "FanoutSettings",
    "ListenSettings",
    "LogSettings",
    "Origin",
    "OwnPath",
    "PageSettings",
    "RouteSettings",
    "Section",
    "SeedingSettings",
    "Settings",
    "StateSettings",
    "TargetSettings",
    "Worker",
    "load",
    "load_one_target",
    "read_yaml",
]
