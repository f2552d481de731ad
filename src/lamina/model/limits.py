"""The limits of a message. They are part of the data's format: every stored message keeps them."""

from __future__ import annotations

KIB = 1024
MIB = 1024 * KIB

TOPIC_BYTES_MAX = 1 * KIB
KEY_BYTES_MAX = 64 * KIB
VALUE_BYTES_MAX = 16 * MIB
LABELS_MAX = 64
LABEL_KEY_BYTES_MAX = 256
LABEL_VALUE_BYTES_MAX = 4 * KIB
PRIORITY_MAX = 127
PRODUCER_ID_BYTES_MAX = 256
TIMESTAMP_US_MAX = 253_402_300_799_999_999
"""The last microsecond of the year 9999: the last that `datetime` can show."""
