"""OpenTelemetry spans by the GenAI conventions for memory: names, ids and counts, never a text.

Nothing is recorded unless somebody configured OpenTelemetry: the program that embeds the bank,
or the setting ``telemetry.endpoint``. Until then a span costs a look into ``sys.modules``.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reasonbank.errors import InvalidSetting
from reasonbank.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

EXPORT_SECONDS = 2.0
"""Seconds until spans that nobody takes are dropped: a program must be able to end."""
NOTHING: AbstractContextManager[Span | None] = nullcontext(None)


def span(
    operation: str, attributes: dict[str, str | int], *, of: str | None = None
) -> AbstractContextManager[Span | None]:
    """A span around one operation; ``of`` goes into its name, so it must be one of few."""
    tracer = _configured()
    return NOTHING if tracer is None else _recorded(tracer, operation, attributes, of)


def _configured() -> Tracer | None:
    """The tracer, if spans go anywhere."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None  # Whoever configures OpenTelemetry has loaded it.
    provider = api.get_tracer_provider()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    return _tracer(provider)


@lru_cache(maxsize=1)
def _tracer(provider: TracerProvider) -> Tracer:
    from importlib.metadata import version

    return provider.get_tracer("reasonbank", version("reasonbank"))


@contextmanager
def _recorded(
    tracer: Tracer, operation: str, attributes: dict[str, str | int], of: str | None
) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind, Status, StatusCode

    known = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "reasonbank"}
    with tracer.start_as_current_span(
        f"{operation} {of}" if of else operation,
        kind=SpanKind.INTERNAL,
        attributes={**known, **attributes},
        # The text of an error may quote a memory.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise


def export_to(settings: Settings) -> None:
    """Send spans where ``telemetry.endpoint`` says, unless spans go somewhere already."""
    endpoint = settings.telemetry.endpoint
    if not endpoint or _configured() is not None:
        return
    # The address may hold a key, so no message repeats it.
    from urllib.parse import urlsplit

    if urlsplit(endpoint).scheme not in ("http", "https") or not urlsplit(endpoint).netloc:
        raise InvalidSetting(
            "telemetry.endpoint",
            "is not the address of an OTLP/HTTP collector; it looks like "
            "http://127.0.0.1:4318/v1/traces",
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider as Provider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise InvalidSetting(
            "telemetry.endpoint",
            "needs the OpenTelemetry SDK: pip install 'reasonbank[telemetry]'",
        ) from None
    from opentelemetry import trace

    provider = Provider(resource=Resource.create({"service.name": "reasonbank"}))
    exporter = OTLPSpanExporter(endpoint=endpoint, timeout=EXPORT_SECONDS)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    told = logging.getLogger("opentelemetry")
    told.addHandler(_Plain())
    told.propagate = False


class _Plain(logging.Handler):
    """Says what the exporter says without the values, since an address may hold a key."""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.msg if record.args else f"{record.module}:{record.lineno}"
        logging.getLogger(__name__).log(record.levelno, "OpenTelemetry: %s", said)
