// Sends vLLM-like request spans with the OpenTelemetry SDK for JavaScript.
//
//     node send.mjs http|proto|grpc ENDPOINT GOOD BAD
//
// Times are whole-number doubles where they can be: every exporter of this SDK
// writes 1.0 as an integer. Prints the code of the result, 0 is success.
import { SpanKind } from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';

const [protocol, url, good, bad] = process.argv.slice(2);
const { OTLPTraceExporter } = await import(`@opentelemetry/exporter-trace-otlp-${protocol}`);

const memory = new InMemorySpanExporter();
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ 'service.name': 'chat' }),
  spanProcessors: [new SimpleSpanProcessor(memory)],
});
const tracer = provider.getTracer('vllm.tracing.otel');
const now = Date.now();

function request(number, seconds) {
  const span = tracer.startSpan('llm_request', { kind: SpanKind.SERVER, startTime: now - 2000 });
  span.setAttributes({
    'gen_ai.latency.e2e': seconds,
    'gen_ai.latency.time_in_queue': 0.0,
    'gen_ai.usage.completion_tokens': 10,
    'gen_ai.request.id': `${protocol}-é-${number}`,
    'flag': true,
    'list': [1, 2.5],
  });
  span.addEvent('first token', { index: 0 });
  span.end(now - 1000);
}

for (let number = 0; number < Number(good); number++) request(number, 0.0625);
for (let number = 0; number < Number(bad); number++) request(Number(good) + number, 1.0);

const exporter = new OTLPTraceExporter({ url, timeoutMillis: 10000 });
exporter.export(memory.getFinishedSpans(), async (result) => {
  console.log(result.code);
  if (result.error) console.error(result.error);
  await exporter.shutdown();
});
