"""The examples of `python_docs`, for each task that the docstrings of Python hold labels for."""

from bertctl.demo import answers, entities, labels
from bertctl.errors import BertctlError
from bertctl.tasks.config import DataSection
from bertctl.tasks.embedding_data import PairExample
from bertctl.tasks.questions import Answer, QuestionExample
from bertctl.tasks.task import Splits, TextExample, TokenExample

SEED = 0  # not that of the run: what is test data in one stage must not be training data in another
SUBSETS = {"package": labels.package_examples, "pairs": labels.pair_examples}


def texts(data: DataSection) -> Splits:
    """`package`: which package a text documents; `pairs`: whether a body belongs to a summary."""
    find = SUBSETS.get(data.subset or "package")
    if find is None:
        raise BertctlError(f"subset: got {data.subset!r}, expected one of {', '.join(SUBSETS)} for python_docs")
    found = find(_sizes(data), SEED)
    train, dev, test = ([TextExample(*labelled) for labelled in found[split]] for split in found)
    return Splits(train, dev, test)


def tagged(data: DataSection) -> Splits:
    """Words that name a parameter, class, exception, function or module.

    A small training set may lack one of the five; sentences with it are then left out of dev and test.
    """
    found = entities.tagged_sentences(_sizes(data), SEED)
    types = {tag[2:] for _, _, tags in found["train"] for tag in tags}
    train, dev, test = (
        [
            TokenExample(words, tags, where, (), scheme="BIO")
            for where, words, tags in found[split]
            if {tag[2:] for tag in tags} <= types
        ]
        for split in found
    )
    return Splits(train, dev, test)


def searched(data: DataSection) -> Splits:
    """The words of a function's or class's name, and what it documents."""
    found = labels.name_examples(_sizes(data), SEED)
    train, dev, test = ([PairExample(name, text, where) for where, name, text in found[split]] for split in found)
    return Splits(train, dev, test)


def asked(data: DataSection) -> Splits:
    """What does this function return?"""
    found = answers.asked_questions(_sizes(data, answers.SIZES), SEED)
    train, dev, test = ([_question(item) for item in found[split]] for split in found)
    return Splits(train, dev, test)


def _question(item: answers.Asked) -> QuestionExample:
    _, start, text = item.answer
    return QuestionExample(item.where, item.question, item.context, (Answer(text, start),), item.where)


def unlabelled(data: DataSection, *, task: str, hint: str) -> Splits:
    """There is nothing in it to learn the task from. Errors: BertctlError, always."""
    raise BertctlError(f"python_docs: got the task {task}, for which it holds no labels", hint=hint)


def _sizes(data: DataSection, usual: labels.Sizes = labels.Sizes()) -> labels.Sizes:  # noqa: B008  # a tuple
    asked = {"train": data.train_examples, "dev": data.dev_examples, "test": data.test_examples}
    return usual._replace(**{split: size for split, size in asked.items() if size is not None})
