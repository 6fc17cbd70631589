"""Frames: what banks say to each other, as bytes. Pure.

A frame is a MessagePack array that begins with its kind. Whatever comes from another bank is
decoded here and nowhere else: one that is too long, of a version or kind that nobody knows, or not
what its kind says, is a ``BadFrame``.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from reasonbank.errors import ReasonBankError

VERSION = 1
LONGEST_FRAME = 1 << 20
"""Bytes. A peer that announces more is not listened to."""
MOST_ENTRIES = 512
"""In one segment."""
MOST_LOGS = 10_000
"""In one list of what a bank has."""


class BadFrame(ReasonBankError):
    """What came is no frame; whoever sent it cannot be talked to."""


class Lane(StrEnum):
    """Streams of one connection, so that nothing waits for what it has nothing to do with."""

    CONTROL = "control"
    MEMORY = "memory"
    TASK = "task"
    STATUS = "status"


Key = Annotated[bytes, Meta(min_length=32, max_length=32)]
"""Of Ed25519: who a bank is."""
Hash = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature = Annotated[bytes, Meta(min_length=64, max_length=64)]
_STORABLE = r"\A[^\x00]*\Z"
"""Not every database keeps a NUL in a text."""
Id = Annotated[str, Meta(min_length=1, max_length=64, pattern=_STORABLE)]
Name = Annotated[str, Meta(max_length=256, pattern=_STORABLE)]
Text = Annotated[str, Meta(max_length=65_536, pattern=_STORABLE)]
Token = Annotated[bytes, Meta(max_length=16_384)]
Number = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Log(Struct, frozen=True, array_like=True):
    """What one bank says in one channel. ``epoch``: a bank that was brought back from a backup
    begins anew, for others may know more of what it said than it does itself."""

    key: Key
    epoch: Id
    channel: Name


class Entry(Struct, frozen=True, array_like=True):
    """An event as it travels: the next of its log. What was forgotten has neither salt nor payload,
    and the chain still holds."""

    seq: Number
    prev: Hash
    digest: Hash
    id: Id
    type: Name
    subject: Name
    workspace: Name
    counter: Number
    at: Number
    author: Name
    principal: Name
    surface: Name
    salt: Annotated[bytes, Meta(max_length=32)] | None
    payload: Annotated[bytes, Meta(max_length=LONGEST_FRAME // 2)] | None
    """JSON."""


class Head(Struct, frozen=True, array_like=True):
    """How far somebody knows a log; ``fork`` is where it is known to tell two stories."""

    log: Log
    length: Number
    link: Hash
    fork: Number | None = None


class Segment(Struct, frozen=True, array_like=True, tag="segment"):
    """Entries in a row; the signature is the log's owner's, over the link of the last one."""

    log: Log
    entries: Annotated[list[Entry], Meta(min_length=1, max_length=MOST_ENTRIES)]
    signature: Signature


# Control


class Hello(Struct, frozen=True, array_like=True, tag="hello"):
    """The first word on a connection: who comes, signed over what only this connection has."""

    version: Number
    key: Key
    name: Name
    at: Number
    token: Token
    signature: Signature


class Welcome(Struct, frozen=True, array_like=True, tag="welcome"):
    """``channels`` are those that both may talk about."""

    version: Number
    key: Key
    name: Name
    channels: Annotated[list[Name], Meta(max_length=1000)]


class Refused(Struct, frozen=True, array_like=True, tag="refused"):
    """Why, in a word that programs know and a sentence that people do."""

    code: Id
    reason: Text


# Memory


class Have(Struct, frozen=True, array_like=True, tag="have"):
    """All logs that the sender knows, of the channels that both talk about."""

    heads: Annotated[list[Head], Meta(max_length=MOST_LOGS)]


class Announce(Struct, frozen=True, array_like=True, tag="announce"):
    """A log has grown: whoever lacks it asks."""

    head: Head


class Want(Struct, frozen=True, array_like=True, tag="want"):
    """The entries of a log from ``first`` on, as many as fit."""

    log: Log
    first: Number


class Fork(Struct, frozen=True, array_like=True, tag="fork"):
    """Proof that a log tells two stories: both are signed, begin at the same place and differ."""

    one: Segment
    other: Segment


# Tasks


class Offer(Struct, frozen=True, array_like=True, tag="offer"):
    id: Id
    task: Text
    most: Number
    """Millionths of a dollar that may be spent on it."""
    expires: Number


class Take(Struct, frozen=True, array_like=True, tag="take"):
    offer: Id


class Grant(Struct, frozen=True, array_like=True, tag="grant"):
    """Whoever gets it does the task, and nobody else."""

    offer: Id


class Gone(Struct, frozen=True, array_like=True, tag="gone"):
    """Somebody else has it, or it is too late."""

    offer: Id


class Result(Struct, frozen=True, array_like=True, tag="result"):
    """``trace`` is JSON."""

    offer: Id
    trace: Annotated[bytes, Meta(max_length=LONGEST_FRAME // 2)]
    spent: Number


# Status


class Status(Struct, frozen=True, array_like=True, tag="status"):
    name: Name
    version: Name
    memories: Number
    load: Annotated[float, Meta(ge=0, lt=1e9)]
    """A number that JSON has: it is shown."""
    at: Number


Frame: TypeAlias = (
    Hello | Welcome | Refused | Have | Announce | Want | Segment | Fork
    | Offer | Take | Grant | Gone | Result | Status
)  # fmt: skip
SAFE_TO_REPLAY = (Hello, Have, Announce, Segment, Fork)
"""What may come before a connection is known to be new: hearing it twice changes nothing."""

_encoder = msgspec.msgpack.Encoder()
_entries = msgspec.msgpack.Decoder(Entry)
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


def said(payload: bytes) -> dict[str, Any]:
    """The object that a payload or a trace is, in JSON. Raises ``ValueError``."""
    try:
        told = json.loads(payload)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(told, dict):
        raise ValueError("it is no object")
    return told


def can_be_read(entry: Entry) -> bool:
    try:
        _entries.decode(_encoder.encode(entry))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def encode(frame: Frame) -> bytes:
    return _encoder.encode(frame)


def decode(data: bytes | bytearray | memoryview) -> Frame:
    if len(data) > LONGEST_FRAME:
        raise BadFrame(f"a frame of {len(data):,} bytes is too long")
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadFrame(f"this is no frame: {error}") from None
