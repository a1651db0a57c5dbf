"""Generation requests to a coordinator: relayed as they are, while drafts go over the channel.

The coordinator samples, formats and ends the answer; the request only gets a header more.
"""

from aiohttp import web

from specproxy.core.drafts import HEADER
from specproxy.errors import TargetError
from specproxy.route import Mode
from specproxy.server.account import log_answer
from specproxy.server.asked import Asked
from specproxy.server.context import METRICS, ROUTE
from specproxy.server.outgoing import Outgoing, outcome_of
from specproxy.server.passthrough import passthrough


async def verified(request: web.Request, raw: bytes, asked: Asked) -> web.StreamResponse:
    """Relay one exchange with a coordinator, drafting for it meanwhile."""
    route, metrics = request[ROUTE], request.app[METRICS]
    mode = Mode.COORDINATOR
    outcome = "cancelled"
    async with route.answers.verified(asked.kind or "other") as found:
        if found is None:  # it went away this very moment
            return await passthrough(request, raw, asked)
        session, header = found
        try:
            outgoing = Outgoing(request, mode)
            response = await passthrough(
                request, raw, asked, outgoing=outgoing, more={HEADER: header}
            )
            outcome = outcome_of(response)
            return response
        except TargetError:
            outcome = "broken"
            raise
        finally:
            metrics.requests.labels(route.name, mode.value, outcome).inc()
            ttft_s = session.first_token_s
            if ttft_s is not None:
                metrics.first_token_s.labels(route.name, mode.value).observe(ttft_s)
            log_answer(
                route, kind=request.path, outcome=outcome, ttft_s=ttft_s, counts=session.counts
            )
