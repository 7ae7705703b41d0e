"""An ASGI application on a real loopback port, in a thread."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from slo_exporter.daemon.http_server import App, HttpServer


@contextmanager
def serving(app: App) -> Iterator[str]:
    """Serve *app* as the daemon does while the block runs; its URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = HttpServer(app, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{asyncio.run_coroutine_threadsafe(server.start(), loop).result()}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(0), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
