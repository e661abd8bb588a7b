"""The recipe section that names labelled data, shared by every stage that reads it."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from bertctl.recipe.section import Section

TaskName = Literal[
    "classification",
    "multi_label",
    "regression",
    "ner",
    "pos",
    "qa",
    "multiple_choice",
    "embedding",
    "image_classification",
]
LabelTaskName = Literal["classification", "ner", "pos", "image_classification"]
"""Tasks whose every item has one of a few named labels: what can be probed."""
DataFormat = Literal["auto", "csv", "tsv", "jsonl", "parquet", "conll", "conllu"]
Scheme = Literal["auto", "BIO", "IOB1", "BIOES", "IO", "none"]
PYTHON_DOCS = "python_docs"

Column = str | int
"""A column by its name, or by its position counted from 1."""


class ColumnsSection(Section):
    """Which columns hold what. Those that are left out are found by their usual names."""

    text: Column | None = None
    """The text, or the first of a pair (usual names: sentence, text, sentence1, premise, question, ...); in qa the
    question, in multiple_choice the context (context, sent1, ...), in embedding the anchor (anchor, query, ...)."""
    text_pair: Column | None = None
    """The second text of a pair (usual names: sentence2, hypothesis, ...); in qa the context, in multiple_choice the
    question, or what all endings begin with (question, sent2), in embedding what belongs to the anchor (positive,
    passage, ...)."""
    image: Column | None = None
    """An image (image_classification): the name of its file (file, file_name, path, ...), from the folder of the table
    on, or the image itself as `datasets` writes it (image)."""
    label: Column | None = None
    """The label of a text (usual names: label, labels, class, ...), its labels, or its number (score, ...); in qa the
    answers, in multiple_choice the number of the right choice, from 0, or its text."""
    labels: tuple[Column, ...] = ()
    """Several labels (multi_label): the columns that hold 1 where a label applies and 0 where it does not."""
    choices: tuple[Column, ...] = ()
    """What there is to choose from (multiple_choice): one column with lists of texts (choices, endings, options), or a
    column a choice (ending0, ending1, ...)."""
    negatives: tuple[Column, ...] = ()
    """What does not belong to the anchor (embedding): columns with a text or a list of texts (negative, negative_1,
    neg, ...)."""
    tokens: Column | None = None
    """The words of a sentence: a list in JSONL and Parquet (tokens, words), a column of a CoNLL file (the first)."""
    tags: Column | None = None
    """The tags of the words: a list (tags, ner_tags, ...), a column of a CoNLL file (the last), `xpos` in CoNLL-U."""

    @model_validator(mode="after")
    def _positions_count_from_one(self) -> Self:
        if any(isinstance(value, int) and value < 1 for value in self.all()):
            raise ValueError("positions of columns count from 1")
        return self

    def all(self) -> list[Column]:
        """Every column that is named."""
        return [
            *self.labels,
            *self.choices,
            *self.negatives,
            *(value for value in self.__dict__.values() if isinstance(value, (str, int))),
        ]


class DataSection(Section):
    """Labelled data. Give `path`, `name`, or the files of the splits one by one."""

    exclusive = (("path", "name"),)

    path: Path | None = None
    """One file, or a folder with files named train, dev (or valid, validation) and test in any format of the task."""
    name: str | None = None
    """`python_docs` (labels that Python itself carries), a data set of the Hugging Face hub, or a folder of one."""
    subset: str | None = None
    """Configuration of a hub data set, as in `nyu-mll/glue` with `sst2`; of `python_docs`: `package` or `pairs`."""
    train: str | None = None
    """File with the training data; for a named data set the name of its split."""
    dev: str | None = None
    """File with the development data, which picks the best checkpoint; without it a share of train is held out."""
    test: str | None = None
    """File with the test data, which is scored once."""
    format: DataFormat = "auto"
    """Format of the files; `auto` goes by the ending, then by the content."""
    header: bool | None = None
    """Whether the first row of CSV and TSV holds names; by default it does unless a column is named by its position."""
    columns: ColumnsSection = ColumnsSection()
    """Which columns hold what."""
    label_names: tuple[str, ...] = ()
    """Names of labels that are written as numbers 0, 1, 2, ... in the data."""
    label_separator: str | None = Field(default=None, min_length=1)
    """What parts the labels of one text in a cell of CSV and TSV (multi_label), such as "," or "|"."""
    scheme: Scheme = "auto"
    """How tags mark entities; `auto` finds it in the data."""
    ill_formed_tags: Literal["refuse", "keep"] = "refuse"
    """What to do with gold tags that no scheme, or not the named one, writes this way (an I- after O in BIO)."""
    long_text: Literal["cut", "refuse", "windows"] | None = None
    """Whole texts longer than the model: cut and counted, refused, or read in overlapping windows, each a training
    example with the label of the text, and their logits averaged. If not given, as the checkpoint was fine-tuned, else
    cut. Token labels are always read in windows."""
    overlap_tokens: int | None = Field(default=None, ge=0)
    """Word pieces that neighbouring windows share; fewer than a window holds. 32, or half a window if that is less, if
    not given."""
    dev_share: float = Field(default=0.1, gt=0.0, lt=1.0)
    """Share of train that is held out, by seed and stratified by label, if there is no dev data."""
    train_examples: int | None = Field(default=None, ge=1)
    """Use at most so many training examples, drawn by seed and stratified by label."""
    dev_examples: int | None = Field(default=None, ge=1)
    """Use at most so many development examples."""
    test_examples: int | None = Field(default=None, ge=1)
    """Use at most so many test examples."""

    @model_validator(mode="after")
    def _subset_of_a_name(self) -> Self:
        if self.subset is not None and self.name is None:
            raise ValueError("`subset` belongs to a named data set")
        return self

    def is_given(self) -> bool:
        """Whether any source is named."""
        return any(source is not None for source in (self.path, self.name, self.train, self.dev, self.test))
