"""Single segments packed with full sentences, for masked-language modelling alone.

Source: Liu et al. 2019, arXiv:1907.11692 (RoBERTa), section 4.2: within documents this is its DOC-SENTENCES, which did
a little better there; across them its FULL-SENTENCES, without the separator, since a record is one run of tokens.
"""

from bisect import bisect_right

import numpy as np

from bertctl.build_pairs.layout import Layout, walk
from bertctl.build_pairs.records import Collector, Records

NO_LABEL = -1


def full_sentences(layout: Layout, documents: np.ndarray, *, longest: int, cross_documents: bool) -> Records:
    """Records of as many sentences as fit into `longest` tokens; together they hold every token of `documents` once.

    `layout` must hold no sentence over `longest` tokens (`Layout.cut_long`).
    """
    collector = Collector()
    runs = _neighbours(layout, documents) if cross_documents else documents[:, None]
    for rank, _ in walk(np.arange(len(runs)), "runs of documents" if cross_documents else "documents"):
        first_document, last_document = runs[rank][0], runs[rank][-1]
        bounds = layout.bounds[layout.documents[first_document] : layout.documents[last_document + 1] + 1].tolist()
        first, last = 0, len(bounds) - 1
        while first < last:
            stop = bisect_right(bounds, bounds[first] + longest, first + 1) - 1
            collector.add((bounds[first], bounds[stop]), (bounds[stop], bounds[stop]), NO_LABEL)
            first = stop
    return collector.records()


def _neighbours(layout: Layout, documents: np.ndarray) -> list[np.ndarray]:
    """The documents in runs that stand next to each other in one shard."""
    shard, _ = layout.locate(layout.bounds[layout.documents[documents]])
    breaks = np.flatnonzero((np.diff(documents) != 1) | (np.diff(shard) != 0)) + 1
    return np.split(documents, breaks)
