"""GET /: the page."""

from base64 import b64encode
from hashlib import sha256
from typing import Final

from fastapi import APIRouter
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

from slo_exporter.web.api import gpus, problems
from slo_exporter.web.api.dependencies import FromSources
from slo_exporter.web.page.view import View, view

router = APIRouter(tags=["Page"])

_TEMPLATES: Final = Environment(
    loader=PackageLoader("slo_exporter.web", "page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_PAGE: Final = _TEMPLATES.get_template("page.html")
_STYLE: Final = sha256(_TEMPLATES.get_template("style.css").render().encode()).digest()

# The page loads nothing: no script, no image, and no style but its own.
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(_STYLE).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/", response_class=HTMLResponse, responses=problems.described(500))
async def page(sources: FromSources) -> HTMLResponse:
    """Show the budgets, and what GPUs do, to people."""
    board, now_ns = sources.board, sources.clock.now_ns()
    seen = gpus.answer(board.gpus(), now_ns)
    shown = view(board.about(), board.reports(now_ns), seen, board.not_ready(), now_ns)
    return HTMLResponse(render(shown), headers={"Content-Security-Policy": _POLICY})


def render(shown: View) -> str:
    """The page as HTML."""
    return _PAGE.render(view=shown)
