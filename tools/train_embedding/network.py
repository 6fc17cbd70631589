"""The network of ``reasonbank.embed.minilm`` in torch, so that it can be trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from reasonbank.embed.minilm.network import HEADS, LAYERS, POSITIONS, WIDE, WIDTH, WORDS
from tools.convert_minilm import Array


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.mix, self.mix_norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, eps=1e-12)
        self.widen, self.narrow = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)
        self.narrow_norm = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        seen = functional.scaled_dot_product_attention(q, k, v, attn_mask=read)
        x = self.mix_norm(x + self.mix(seen.transpose(1, 2).flatten(2)))
        wide = functional.gelu(self.widen(x), approximate="tanh")
        return self.narrow_norm(x + self.narrow(wide))


# Our names of a layer's parts, and those of the published model.
PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mix": "attention.output.dense",
    "mix_norm": "attention.output.LayerNorm",
    "widen": "intermediate.dense",
    "narrow": "output.dense",
    "narrow_norm": "output.LayerNorm",
}


class Encoder(nn.Module):
    """Tokens to unit vectors."""

    def __init__(self, tensors: dict[str, Array]) -> None:
        super().__init__()
        self.word, self.position = nn.Embedding(WORDS, WIDTH), nn.Embedding(POSITIONS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.load_state_dict({ours: torch.tensor(tensors[theirs]) for ours, theirs in _names()})

    def forward(self, ids: Tensor) -> Tensor:
        there = ids != 0
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.norm(self.word(ids) + self.position(places))
        for layer in self.layers:
            x = layer(x, there[:, None, None, :])
        summed = (x.float() * there[..., None]).sum(1)
        return functional.normalize(summed, dim=-1)

    def tensors(self) -> dict[str, Array]:
        """For ``weights.write``."""
        state = self.state_dict()
        found = {theirs: state[ours].float().cpu().numpy() for ours, theirs in _names()}
        found["embeddings.token_type_embeddings.weight"] = np.zeros((2, WIDTH), np.float32)
        return found


def _names() -> list[tuple[str, str]]:
    names = [
        ("word.weight", "embeddings.word_embeddings.weight"),
        ("position.weight", "embeddings.position_embeddings.weight"),
        ("norm.weight", "embeddings.LayerNorm.weight"),
        ("norm.bias", "embeddings.LayerNorm.bias"),
    ]
    for i in range(LAYERS):
        for ours, theirs in PARTS.items():
            names += [
                (f"layers.{i}.{ours}.{kind}", f"encoder.layer.{i}.{theirs}.{kind}")
                for kind in ("weight", "bias")
            ]
    return names


class Texts:
    """Many texts as tokens, in one tensor on the device; a batch is cut out of it there."""

    def __init__(self, tokens: Sequence[Sequence[int]], device: str) -> None:
        self.lengths = np.array([len(one) for one in tokens])
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]])
        flat = np.concatenate([np.asarray(one, np.int32) for one in tokens])
        # Room behind the last text, for the padding of a batch that ends with it.
        flat = np.concatenate([flat, np.zeros(POSITIONS, np.int32)])
        self._flat = torch.from_numpy(flat).to(device)
        self._starts = torch.from_numpy(starts).to(device)
        self._sizes = torch.from_numpy(self.lengths).to(device)

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, rows: Array) -> Tensor:
        # Few different widths: each new one costs the device some preparation.
        width = min(POSITIONS, -(-int(self.lengths[rows].max()) // 16) * 16)
        chosen = torch.from_numpy(rows).to(self._flat.device)
        places = torch.arange(width, device=self._flat.device)
        ids = self._flat[self._starts[chosen, None] + places].long()
        return ids.masked_fill(places >= self._sizes[chosen, None], 0)


@torch.no_grad()
def vectors(encoder: Encoder, texts: Texts, tokens_at_once: int = 200_000) -> Tensor:
    """The vectors of all texts, on the texts' device."""
    order = np.argsort(-texts.lengths, kind="stable")
    found: list[Tensor] = []
    at = 0
    while at < len(order):
        many = max(1, tokens_at_once // int(texts.lengths[order[at]]))
        found.append(encoder(texts.batch(order[at : at + many])))
        at += many
    together = torch.cat(found)
    result = torch.empty_like(together)
    result[torch.from_numpy(order).to(together.device)] = together
    return result
