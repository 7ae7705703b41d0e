"""What the spans of an export show of the services that they are of."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from slo_exporter.ingest.otlp.claims import Claim
from slo_exporter.ingest.otlp.groups import by_value
from slo_exporter.ingest.otlp.spans import SpanBatch
from slo_exporter.sli.admission import FRONT_OF, Role, Roles
from slo_exporter.sli.records import LONGEST_SERVICE, UNKNOWN_SERVICE, Ints, Layer, Mask, View
from slo_exporter.sli.texts import Texts

Shown: TypeAlias = frozenset[tuple[int, str, Role]]
"""Each export with a service and what its spans show it to be."""
_ENGINES: Final = (Layer.ENGINE, Layer.FRONT)


def roles_shown(spans: SpanBatch, claims: Sequence[Claim], engine_scopes: tuple[str, ...]) -> Shown:
    """
    Each service with what it shows to be.

    Args:
        spans: of one export, or of several.
        claims: of the conventions.
        engine_scopes: prefixes of scopes that engines alone have.
    """
    scopes = {scope for scope in spans.scope.values if scope.startswith(engine_scopes)}
    is_engine, roles = spans.scope.among(scopes), Shown()
    for claim in claims:
        if claim.convention.layer in _ENGINES and claim.convention.view is View.SERVER:
            # Not every engine has a scope of its own; and a front stands for its HTTP spans as an engine does.
            is_engine[claim.requests] = True
        behind = [claim.requests] if claim.convention.is_below else []
        behind += [rows for part, rows in claim.parts if part.is_below]
        for rows in behind:
            roles |= _roles(spans, rows, FRONT_OF[claim.convention.view])
    return roles | _roles(spans, is_engine, Role.ENGINE)


def roles_of(services: Texts, codes: Iterable[int], role: Role) -> Roles:
    """
    The role of each of some services; a name too long to be one is not learnt.

    Nor is it learnt of a service without a name that what it does is counted by
    another: everything else without a name would be hidden with it.
    """
    names = (services.values[code] for code in codes if code >= 0)
    hides_nobody = role is Role.ENGINE
    return frozenset(
        (name, role)
        for name in names
        if len(name) <= LONGEST_SERVICE and (hides_nobody or not name.startswith(UNKNOWN_SERVICE))
    )


def shown(services: Texts, exports: Ints | None, rows: Ints | Mask, role: Role) -> Shown:
    """The role of the services of some rows, see `roles_of`, in the export of each; *exports*: see `by_value`."""
    return frozenset(
        (export, *known)
        for export, code, _ in by_value(services, exports, rows)
        for known in roles_of(services, [code], role)
    )


def all_roles(shows: Shown) -> Roles:
    """What the exports show together."""
    return frozenset((service, role) for _, service, role in shows)


def roles_apiece(shows: Shown, number: int) -> list[Roles]:
    """What each of *number* exports shows."""
    return [frozenset((service, role) for of, service, role in shows if of == export) for export in range(number)]


def _roles(spans: SpanBatch, rows: Ints | Mask, role: Role) -> Shown:
    return shown(spans.service, spans.exports, rows, role)
