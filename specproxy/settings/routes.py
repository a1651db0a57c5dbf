"""Routes: several targets behind one URL, and what each takes from the top of the file.

Invariant: a route's target has its own address and key; a key never reaches another target.
"""

from typing import Annotated, TypeVar

from pydantic import Field, StringConstraints

from specproxy.settings.sections import (
    ClientKey,
    DraftSettings,
    FanoutSettings,
    Section,
    SeedingSettings,
    TargetSettings,
)

S = TypeVar("S", bound=Section)

RouteName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
Alias = Annotated[str, StringConstraints(pattern=r"^\S{1,128}$")]
ANY = "*"
"""The alias that stands for every name that no route has."""


class RouteSettings(Section):
    """One target, and what is its own."""

    target: TargetSettings
    draft: DraftSettings | None = None
    aliases: tuple[Alias, ...] = ()
    keys: tuple[ClientKey, ...] = ()
    max_requests: int | None = Field(None, ge=1)
    max_body_bytes: int | None = Field(None, ge=1024)
    seeding: SeedingSettings = SeedingSettings()
    fanout: FanoutSettings = FanoutSettings()

    def below(self, top: "RouteSettings") -> "RouteSettings":
        """This route, with `top` where it says nothing; but for the target's address and key."""
        target = self.target
        own = {"url": target.url, "api_key": target.api_key}
        draft = self.draft if "draft" in self.model_fields_set else top.draft
        if draft is not None and top.draft is not None:
            draft = _over(top.draft, draft)
        return self.model_copy(
            update={
                "target": _over(top.target, target).model_copy(update=own),
                "draft": draft,
                "seeding": _over(top.seeding, self.seeding),
                "fanout": _over(top.fanout, self.fanout),
            }
        )


def _over(top: S, own: S) -> S:
    """`top`, with what `own` says."""
    return top.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})
