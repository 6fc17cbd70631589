"""Train the embedding model of the package: collect, train, evaluate.

    python -m tools.convert_minilm                             the original -> .cache/original
    python -m tools.train_embedding.collect                    public texts -> .cache/train
    python -m tools.train_embedding.train --out .cache/model   one CUDA GPU, under ten minutes
    python -m tools.train_embedding.evaluate --new .cache/model/weights.bin

The packaged weights are the mean of two runs over the same data (``--recipe '{"seed": 1}'`` and
``'{"seed": 2, "pairs": 1.0}'``), of which 85 % were blended with the published model:

    python -m tools.train_embedding.weights ONE OTHER 0.5 MEAN
    python -m tools.train_embedding.weights .cache/original/weights.bin MEAN 0.85 weights.bin

``sources.toml`` lists every public repository that is read, the commit, and the licence as it
was read there. ``docs/model-card.md`` says what came of it. ``make train-smoke`` runs a few
steps of all this on the processor.
"""
