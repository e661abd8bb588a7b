"""Which documents are held out from training: whole documents, drawn by seed."""

import numpy as np

from bertctl.build_pairs.next_sentence import can_pair

STREAM = 0x5B117  # keeps this draw apart from all others of the same seed


def hold_out(sentences: np.ndarray, fraction: float, *, seed: int, pairs: bool) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the training and of the held-out documents, both sorted; `sentences` [D] counts each one's sentences.

    At least one document is held out, with `pairs` as many as next-sentence pairs need; none at all if `fraction` is 0
    or the corpus is too small for both sides.
    """
    count = len(sentences)
    order = np.random.default_rng([seed, STREAM]).permutation(count)
    for held in range(max(1, round(fraction * count)), count // 2 + 1) if fraction else ():
        sides = np.sort(order[held:]), np.sort(order[:held])
        if not pairs or all(can_pair(sentences[side]) for side in sides):
            return sides
    return np.arange(count), np.arange(0)
