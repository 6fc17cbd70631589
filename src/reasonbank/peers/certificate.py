"""The certificate that a bank shows of its key, for TLS wants one. Pure.

One of Ed25519 (RFC 8410) is the same few bytes around the key, a name and the signature. Nobody
asks for its name or its dates: the caller compares the key.
"""

from __future__ import annotations

from base64 import encodebytes

from reasonbank.peers.identity import Identity

_ALGORITHM = bytes.fromhex("300506032b6570")
PUBLIC_KEY = bytes.fromhex("302a") + _ALGORITHM + bytes.fromhex("032100")
_PRIVATE_KEY = bytes.fromhex("302e020100") + _ALGORITHM + bytes.fromhex("04220420")


def certificate(identity: Identity) -> tuple[bytes, bytes]:
    """And its private key; both in PEM."""
    common_name = _der(0x30, bytes.fromhex("0603550403"), _der(0x0C, b"reasonbank"))
    name = _der(0x30, _der(0x31, common_name))
    dates = _der(0x30, _der(0x17, b"200101000000Z"), _der(0x18, b"99991231235959Z"))
    version, serial = bytes.fromhex("a003020102"), bytes.fromhex("020101")
    body = _der(0x30, version, serial, _ALGORITHM, name, dates, name, PUBLIC_KEY + identity.key)
    whole = _der(0x30, body, _ALGORITHM, _der(0x03, b"\0", identity.sign(body)))
    return _pem("CERTIFICATE", whole), _pem("PRIVATE KEY", _PRIVATE_KEY + identity.seed)


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    length = size if len(content) < 0x80 else bytes([0x80 | len(size)]) + size
    return bytes([tag]) + length + content


def _pem(label: str, content: bytes) -> bytes:
    lines = encodebytes(content)
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label.encode(), lines, label.encode())
