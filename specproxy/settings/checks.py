"""What settings must fulfil together, beyond each key's own bounds."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from specproxy.errors import ConfigError
from specproxy.settings.routes import RouteSettings
from specproxy.settings.sections import DraftSettings
from specproxy.settings.settings import Settings


def check(settings: Settings) -> None:
    """
    Raises:
        ConfigError: which key, and what to do.
    """
    listen = settings.listen
    if not (listen.is_loopback or listen.api_key or listen.allow_public_without_key):
        raise ConfigError(
            f"listen.host {listen.host} is open to other machines, but listen.api_key is not set.",
            remedy="Set listen.api_key, or listen.allow_public_without_key: true if you mean it.",
        )
    if settings.coordinator is not None:
        _check_file(
            "coordinator.model",
            settings.coordinator.model,
            remedy="Give the path of the target's GGUF; the workers need no copy of it.",
        )
    if settings.draft is not None:
        _check_draft("draft", settings.draft)
    for name, route in settings.routes.items():
        _check_route(name, route, settings)
    routes = settings.all_routes
    _check_names(settings, routes)
    _check_targets(settings, routes)
    _check_drafts(routes)


def _check_draft(section: str, draft: DraftSettings) -> None:
    _check_file(
        f"{section}.model",
        draft.model,
        remedy="Give the path of a small GGUF of the target's family, or leave draft out.",
    )


def _check_file(key: str, path: Path, *, remedy: str) -> None:
    """It is there, and this user may read it."""
    try:
        with path.open("rb"):
            return
    except (FileNotFoundError, ValueError) as error:  # ValueError: no file can be called that
        raise ConfigError(f"{key}: there is no file {path}.", remedy=remedy) from error
    except OSError as error:
        raise ConfigError(
            f"{key}: {path} cannot be read: {error.strerror}.", remedy=remedy
        ) from error


def _check_route(name: str, route: RouteSettings, settings: Settings) -> None:
    if "url" not in route.target.model_fields_set:
        raise ConfigError(
            f"routes.{name}.target.url is not set.",
            remedy="Each route names its own target; all else it may inherit.",
        )
    if route.keys and settings.listen.api_key is None:
        raise ConfigError(
            f"routes.{name}.keys are set, but listen.api_key is not.",
            remedy="Set listen.api_key: your own key, which opens every route, page and metrics.",
        )
    if settings.listen.api_key in route.keys:
        raise ConfigError(
            f"routes.{name}.keys: one of them is listen.api_key, which opens everything.",
            remedy="Give this route a key of its own; listen.api_key opens it anyway.",
        )
    if route.draft is not None:
        _check_draft(f"routes.{name}.draft", route.draft)


def _check_names(settings: Settings, routes: Mapping[str, RouteSettings]) -> None:
    if settings.names_target and settings.route in settings.routes:
        raise ConfigError(
            f"Two routes are called {settings.route}.",
            remedy="`route` names the target at the top of the file: change it, or that of routes.",
        )
    taken: dict[str, str] = {name: name for name in routes}
    for name, route in routes.items():
        for alias in route.aliases:
            if taken.setdefault(alias, name) != name:
                raise ConfigError(
                    f"routes.{name}.aliases: {alias} is the route {taken[alias]} already.",
                    remedy="A name stands for one route.",
                )


def _check_targets(settings: Settings, routes: Mapping[str, RouteSettings]) -> None:
    """Two routes to one target would lease the same slots, each without the other's knowledge."""
    taken: dict[str, str] = {}
    for name, route in routes.items():
        if name == settings.route and settings.coordinator is not None:
            continue  # its address is found when it is started
        if taken.setdefault(route.target.url, name) != name:
            raise ConfigError(
                f"The routes {taken[route.target.url]} and {name} have the same target.",
                remedy="Make them one, and give it aliases.",
            )


def _check_drafts(routes: Mapping[str, RouteSettings]) -> None:
    """A file is loaded once."""
    loaded: dict[Path, DraftSettings] = {}
    for name, draft in _drafts(routes):
        first = loaded.setdefault(draft.model.resolve(), draft)
        if first.model_copy(update={"model": draft.model}) != draft:
            raise ConfigError(
                f"routes.{name}.draft: {draft.model} is loaded already, with other settings.",
                remedy="Routes share a draft model, so they say the same of it.",
            )


def _drafts(routes: Mapping[str, RouteSettings]) -> Iterator[tuple[str, DraftSettings]]:
    return ((name, route.draft) for name, route in routes.items() if route.draft is not None)
