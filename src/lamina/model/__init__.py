"""Messages and batches: what a message may be, and the Arrow shape that carries many of them.

Owns: the message's fields, limits and label rules; the batch schema; conversion from rows, dicts and tables.
Promises: what passes this door keeps every rule; an error names row, column and reason, and nothing was changed.
Does not know: offsets beyond carrying them, files, streams' policies, time other than what it is given.
"""

from lamina.model.convert import Now, arrow_batches, rows_of, stored_batch
from lamina.model.limits import KIB, LABEL_KEY_BYTES_MAX, MIB, PRODUCER_ID_BYTES_MAX, TOPIC_BYTES_MAX
from lamina.model.materialise import messages_of_batch, messages_of_rows, rows_of_batch
from lamina.model.message import Message, PublishReceipt, Receipt, format_ref, parse_ref
from lamina.model.picking import BatchPicker, RowPicker
from lamina.model.rows import Row, check_label, check_text, make_row, row_bytes, time_us
from lamina.model.schema import READ_SCHEMA, batch_of_rows, complete, flat_labels, slice_compact
from lamina.model.split import PartitionBy, partition_of, split_batch, split_rows

__all__ = [
    "KIB",
    "LABEL_KEY_BYTES_MAX",
    "MIB",
    "PRODUCER_ID_BYTES_MAX",
    "READ_SCHEMA",
    "TOPIC_BYTES_MAX",
    "BatchPicker",
    "Message",
    "Now",
    "PartitionBy",
    "PublishReceipt",
    "Receipt",
    "Row",
    "RowPicker",
    "arrow_batches",
    "batch_of_rows",
    "check_label",
    "check_text",
    "complete",
    "flat_labels",
    "format_ref",
    "make_row",
    "messages_of_batch",
    "messages_of_rows",
    "parse_ref",
    "partition_of",
    "row_bytes",
    "rows_of",
    "rows_of_batch",
    "slice_compact",
    "split_batch",
    "split_rows",
    "stored_batch",
    "time_us",
]
