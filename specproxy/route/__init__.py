"""A route: one target and its draft. Several of them stand behind one URL.

`route` is the life of one, `choice` the choice of its way, `answers` what serves them on that way,
`learned` what they have taught, `gate` how many may come in; `router` has the names of all.
"""

from specproxy.route.mode import Mode
from specproxy.route.route import Route

__all__ = ["Mode", "Route"]
