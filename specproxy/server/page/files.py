"""The page's files, served to anyone: there is nothing in them but the page.

They need no build and ask nobody else for anything; the policy below forbids it.
"""

from importlib import resources

from aiohttp import hdrs, web

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    hdrs.CACHE_CONTROL: "no-cache",
}
FOLDER = "/specproxy/"
FILES = {
    FOLDER: ("page.html", "text/html"),
    f"{FOLDER}page.css": ("page.css", "text/css"),
    f"{FOLDER}page.js": ("page.js", "text/javascript"),
    f"{FOLDER}charts.js": ("charts.js", "text/javascript"),
    f"{FOLDER}feed.js": ("feed.js", "text/javascript"),
    f"{FOLDER}icon.svg": ("icon.svg", "image/svg+xml"),
}
"""Path -> (file of this package, its type)."""


async def page_file(request: web.Request) -> web.Response:
    """GET one of `FILES`."""
    name, content_type = FILES[request.path]
    body = resources.files(__package__).joinpath(name).read_bytes()
    return web.Response(body=body, content_type=content_type, charset="utf-8", headers=HEADERS)


async def to_page(request: web.Request) -> web.Response:
    """GET /specproxy: the page is in a folder."""
    return web.Response(status=308, headers={**HEADERS, hdrs.LOCATION: "specproxy/"})
