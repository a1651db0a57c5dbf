"""Names to routes."""

import pytest

from specproxy.errors import TargetUnreachable, UnknownModel
from specproxy.route import Route
from specproxy.route.router import Router
from specproxy.settings import SeedingSettings, TargetSettings
from specproxy.target.client import TargetClient


def made(name: str, *aliases: str, model: str | None = "its-model") -> Route:
    route = Route(name, TargetClient(TargetSettings()), None, SeedingSettings(), aliases=aliases)
    route.model = model
    return route


LARGE = made("large", "big", "gpt", model="llama-70b")
SMALL = made("small", "tiny", model="large")  # the target's own name must not win over a route's
SPARE = made("spare", model="llama-70b")
ROUTER = Router([LARGE, SMALL, SPARE])
ALL = {"large", "small", "spare"}


@pytest.mark.parametrize(
    ("model", "route"),
    [
        ("large", LARGE),
        ("big", LARGE),
        ("gpt", LARGE),
        ("llama-70b", LARGE),  # the first of those that have it
        ("small", SMALL),
        ("tiny", SMALL),
        ("spare", SPARE),
        (None, LARGE),
        ("", LARGE),
    ],
)
def test_names(model: str | None, route: Route) -> None:
    assert ROUTER.find(model, ALL) is route


@pytest.mark.parametrize("model", ["none", "LARGE", "large ", "*"])
def test_an_unknown_name_names_the_known_ones(model: str) -> None:
    with pytest.raises(UnknownModel, match="There are: large, small, spare"):
        ROUTER.find(model, ALL)


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("模型 🦙", "模型 🦙"),
        ("a\nb\x1b[2J\ud800", "a\ufffdb\ufffd[2J\ufffd"),
        ("x" * 128, "x" * 128),
        ("x" * 129, "x" * 128 + "..."),
    ],
)
def test_a_name_is_repeated_on_one_line_and_not_endlessly(model: str, shown: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        ROUTER.find(model, ALL)
    assert str(caught.value).startswith(f"No model is called {shown} here.")
    with pytest.raises(TargetUnreachable, match="new") as unseen:
        Router([LARGE, made("new", model=None)]).find(model, {"large", "new"})
    assert str(unseen.value).startswith(f"No model is called {shown} here as")


def test_a_name_of_a_route_stands_before_what_targets_say() -> None:
    """A target may call its model as it likes; no other route loses its name or its aliases."""
    rogue = made("rogue", model="big")
    router = Router([rogue, LARGE])
    assert router.find("big", {"rogue", "large"}) is LARGE
    assert router.find("big", {"rogue"}) is rogue
    rogue.model = "large"
    assert router.find("large", {"rogue", "large"}) is LARGE


def test_what_is_not_opened_is_not_there() -> None:
    opened = {"small", "spare"}
    assert ROUTER.find(None, opened) is SMALL
    assert ROUTER.find("large", opened) is SMALL  # what its target calls its model
    for model in ("gpt", "big"):
        with pytest.raises(UnknownModel, match=r"There are: small, spare\."):
            ROUTER.find(model, opened)


def test_a_route_may_take_every_other_name() -> None:
    rest = made("rest", "*")
    router = Router([LARGE, rest])
    assert router.find("whatever", {"large", "rest"}) is rest
    assert router.find("big", {"large", "rest"}) is LARGE
    assert router.find("big", {"rest"}) is rest  # for this client it is a name like any other
    with pytest.raises(UnknownModel):
        router.find("whatever", {"large"})


def test_the_only_route_takes_every_name() -> None:
    assert Router([LARGE]).find("whatever", {"large"}) is LARGE


def test_a_name_may_be_that_of_a_target_nobody_has_seen() -> None:
    router = Router([LARGE, made("new", model=None)])
    assert router.find("big", {"large", "new"}) is LARGE
    with pytest.raises(TargetUnreachable, match="new"):
        router.find("whatever", {"large", "new"})
    with pytest.raises(UnknownModel):
        router.find("whatever", {"large"})
