"""What pretraining on real text is worth: mini, from raw files to three tasks, beside TF-IDF and the majority class.

    python benchmarks/real_text.py prepare DATA WORK   # -> WORK/corpus.jsonl, WORK/{sst2,trec6,wikigold}
    bertctl run benchmarks/real_text.yaml --set workdir=WORK/run
    python benchmarks/real_text.py baselines WORK        # TF-IDF with logistic regression, and the majority class
    bertctl evaluate WORK/run/pretrain --data WORK/wikitext2-test.txt

DATA holds `books/*.md`, `imdb-unsup/unsup_reviews.txt`, `wikitext2-raw/wiki.{valid,test}.raw`, `sst2/{train,dev}.tsv`,
`trec6/{train,test}.txt` and `wikigold/wikigold.conll.txt` in the form in which their publishers give them.
The baselines need scikit-learn (the `test` extra).
"""

import argparse
import csv
import json
import re
from pathlib import Path

from bertctl import memory

WIKIGOLD_TRAIN_SENTENCES = 1356


def wikitext(path):
    """Articles of a WikiText file: a line ` = Title = ` starts one; `@-@` and the like stand for joined signs."""
    article = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        text = re.sub(r" ?@(.)@ ?", r"\1", line.strip())
        if re.fullmatch(r"= [^=].*[^=] =", text) and article:
            yield "\n".join(article)
            article = []
        if text:
            article.append(text.strip("= "))
    yield "\n".join(article)


def books(folder):
    """Chapters of books in Markdown, without headings and marks of italics."""
    for path in sorted(folder.glob("*.md")):
        for chapter in re.split(
            r"^##? .*$", path.read_text(encoding="utf-8").replace("\r\n", "\n"), flags=re.MULTILINE
        ):
            text = "\n".join(line.strip().replace("_", "") for line in chapter.split("\n") if line.strip())
            if text:
                yield text


def reviews(path):
    """One review a line."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            yield re.sub(r"(<br ?/>)+", "\n", line.strip())


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("sentence", "label"), *rows])


def trec(path):
    """`COARSE:fine question`; train is Latin-1."""
    for line in path.read_text(encoding="latin-1").split("\n"):
        if line.strip():
            label, _, question = line.strip().partition(" ")
            yield question, label.split(":")[0]


def sst2(path):
    for line in path.read_text(encoding="utf-8").split("\n")[1:]:
        if line.strip():
            sentence, label = line.split("\t")
            yield sentence.strip(), label


def prepare(data, work):
    """Write the corpus and the labelled sets in plain formats."""
    work.mkdir(parents=True, exist_ok=True)
    sources = (
        ("books", books(data / "books")),
        ("imdb-unsup", reviews(data / "imdb-unsup" / "unsup_reviews.txt")),
        ("wikitext2-valid", wikitext(data / "wikitext2-raw" / "wiki.valid.raw")),
    )
    with (work / "corpus.jsonl").open("w", encoding="utf-8") as file:
        for name, documents in sources:
            count = words = 0
            for text in documents:
                file.write(json.dumps({"text": text, "source": name}, ensure_ascii=False) + "\n")
                count, words = count + 1, words + len(text.split())
            print(f"{name}: {count:,} documents, {words:,} words")
    held_out = "\n\n".join(wikitext(data / "wikitext2-raw" / "wiki.test.raw"))
    (work / "wikitext2-test.txt").write_text(held_out + "\n", encoding="utf-8")
    for split, file in (("train", "train"), ("test", "dev")):
        write_rows(work / "sst2" / f"{split}.csv", sst2(data / "sst2" / f"{file}.tsv"))
    for split in ("train", "test"):
        write_rows(work / "trec6" / f"{split}.csv", trec(data / "trec6" / f"{split}.txt"))
    sentences = (data / "wikigold" / "wikigold.conll.txt").read_text(encoding="utf-8").replace("\r", "").split("\n\n")
    sentences = [s.strip("\n") for s in sentences if s.strip() and not s.strip().startswith("-DOCSTART-")]
    for split, part in (
        ("train", sentences[:WIKIGOLD_TRAIN_SENTENCES]),
        ("test", sentences[WIKIGOLD_TRAIN_SENTENCES:]),
    ):
        (work / "wikigold").mkdir(exist_ok=True)
        (work / "wikigold" / f"{split}.conll").write_text("\n\n".join(part) + "\n", encoding="utf-8")


def baselines(work):
    """TF-IDF of one and two words with logistic regression, and the larger class, on the test files."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    for task in ("sst2", "trec6"):
        rows = {}
        for split in ("train", "test"):
            with (work / task / f"{split}.csv").open(encoding="utf-8", newline="") as file:
                rows[split] = [(row["sentence"], row["label"]) for row in csv.DictReader(file)]
        (texts, labels), (test_texts, test_labels) = (zip(*rows[split], strict=True) for split in ("train", "test"))
        model = make_pipeline(TfidfVectorizer(ngram_range=(1, 2)), LogisticRegression(max_iter=1000, C=10.0))
        accuracy = model.fit(texts, labels).score(test_texts, test_labels)
        largest = max(test_labels.count(label) for label in set(test_labels)) / len(test_labels)
        print(f"{task}: {len(texts):,} train, {len(test_texts):,} test; TF-IDF {accuracy:.4f}, majority {largest:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("prepare").add_argument("data", type=Path)
    commands.choices["prepare"].add_argument("work", type=Path)
    commands.add_parser("baselines").add_argument("work", type=Path)
    options = parser.parse_args()
    if options.command == "prepare":
        prepare(options.data, options.work)
    else:
        baselines(options.work)


if __name__ == "__main__":
    memory.settle(["pretrain"])  # as the command does
    main()
