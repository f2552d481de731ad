"""Lamina: a message store for Python people. One log of Arrow record batches, in one process or many.

>>> import lamina
>>> with lamina.open("memory:") as store:
...     receipt = store.publish("orders/eu", b"two apples", labels={"app": "shop"})
...     store.get(receipt.ref).value
b'two apples'
"""

from lamina import aio, errors
from lamina.index import Composite, IndexSettings, Page
from lamina.log import LogSettings, StreamPolicy
from lamina.model import Message, PublishReceipt, Receipt
from lamina.settings import Settings
from lamina.store import Store
from lamina.store import open_store as open

__version__ = "0.1.0"

__all__ = [
    "Composite",
    "IndexSettings",
    "LogSettings",
    "Message",
    "Page",
    "PublishReceipt",
    "Receipt",
    "Settings",
    "Store",
    "StreamPolicy",
    "__version__",
    "aio",
    "errors",
    "open",
]
