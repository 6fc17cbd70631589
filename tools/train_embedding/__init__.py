"""Train the embedding model of the package: collect, train, evaluate.

    python -m tools.train_embedding.collect                    public texts -> .cache/train
    python -m tools.train_embedding.train --out .cache/model   one CUDA GPU, under ten minutes
    python -m tools.train_embedding.evaluate --new .cache/model/weights.bin

``sources.toml`` lists every public repository that is read, the commit, and the licence as it
was read there. ``docs/model-card.md`` says what came of it. ``make train-smoke`` runs a few
steps of all this on the processor.
"""
