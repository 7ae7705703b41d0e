"""
How the server runs: flag, else environment, else file, else default.

The environment names a setting in capitals, nested ones with two underscores:
``SLO_EXPORTER_OTLP__GRPC``. Lists are separated by commas there. Other
variables with our prefix are let be: Kubernetes sets ``SLO_EXPORTER_PORT`` and
its like for a Service of our name.
"""

import glob
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError, model_validator

from slo_exporter.clock import SECOND_NS
from slo_exporter.config import convention_form, model_names, sentences, sources, values
from slo_exporter.config.convention_form import ConventionForm
from slo_exporter.config.errors import ConfigError
from slo_exporter.config.gpu_form import GpuSettings
from slo_exporter.config.sentences import Place
from slo_exporter.config.sources import Tree
from slo_exporter.config.values import Address

DEFAULT_IGNORE_ROUTES: Final = (
    "/health",
    "/healthz",
    "/livez",
    "/readyz",
    "/ping",
    "/metrics",
    "/version",
    "/v2/health/*",
)
"""Routes of probes: never requests."""
DEFAULT_MODEL_KEYS: Final = ("llmisvc.name",)
"""
KServe names what it serves on the resource of every span of an LLMInferenceService.

Source: pkg/controller/v1alpha2/llmisvc/tracing.go of KServe.
"""
DEMO_SLOS: Final = Path(__file__).parents[1] / "demo" / "slos.yaml"
DEMO: Final = {
    "slo_files": [str(DEMO_SLOS)],
    "database": "sqlite:///slo-exporter-demo.db",
    "models": {"chat": "llama-3-8b"},
    "gpu": {"source": "simulated", "groups": {"chat": {"gpus": ["0", "1"]}}},
}
"""What ``--demo`` runs with when there is no file."""

_MOST_MESSAGE_BYTES: Final = 2**31 - 1
"""gRPC's own limit is a signed 32-bit number."""
_DEFAULT_LATENESS_NS: Final = 600 * SECOND_NS
_DEFAULT_RETENTION_NS: Final = 100 * 86400 * SECOND_NS

DECODERS: Final = ("auto", "protobuf")
"""What `Otlp.decoder` may be."""

_ListensAt = Annotated[Address, PlainValidator(values.address)]


def _decoder(plain: object) -> str:
    word = values.text(plain)
    if word not in DECODERS:
        raise ValueError(f"must be one of {', '.join(DECODERS)}, not {values.shown(word)}")
    return word


class Otlp(BaseModel):
    """Where spans come in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    grpc: _ListensAt = Address("127.0.0.1", 4317)
    http: _ListensAt = Address("127.0.0.1", 4318)
    max_message_bytes: Annotated[int, Field(ge=1, le=_MOST_MESSAGE_BYTES)] = 16 * 1024 * 1024
    """The largest export, before and after decompression."""
    decoder: Annotated[str, PlainValidator(_decoder)] = DECODERS[0]
    """One of `DECODERS`: ``auto`` uses the compiled one once it is ready, ``protobuf`` never compiles."""


class Settings(BaseModel):
    """Everything an operator may set; `load` reads it from where it stands."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: _ListensAt = Address("127.0.0.1", 9874)
    otlp: Otlp = Otlp()
    database: Annotated[str, BeforeValidator(values.database)] = "sqlite:///slo-exporter.db"
    """``sqlite:///FILE``; a relative file is relative to the working directory."""
    slo_files: Annotated[tuple[Path, ...], BeforeValidator(values.texts)] = ()
    """The SLO files that the patterns matched, in order, each once."""
    gpu: GpuSettings = GpuSettings()
    lateness_ns: Annotated[int, PlainValidator(values.duration("1m", "20m"))] = Field(
        _DEFAULT_LATENESS_NS, alias="lateness"
    )
    """A span that ended longer ago is refused, in nanoseconds (docs/laws.md, law 3)."""
    retention_ns: Annotated[int, PlainValidator(values.duration("1d", "100d"))] = Field(
        _DEFAULT_RETENTION_NS, alias="retention"
    )
    """Counts are kept for so long, and no window is longer; in nanoseconds."""
    models: Annotated[Mapping[str, str], PlainValidator(values.models)] = Field(default_factory=dict)
    """service.name → model, for spans that name none."""
    model_keys: Annotated[tuple[str, ...], PlainValidator(model_names.keys)] = DEFAULT_MODEL_KEYS
    """Keys of the model after those that frameworks write; on the span, then on the resource."""
    model_aliases: Annotated[Mapping[str, str], PlainValidator(model_names.aliases)] = Field(default_factory=dict)
    """Name of a model, or its beginning and ``*`` → the name to count it under."""
    prefer_model: Annotated[str, PlainValidator(model_names.preferred)] = model_names.ANSWERED
    """Which name holds where a span has two: that of the ``response``, or of the ``request``."""
    conventions: Annotated[tuple[ConventionForm, ...], BeforeValidator(convention_form.listed)] = ()
    """The operator's own; they come before ours."""
    ignore_routes: Annotated[tuple[str, ...], PlainValidator(values.routes)] = DEFAULT_IGNORE_ROUTES
    """Routes that are never requests; a last ``*`` stands for anything."""
    write_tokens: Annotated[Mapping[str, str], PlainValidator(values.tokens)] = Field(default_factory=dict)
    """Who may write: name → SHA-256 of the token, in hexadecimal digits. Without one nobody may."""

    @model_validator(mode="after")
    def _listen_apart(self) -> Self:
        taken: dict[Address, str] = {}
        places = {"listen": self.listen, "otlp.grpc": self.otlp.grpc, "otlp.http": self.otlp.http}
        for place, address in places.items():
            if address.port and address in taken:
                raise ValueError(f"{taken[address]} and {place} are both {address}; listeners need ports of their own")
            taken[address] = place
        return self


def load(
    path: Path | None,
    *,
    flags: Mapping[str, str] = MappingProxyType({}),
    environ: Mapping[str, str] = os.environ,
    demo: bool = False,
) -> Settings:
    """
    Read the settings.

    Args:
        path: the configuration file; None reads none.
        flags: settings of the command line, by dotted key: ``otlp.grpc``.
        environ: the environment.
        demo: without a file, take the demo's SLOs and a database of its own.

    Raises:
        ConfigError: every problem, named as its source writes it.
    """
    given = (sources.environment(environ, sentences.keys(Settings)), sources.flags(flags))
    tree: Tree = DEMO if demo else {}
    if path:
        tree = sources.file(path)
    for source in given:
        tree = source.over(tree)
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        found = sentences.of(error, Settings)
        problems = [f"{sources.where(_titled(place, tree), path, given)}: {said}" for place, said in found]
        raise ConfigError(problems) from None
    directory = path.parent if path else Path()
    title = sources.where(("slo_files",), path, given)
    files = _matched(settings.slo_files, directory, title=title)
    gpu = _with_recording(settings.gpu, directory, title=sources.where(("gpu", "recording"), path, given))
    return settings.model_copy(update={"slo_files": files, "gpu": gpu})


def _titled(place: Place, tree: Tree) -> Place:
    """*place*, in which a convention is called by its name and not by where it stands in the list."""
    if place[:1] != ("conventions",) or len(place) < 2:
        return place
    listed, position = tree["conventions"], int(place[1])
    plain = listed[position] if isinstance(listed, Sequence) else None
    title = convention_form.called(plain, position + 1)
    return (f"{title}: {'.'.join(place[2:])}" if place[2:] else title,)


def _with_recording(gpu: GpuSettings, directory: Path, *, title: str) -> GpuSettings:
    """*gpu* with the recording where it is."""
    if gpu.recording is None:
        return gpu
    file = directory / gpu.recording
    if not file.is_file():
        raise ConfigError([f"{title}: there is no file {str(gpu.recording)!r} in {directory.absolute()}"])
    return gpu.model_copy(update={"recording": file})


def _matched(patterns: Iterable[Path], directory: Path, *, title: str) -> tuple[Path, ...]:
    found: dict[Path, None] = {}
    problems = []
    for pattern in map(str, patterns):
        names = sorted(glob.glob(pattern, root_dir=directory, recursive=True))  # noqa: PTH207 - Path.glob refuses "../"
        files = [directory / name for name in names if (directory / name).is_file()]
        if not files:
            problems.append(f"{title}: no file matches {pattern!r} in {directory.absolute()}")
        found.update(dict.fromkeys(files))
    if problems:
        raise ConfigError(problems)
    return tuple(found)
