"""The store for asyncio: the same names, awaitable and async-iterable.

    async with lamina.aio.open("./data") as store:
        receipt = await store.publish("orders/eu", b"…")

Owns: the threads that run what can block, and the hand-over between an event loop and the commit thread.
Promises: no call blocks the loop; a cancelled call leaves no thread, store or message half done.
Does not know: how a store works inside; it calls the embedded one.

Messages published in one turn of the loop are handed to the commit thread together, and their futures are resolved
by one call back into the loop per commit: a thousand waiting tasks cost one thread switch, not a thousand.
"""

from lamina.aio.store import AsyncProducer, AsyncStore, open

__all__ = ["AsyncProducer", "AsyncStore", "open"]
