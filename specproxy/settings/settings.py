"""All settings of `specproxy serve`, and the routes that they make."""

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from specproxy.settings.routes import RouteName, RouteSettings
from specproxy.settings.sections import (
    CoordinatorSettings,
    DraftSettings,
    FanoutSettings,
    ListenSettings,
    LogSettings,
    PageSettings,
    SeedingSettings,
    StateSettings,
    TargetSettings,
)

PREFIX = "SPECPROXY_"


class Settings(BaseSettings):
    """All settings of `specproxy serve`."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
    )

    route: RouteName = "default"
    listen: ListenSettings = ListenSettings()
    target: TargetSettings = TargetSettings()
    coordinator: CoordinatorSettings | None = None
    draft: DraftSettings | None = None
    seeding: SeedingSettings = SeedingSettings()
    fanout: FanoutSettings = FanoutSettings()
    page: PageSettings = PageSettings()
    state: StateSettings = StateSettings()
    log: LogSettings = LogSettings()
    routes: dict[RouteName, RouteSettings] = {}

    @property
    def names_target(self) -> bool:
        """Whether the top of the file is a route of its own: always, unless `routes` alone name
        targets."""
        is_named = "url" in self.target.model_fields_set or self.coordinator is not None
        return is_named or not self.routes

    @property
    def all_routes(self) -> dict[str, RouteSettings]:
        """Every route by its name, the default one first, with all that it inherits."""
        top = RouteSettings(
            target=self.target, draft=self.draft, seeding=self.seeding, fanout=self.fanout
        )
        more = {name: route.below(top) for name, route in self.routes.items()}
        return {self.route: top, **more} if self.names_target else more

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments over environment over file (the file is an argument of `load`)."""
        return init_settings, env_settings
