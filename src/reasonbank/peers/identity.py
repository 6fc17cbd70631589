"""Who a bank is to others: an Ed25519 key, made from the secret that the bank has already. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey


@dataclass(frozen=True)
class Identity:
    key: bytes
    """The public half: the bank's name among banks."""
    _signing: SigningKey = field(repr=False, compare=False)

    @classmethod
    def of(cls, seal: str) -> Identity:
        """``seal``: the bank's secret, ``ledger.seal``. The same one gives the same identity."""
        signing = SigningKey(hashlib.sha256(b"peer\0" + seal.encode()).digest())
        return cls(bytes(signing.verify_key), signing)

    @property
    def seed(self) -> bytes:
        """The secret half, for libraries that sign by themselves (TLS, capabilities)."""
        return bytes(self._signing)

    def sign(self, message: bytes) -> bytes:
        return self._signing.sign(message).signature


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        VerifyKey(key).verify(message, signature)
    except (BadSignatureError, ValueError):
        return False
    return True
