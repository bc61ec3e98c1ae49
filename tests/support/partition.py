"""A TCP proxy in a thread of its own that can stop all traffic, as a network partition does."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self

from e2e.harness import free_port


class Proxy:
    """Passes connections to a loopback port until `part`. Data that it holds then is lost, and `heal` lets new connections pass."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._passing = asyncio.Event()
        self._passing.set()
        self._healed = 0
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(60.0)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._server.cancel)
        self._thread.join(60.0)

    def part(self) -> None:
        """From now on nothing passes. Connections stay open, and neither side gets an error."""
        self._loop.call_soon_threadsafe(self._passing.clear)

    def heal(self) -> None:
        """Let new connections pass. Earlier ones break, and data sent on them since `part` never arrives."""

        def heal() -> None:
            self._healed += 1
            self._passing.set()

        self._loop.call_soon_threadsafe(heal)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.create_task(self._serve())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._server)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.1))
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self._started.set()
        async with server:
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            await self._passing.wait()
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
            writers.append(back)
            await asyncio.gather(self._pump(reader, back, writers), self._pump(there, writer, writers))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for one in writers:
                one.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, writers: list[asyncio.StreamWriter]) -> None:
        began = self._healed
        while data := await source.read(1 << 16):
            await self._passing.wait()
            if self._healed != began:
                break
            sink.write(data)
            await sink.drain()
        for one in writers:
            one.transport.abort()
