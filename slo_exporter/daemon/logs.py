"""How the daemon speaks: event name and keys on standard error, state changes only."""

import logging
import sys

import structlog


def configure() -> None:
    """Set up structlog, and let libraries speak only of what is wrong."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(),
                sort_keys=False,
                exception_formatter=structlog.dev.plain_traceback,
            ),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
