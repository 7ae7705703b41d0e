"""
A chat service that says how its requests went: FastAPI with OpenTelemetry's own instrumentation.

Run it, beside `slo-exporter serve --config examples/slo-exporter.yaml`::

    pip install fastapi uvicorn opentelemetry-instrumentation-fastapi opentelemetry-exporter-otlp-proto-grpc
    uvicorn --app-dir examples fastapi_service:app

    curl -N 127.0.0.1:8000/v1/chat/completions --json \
        '{"messages": [{"role": "user", "content": "say this again"}], "stream": true}'
    slo-exporter status chat

What it shows:

* Each request is one SERVER span, and counts once. The spans `http receive` and `http send`
  below it belong to it. `/health` is a probe and never counts.
* An answer is `ok`, an empty list of messages the client's fault (400). A prompt with the
  word `crash` is an error: 500, or a stream that breaks off after its 200.
* A stream's duration is that of the whole stream.

OTEL_EXPORTER_OTLP_ENDPOINT says where the spans go (http://localhost:4317), OTEL_SERVICE_NAME
whose they are: the `service` of the SLO file.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI, HTTPException
from fastapi.responses import JSONResponse, Response, StreamingResponse
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic import BaseModel

TOKEN_S: Final = 0.02

os.environ.setdefault("OTEL_SERVICE_NAME", "chat")
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """At the end, send the last seconds' spans: they leave in batches, and a SIGTERM runs no exit hooks."""
    yield
    provider.shutdown()


app = FastAPI(lifespan=lifespan)
FastAPIInstrumentor.instrument_app(app, tracer_provider=provider)


class Question(BaseModel):
    """What is asked of the model, as OpenAI's API has it."""

    messages: list[dict[str, str]]
    stream: bool = False


async def generate(prompt: str) -> AsyncIterator[str]:
    """The model: it repeats what it hears, and does not bear every word."""
    for word in prompt.split():
        await asyncio.sleep(TOKEN_S)
        if word == "crash":
            raise RuntimeError("the model is out of order")
        yield f"{word} "


async def events(words: AsyncIterator[str]) -> AsyncIterator[str]:
    """Server-sent events, one a word."""
    async for word in words:
        yield f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': word}}]})}\n\n"
    yield "data: [DONE]\n\n"


@app.post("/v1/chat/completions")
async def chat(question: Question) -> Response:
    """Answer at once, or word by word."""
    if not question.messages:
        raise HTTPException(400, "messages: at least one is needed")
    words = generate(question.messages[-1]["content"])
    if question.stream:
        return StreamingResponse(events(words), media_type="text/event-stream")
    answer = "".join([word async for word in words])
    return JSONResponse({"choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}]})


@app.get("/health")
async def health() -> Response:
    """Somebody wants to know whether we live."""
    return Response()
