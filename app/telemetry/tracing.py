"""Traces by OpenTelemetry where OTEL_EXPORTER_OTLP_ENDPOINT names a collector: request -> job -> phases.

All settings are OpenTelemetry's own variables (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, ..). A request goes on with the
trace of its `traceparent`; the job that it submits keeps the context in its row, and the worker goes on with it. The
library is loaded only here, and only then: it is the extra `otel`.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

log = logging.getLogger(__name__)

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
trace_context: ContextVar[str | None] = ContextVar("trace_context", default=None)
"""The W3C traceparent of the request that this task answers; None outside of one, and without traces."""


class Tracing:
    """The tracer of one process."""

    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        self._provider = provider
        self._tracer = provider.get_tracer("pursuit")
        self._format = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, method: str, traceparent: str | None) -> Iterator["Span"]:
        """A span around an answer, whose context is `trace_context` meanwhile."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        span = self._tracer.start_span(method, self.context_of(traceparent), SpanKind.SERVER)
        token = trace_context.set(self.traceparent_of(span))
        try:
            yield span
        finally:
            trace_context.reset(token)
            span.end()

    def start(self, name: str, context: "Context", attributes: dict[str, Any] | None = None) -> "Span":
        """Start a span of work that no request waits for; the caller ends it."""
        from opentelemetry.trace import SpanKind  # noqa: PLC0415

        return self._tracer.start_span(name, context, SpanKind.CONSUMER, attributes)

    def start_inside(self, parent: "Span", name: str) -> "Span":
        """Start a span of a part of another's work."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        return self._tracer.start_span(name, set_span_in_context(parent))

    def context_of(self, traceparent: str | None) -> "Context":
        """The context that a traceparent names; an empty one for None and for what is none."""
        from opentelemetry.context import Context  # noqa: PLC0415

        return self._format.extract({} if traceparent is None else {"traceparent": traceparent}, context=Context())

    def traceparent_of(self, span: "Span") -> str | None:
        """The traceparent for those that go on from this span."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

        carrier: dict[str, str] = {}
        self._format.inject(carrier, set_span_in_context(span))
        return carrier.get("traceparent")

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()


def start_tracing(service: str) -> Tracing | None:
    """Return the tracer of this process; None where no collector is named, or the library is not installed."""
    if not any(os.environ.get(name) for name in ENDPOINT_VARIABLES):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        log.warning("no traces are sent: pip install 'pursuit-gp[otel]' (%s)", error)
        return None
    own = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": service}
    provider = TracerProvider(resource=Resource.create(own), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


class JobTraces:
    """Spans of a worker's jobs, whose supervisor calls it from one thread: the try, and in it the phases."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._job: Span | None = None
        self._phase: tuple[str, Span] | None = None

    def started(self, kind: str, traceparent: str | None, attributes: dict[str, Any]) -> None:
        """A job was claimed; traceparent: of the request that submitted it."""
        self._job = self._tracing.start(f"job {kind}", self._tracing.context_of(traceparent), attributes)

    def phase(self, name: str) -> None:
        """It entered a phase."""
        if self._job is None or (self._phase is not None and self._phase[0] == name):
            return
        self._end_phase()
        self._phase = name, self._tracing.start_inside(self._job, name)

    def ended(self, end: str) -> None:
        """Its try ended."""
        from opentelemetry.trace import StatusCode  # noqa: PLC0415

        self._end_phase()
        if self._job is not None:
            self._job.set_attribute("pursuit.job.end", end)
            if end in {"failed", "died"}:
                self._job.set_status(StatusCode.ERROR, end)
            self._job.end()
            self._job = None

    def _end_phase(self) -> None:
        if self._phase is not None:
            self._phase[1].end()
            self._phase = None
