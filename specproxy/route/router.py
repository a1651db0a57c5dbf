"""Names to routes: which of several targets answers a request, by the model it names."""

from collections.abc import Callable, Collection, Sequence

from specproxy.errors import TargetUnreachable, UnknownModel
from specproxy.route.route import Route
from specproxy.settings import ANY

MAX_SHOWN = 128
"""Of an unknown model's name, so many characters are repeated; no alias is longer."""


class Router:
    """
    Args:
        routes: one at least.

    Attributes:
        default: answers requests that name no model; the only one answers all.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        self.routes = tuple(routes)
        self.default = self.routes[0]

    def __repr__(self) -> str:
        return f"<Router {' '.join(route.name for route in self.routes)}>"

    def __len__(self) -> int:
        return len(self.routes)

    def find(self, model: str | None, opened: Collection[str]) -> Route:
        """The route that answers.

        A route's own name comes first, then aliases, then what targets call their models, then
        the route that takes any name. A route that is not opened is not there.

        Args:
            model: what the request names; None or empty: nothing.
            opened: names of the routes that this client may use; one at least.

        Raises:
            UnknownModel: none of them has that name.
            TargetUnreachable: nobody knows yet what one of the targets calls its model.
        """
        mine = [route for route in self.routes if route.name in opened]
        if not model or len(self.routes) == 1:
            return mine[0]
        found = _named(model, mine)
        if found is not None:
            return found
        names, asked = ", ".join(route.name for route in mine), _shown(model)
        unseen = ", ".join(route.name for route in mine if route.model is None)
        if unseen:
            raise TargetUnreachable(
                f"No model is called {asked} here as far as is known, but the target of {unseen}"
                " has not been seen yet.",
                remedy=f"Ask for one of these, or wait for it: {names}.",
            )
        raise UnknownModel(f"No model is called {asked} here.", remedy=f"There are: {names}.")


def _shown(model: str) -> str:
    """A client's word as it may stand in a message and in a line of the log."""
    cut = model if len(model) <= MAX_SHOWN else f"{model[:MAX_SHOWN]}..."
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in cut)


def _named(model: str, routes: Sequence[Route]) -> Route | None:
    ranks: tuple[Callable[[Route], bool], ...] = (
        lambda route: model == route.name,
        lambda route: model in route.aliases,
        lambda route: model == route.model,
        lambda route: ANY in route.aliases,
    )
    return next((route for has in ranks for route in routes if has(route)), None)
