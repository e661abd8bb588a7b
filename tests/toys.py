"""Texts that a tiny encoder learns from: which words they are made of, documents with a topic, names to be tagged."""

import numpy as np

TOPICS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
GOOD, BAD = ("fine", "great", "lovely"), ("dull", "awful", "poor")
FILLER = ("the", "a", "was", "and", "it", "we", "saw", "very")


def documents(count: int, seed: int, width: int) -> str:
    """Three sentences of `width` words each, in nine places of ten one word of the document's own: masked tokens can be
    told. And one document with all the other words that there are."""
    generator = np.random.default_rng(seed)
    noise, topics = generator.choice(TOPICS, (count, 3, width)), generator.choice(TOPICS, (count, 1, 1))
    words = np.where(generator.random((count, 3, width)) < 0.1, noise, topics)
    every = "\n".join([" ".join((*GOOD, *BAD, *FILLER))] * 2)
    return "\n\n".join([*("\n".join(" ".join(row) for row in document) for document in words), every]) + "\n"


def tagged(count: int, seed: int, shortest: int = 3, longest: int = 8) -> str:
    """CoNLL: the good words are persons, each in a sentence of so many words of filler."""
    generator = np.random.default_rng(seed)
    sentences = []
    for _ in range(count):
        rows = [f"{word} O" for word in generator.choice(FILLER, generator.integers(shortest, longest + 1))]
        rows.insert(int(generator.integers(0, len(rows))), f"{generator.choice(GOOD)} B-PER")
        sentences.append("\n".join(rows))
    return "\n\n".join(sentences) + "\n"
