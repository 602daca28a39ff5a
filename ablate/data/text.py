"""Texts -> fixed-size float vectors, offline and without a model: signed hashing of words and word pairs."""

from __future__ import annotations

import torch

DIMENSIONS = 48  # changing what is computed here needs another name in `graph_cache.EMBEDDER`


def embed_texts(texts: list[str]) -> torch.Tensor:
    """Embed texts by feature hashing, L2-normalized; the same text gives the same vector on every machine.

    Args:
        texts: N texts; missing ones may be None or NaN and give the zero vector.

    Returns:
        float32 tensor of shape (N, 48).
    """
    # takes a second to import, and a trial embeds nothing
    from sklearn.feature_extraction.text import HashingVectorizer

    vectorizer = HashingVectorizer(
        n_features=DIMENSIONS, ngram_range=(1, 2), norm="l2", token_pattern=r"(?u)\b\w+\b", lowercase=True
    )
    words = [text if isinstance(text, str) else "" for text in texts]
    return torch.from_numpy(vectorizer.transform(words).toarray()).float()
