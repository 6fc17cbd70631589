"""The network as an ONNX graph: what ``quick.py`` hands to onnxruntime.

onnxruntime takes a protobuf message. The few kinds of fields that it needs are written here by
hand, so that neither the ``onnx`` package nor a second copy of the weights is shipped.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from .network import HEADS, LAYERS, WIDTH

OPSET, MICROSOFT_OPSET, IR_VERSION = 17, 1, 8
MICROSOFT = "com.microsoft"
OF_MICROSOFT = ("MatMulIntegerToFloat", "FastGelu")
TYPES = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}

# A number is split into two digits, of which each fits into 7 bits. Processors without VNNI add
# two products of 8 bits in 16: from 8-bit digits they would overflow.
MIDDLE = 64
COARSE, FINE = 63.0, 126.0


def whole(model: Any) -> bytes:
    """The graph over one weight file.

    ``x`` are the embedded tokens of all texts, one a row. Only attention must know which text a
    token belongs to: ``spread`` has a row of tokens for each text, filled up to one length,
    ``hidden`` is what hides the filling, and ``gather`` leads back to the rows.
    """
    graph = Graph()
    network = _Network(graph)
    x = network.norm("x", model["norm"])
    for layer in model["layers"][:LAYERS]:
        mixed = network.attention(network.linear(x, layer["qkv"]))
        mixed = network.linear(mixed, layer["mix"])
        x = network.norm(graph.op("Add", x, mixed), layer["mix_norm"])
        # The file has the 1/2 of GELU in the scale of ``narrow``; here GELU has it itself.
        wide = network.product(x, layer["widen"])
        wide = graph.op("FastGelu", wide, graph.constant(layer["widen"]["bias"]))
        narrow = network.linear(wide, layer["narrow"], factor=2)
        x = network.norm(graph.op("Add", x, narrow), layer["narrow_norm"])
    inputs = {
        "x": ("float32", ("tokens", WIDTH)),
        "spread": ("int64", ("texts", "longest")),
        "hidden": ("float32", ("texts", 1, 1, "longest")),
        "gather": ("int64", ("tokens",)),
    }
    return graph.model(inputs, {x: ("float32", ("tokens", WIDTH))})


class _Network:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._one, self._coarse, self._fine = (
            graph.constant(np.float32(value)) for value in (1, COARSE, 1 / FINE)
        )
        self._middle = graph.constant(np.uint8(MIDDLE))
        self._parted = graph.constant(np.array([0, 0, HEADS, WIDTH // HEADS]))
        self._flat = graph.constant(np.array([-1, WIDTH]))

    def norm(self, x: str, stored: Any) -> str:
        parts = (self._graph.constant(stored[name]) for name in ("gain", "shift"))
        return str(self._graph.op("LayerNormalization", x, *parts, epsilon=1e-12))

    def linear(self, x: str, stored: Any, factor: float = 1) -> str:
        bias = self._graph.constant(stored["bias"])
        return str(self._graph.op("Add", self.product(x, stored, factor), bias))

    def product(self, x: str, stored: Any, factor: float = 1) -> str:
        """int8 products, four times as quick as those of float32, and twice as many of them.

        With one digit (8 bits) a vector's cosine to the float32 one falls to 0.98, or 0.997 with
        a scale for each token. Two digits keep 14 bits of it, and the weights are int8 anyway.
        """
        op, constant = self._graph.op, self._graph.constant
        largest = op("ReduceMax", op("Abs", x), axes=[-1])
        unit = op("Div", largest, self._coarse)
        x = op("Div", x, unit)
        high = op("QuantizeLinear", x, self._one, self._middle)
        rest = op("Sub", x, op("DequantizeLinear", high, self._one, self._middle))
        low = op("QuantizeLinear", rest, self._fine, self._middle)

        blocks, inputs, block = stored["weight"].shape
        weight = constant(stored["weight"].transpose(1, 0, 2).reshape(inputs, blocks * block))
        scale = constant(stored["scale"] * np.float32(factor))
        much, little = (
            op("MatMulIntegerToFloat", digit, weight, worth, scale, self._middle)
            for digit, worth in ((high, self._one), (low, self._fine))
        )
        return str(op("Mul", op("Add", much, little), unit))

    def attention(self, qkv: str) -> str:
        op = self._graph.op

        def heads(x: str, order: list[int]) -> str:
            return str(op("Transpose", op("Reshape", x, self._parted), perm=order))

        q, k, v = op("Split", op("Gather", qkv, "spread", axis=0), outputs=3, axis=2)
        # The transpositions that directly precede a product become part of it.
        scores = op("MatMul", heads(q, [0, 2, 1, 3]), heads(k, [0, 2, 3, 1]))
        weights = op("Softmax", op("Add", scores, "hidden"), axis=-1)
        mixed = op("Transpose", op("MatMul", weights, heads(v, [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        return str(op("Gather", op("Reshape", mixed, self._flat), "gather", axis=0))


class Graph:
    """Writes ONNX: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto has the numbers."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._named = 0

    def constant(self, value: Any) -> str:
        name = self._name()
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        parts = [_number(1, length) for length in value.shape]
        parts += [_number(2, TYPES[value.dtype.name]), _text(8, name), _bytes(9, value.tobytes())]
        self._constants.append(b"".join(parts))
        return name

    def op(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        """The name of the output; a list of them if there are several."""
        names = [self._name() for _ in range(outputs)]
        parts = [_text(1, name) for name in inputs] + [_text(2, name) for name in names]
        parts += [_text(4, kind), *(_bytes(5, _attribute(*item)) for item in attributes.items())]
        parts += [_text(7, MICROSOFT)] if kind in OF_MICROSOFT else []
        self._nodes.append(b"".join(parts))
        return names if outputs > 1 else names[0]

    def model(self, inputs: dict[str, Any], outputs: dict[str, Any]) -> bytes:
        graph = [_bytes(1, node) for node in self._nodes] + [_text(2, "minilm")]
        graph += [_bytes(5, constant) for constant in self._constants]
        for number, ends in ((11, inputs), (12, outputs)):
            graph += [_bytes(number, _end(name, *each)) for name, each in ends.items()]
        versions = [
            _bytes(8, _text(1, domain) + _number(2, version))
            for domain, version in (("", OPSET), (MICROSOFT, MICROSOFT_OPSET))
        ]
        return b"".join([_number(1, IR_VERSION), _bytes(7, b"".join(graph)), *versions])

    def _name(self) -> str:
        self._named += 1
        return f"v{self._named}"


def _attribute(name: str, value: Any) -> bytes:
    if isinstance(value, float):
        return _text(1, name) + b"\x15" + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, 2)
    return _text(1, name) + b"".join(_number(8, each) for each in value) + _number(20, 7)


def _end(name: str, kind: str, shape: tuple[int | str, ...]) -> bytes:
    """An input or an output of the whole."""
    lengths = (_text(2, each) if isinstance(each, str) else _number(1, each) for each in shape)
    dimensions = b"".join(_bytes(1, length) for length in lengths)
    tensor = _number(1, TYPES[kind]) + _bytes(2, dimensions)
    return _text(1, name) + _bytes(2, _bytes(1, tensor))


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
