"""
The operator's own conventions, as ours: from what stands in the settings.

One that extends a framework says what is different: what it says holds, what it
does not say is as it was. Of a field both hold, its own sources first.
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from slo_exporter.config.convention_form import KINDS, ConventionForm, MatchForm, PartForm, SourceForm
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.model_names import ASKED
from slo_exporter.config.settings import Settings
from slo_exporter.config.values import shown
from slo_exporter.ingest.otlp.conventions import gen_ai_errors, http_server
from slo_exporter.ingest.otlp.conventions.convention import Convention, Derived, Inner, Part, Source
from slo_exporter.ingest.otlp.conventions.fill import Fill, Measured
from slo_exporter.ingest.otlp.conventions.match import Match
from slo_exporter.ingest.otlp.conventions.records import Declared
from slo_exporter.ingest.otlp.conventions.registry import CONVENTIONS
from slo_exporter.sli.records import Layer, View

_DERIVED: Final = (
    Derived(field="inference", plus=("prefill", "decode")),
    Derived(field="inter_token", plus=("decode",), per_gap=True),
    Derived(field="inter_token", plus=("e2e",), minus=("ttft",), per_gap=True),
)
"""What follows from the fields whatever engine gives them (docs/reference/configuration.md, "Record fields")."""
_NOBODYS: Final = Convention(
    framework="",
    requests=Match(),
    derived=_DERIVED,
    probe=http_server.is_probe,
    outcome=gen_ai_errors.outcome,
    also_reads=(*gen_ai_errors.READS, *http_server.HTTP_SERVER.also_reads),
)
"""What holds of a convention that extends none: names of errors, codes and routes are read as everybody writes them."""
_KINDS: Final = {word: number for number, word in enumerate(KINDS, start=1)}


def declared_of(settings: Settings, selector_keys: frozenset[str] = frozenset()) -> Declared:
    """
    What the operator says about requests.

    Args:
        settings: how the server runs.
        selector_keys: attribute keys that the selectors of SLOs name.

    Raises:
        ConfigError: see `conventions_of`.
    """
    return Declared(
        selector_keys=selector_keys,
        models=settings.models,
        ignore_routes=settings.ignore_routes,
        model_keys=settings.model_keys,
        asked_model_first=settings.prefer_model == ASKED,
        aliases=settings.model_aliases,
        conventions=conventions_of(settings.conventions),
    )


def conventions_of(forms: Sequence[ConventionForm]) -> tuple[Convention, ...]:
    """
    Make conventions of what an operator wrote, in order.

    Raises:
        ConfigError: one extends a framework that is not known here, two are of the same
            requests, or what stands in front is a client.
    """
    problems = [problem for form in forms for problem in _unknown_extends(form)]
    if problems:
        raise ConfigError(problems)
    made = [(form, convention) for form in forms for convention in _conventions(form)]
    problems = list(dict.fromkeys([*_clients_in_front(made), *_twice(made)]))
    if problems:
        raise ConfigError(problems)
    return tuple(convention for _, convention in made)


def _unknown_extends(form: ConventionForm) -> Iterator[str]:
    known = list(dict.fromkeys(convention.framework for convention in CONVENTIONS))
    if form.extends and form.extends not in known:
        close = difflib.get_close_matches(form.extends, known, 1)
        meant = f"did you mean {close[0]}? " if close else ""
        yield (
            f"convention {shown(form.name)}: extends: {shown(form.extends)} is no framework; "
            f"{meant}frameworks are: {', '.join(known)}"
        )


def _clients_in_front(made: Sequence[tuple[ConventionForm, Convention]]) -> Iterator[str]:
    for form, convention in made:
        if form.front and convention.view is View.CLIENT:
            yield (
                f"convention {shown(form.name)}: front: true is of view server or gateway, "
                f"and {form.extends} is of view client; say which view"
            )


def _twice(made: Sequence[tuple[ConventionForm, Convention]]) -> Iterator[str]:
    """Conventions of the same requests: the first would claim every span, and the others would be read for nothing."""
    for at, (form, convention) in enumerate(made):
        for other, earlier in made[:at]:
            if other is form or convention.requests != earlier.requests:
                continue
            if form.requests is None:
                yield (
                    f"convention {shown(form.name)}: extends: {form.extends} is extended by convention "
                    f"{shown(other.name)} too; say all in one, or give one of them requests of its own"
                )
            else:
                yield f"convention {shown(form.name)}: requests: are those of convention {shown(other.name)} too"


def _conventions(form: ConventionForm) -> Iterator[Convention]:
    """One, or each of those that it extends."""
    if not form.extends:
        assert form.requests is not None  # noqa: S101 - the form demands it
        own = replace(_NOBODYS, framework=form.name, requests=_match(form.requests))
        yield _extended(own, form)
        return
    bases = [convention for convention in CONVENTIONS if convention.framework == form.extends]
    if form.requests is not None:
        # They stand for those of all versions; what only tells more of a request is known as before.
        bases = [convention for convention in bases if convention.counts][:1]
    yield from (_extended(base, form) for base in bases)


def _extended(base: Convention, form: ConventionForm) -> Convention:
    requests = base.requests if form.requests is None else _match(form.requests)
    return replace(
        base,
        framework=form.name,
        view=base.view if form.view is None else form.view,
        layer=_layer(base, form),
        inner=Inner.LAST if form.front else base.inner,
        requests=requests,
        engine_scopes=_engine_scopes(base, form),
        parts=(*_parts(form.parts), *base.parts),
        fields=_fields(form.fields, base),
        models=tuple(dict.fromkeys((*form.models, *base.models))),
        # Who writes every value as JSON text writes these so too.
        json_texts=base.json_texts.union(form.models) if base.json_texts else base.json_texts,
        request_id=form.request_id or base.request_id,
    )


def _layer(base: Convention, form: ConventionForm) -> Layer:
    said = {Layer.ENGINE: form.engine, Layer.FRONT: form.front}
    for layer, holds in said.items():
        if holds:
            return layer
    return Layer.PLAIN if said.get(base.layer) is False else base.layer


def _engine_scopes(base: Convention, form: ConventionForm) -> tuple[str, ...]:
    """Those of its requests beside those known before."""
    if form.engine is False:
        return ()
    own: tuple[str, ...] = ()
    if form.requests is not None and _layer(base, form) is Layer.ENGINE:
        own = (*form.requests.scopes, *form.requests.scope_prefixes)
    return tuple(dict.fromkeys((*own, *base.engine_scopes)))


def _match(form: MatchForm) -> Match:
    return Match(
        scopes=frozenset(form.scopes),
        scope_prefixes=form.scope_prefixes,
        services=frozenset(form.services),
        names=frozenset(form.names),
        first_words=frozenset(form.first_words),
        pattern=form.pattern,
        attributes=form.attributes,
        texts={key: frozenset(texts) for key, texts in form.texts.items()},
        absent=form.absent,
        kinds=frozenset(_KINDS[word] for word in form.kinds),
        ranks=form.ranks,
    )


def _parts(forms: Sequence[PartForm]) -> Iterator[Part]:
    """One of each match: the first claims a span, so it has all that others of the same spans fill."""
    matches = list[MatchForm]()
    for form in forms:
        if form.match not in matches:
            matches.append(form.match)
    for match in matches:
        fills = (Fill(form.field, Measured(form.measured)) for form in forms if form.match == match and form.field)
        yield Part(match=_match(match), fills=tuple(fills))


def _fields(forms: Mapping[str, Sequence[SourceForm]], base: Convention) -> dict[str, tuple[Source, ...]]:
    known: dict[str, tuple[Source, ...]] = {}
    for name, source in base.sources:
        known[name] = (*known.get(name, ()), source)
    return {**known, **{name: _sources(own, known.get(name, ())) for name, own in forms.items()}}


def _sources(forms: Sequence[SourceForm], known: Sequence[Source]) -> tuple[Source, ...]:
    """Own sources before those known: under a new name a value means what it meant."""
    zero_is_missing = any(source.zero_is_missing for source in known)
    own = (
        Source(form.key, form.unit, zero_is_missing=form.zero_is_missing or zero_is_missing, member=form.member)
        for form in forms
    )
    return (*own, *known)
