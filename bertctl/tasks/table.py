"""All tasks. To add one: a file beside this one, and a row here."""

from functools import partial

from bertctl.tasks import classification, python_docs, sentences, texts, token_labels
from bertctl.tasks.task import Task

TASKS: dict[str, Task] = {
    "classification": Task(
        name="classification",
        head="sequence",
        metric="accuracy",
        read_file=classification.read_file,
        read_table=classification.read_rows,
        demo=python_docs.texts,
        finish=classification.finish,
        labels=classification.labels,
        gold=classification.gold,
        key=texts.segments,
        input=classification.input_example,
        encode=classification.encode,
        predictions=classification.predictions,
        constant=classification.constant,
        score=classification.score,
        details=classification.details,
    ),
    "ner": Task(
        name="ner",
        head="token",
        metric="f1",
        read_file=partial(sentences.read_file, task="ner"),
        read_table=partial(sentences.read_rows, task="ner"),
        demo=python_docs.tagged,
        finish=token_labels.settle_schemes,
        labels=token_labels.entity_labels,
        gold=token_labels.gold,
        key=token_labels.key,
        input=sentences.input_example,
        encode=token_labels.encode,
        predictions=token_labels.predictions,
        constant=token_labels.constant,
        score=token_labels.score_entities,
        details=token_labels.entity_details,
    ),
    "pos": Task(
        name="pos",
        head="token",
        metric="token_accuracy",
        read_file=partial(sentences.read_file, task="pos"),
        read_table=partial(sentences.read_rows, task="pos"),
        demo=python_docs.untagged,
        finish=token_labels.plain_tags,
        labels=token_labels.tag_labels,
        gold=token_labels.gold,
        key=token_labels.key,
        input=sentences.input_example,
        encode=token_labels.encode,
        predictions=token_labels.predictions,
        constant=token_labels.constant,
        score=token_labels.score_tags,
        details=token_labels.tag_details,
    ),
}
