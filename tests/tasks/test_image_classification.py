"""Folders and tables of images: the layouts that are read, and everything that is wrong with one, named at once."""

import io
import json

import datasets
import numpy as np
import pytest
from PIL import Image

from bertctl.errors import BertctlError
from bertctl.images.processor import ImageProcessor
from bertctl.tasks.config import ColumnsSection, DataSection
from bertctl.tasks.image_classification import encode, image_input
from bertctl.tasks.splits import test_data as data_to_score
from bertctl.tasks.splits import training_data
from bertctl.tasks.table import TASKS
from bertctl.tasks.task import Limits

TASK = TASKS["image_classification"]


def png(shade):
    buffer = io.BytesIO()
    Image.new("L", (4, 4), shade).save(buffer, "PNG")
    return buffer.getvalue()


def write(folder, files):
    """Images of one shade each, by name."""
    for name, shade in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(shade))


def labels(examples):
    return [example.label for example in examples]


def shades(examples):
    """What is in the images, through the processor: grey values."""
    features = encode(
        examples, ImageProcessor(4, 4, (0.0,), (1.0,), rescale_factor=1.0), sorted(set(labels(examples))), Limits(9)
    )
    return [feature.pixels()[0, 0, 0].item() for feature in features]


SPLITS = {
    "train/cat/1.png": 1,
    "train/cat/2.png": 2,
    "train/dog/1.png": 3,
    "validation/dog/9.png": 4,
    "test/cat/7.JPG": 5,
}


def test_a_folder_a_class_below_a_folder_a_split(tmp_path):
    write(tmp_path, SPLITS)
    (tmp_path / "train" / "readme.txt").write_text("not an image")
    found = training_data(TASK, DataSection(path=tmp_path), seed=0)
    assert [labels(split) for _, split in found.items()] == [["cat", "cat", "dog"], ["dog"], ["cat"]]
    assert shades(found.train) == [1, 2, 3]
    assert found.train[2].place() == str(tmp_path / "train/dog/1.png")
    split, examples = data_to_score(TASK, DataSection(path=tmp_path), labels=["cat", "dog"], seed=0)
    assert (split, labels(examples)) == ("test", ["cat"])


def test_a_folder_a_class_alone_is_train_and_for_scoring_test(tmp_path):
    write(tmp_path, {f"{label}/{n}.png": 10 * n + k for k, label in enumerate("ab") for n in range(10)})
    found = training_data(TASK, DataSection(path=tmp_path), seed=0)
    assert (len(found.train), len(found.dev), len(found.test)) == (18, 2, 0)
    split, examples = data_to_score(TASK, DataSection(path=tmp_path), labels=["a", "b"], seed=0)
    assert (split, len(examples)) == ("test", 20)


@pytest.mark.parametrize("table", ["train.csv", "metadata.csv", "metadata.jsonl", "columns"])
def test_images_beside_a_table(table, tmp_path):
    write(tmp_path, {"1.png": 1, "deep/2.png": 2, "3.png": 3})
    rows, data = [("1.png", "x"), ("deep/2.png", "y"), ("3.png", "x")], {}
    if table.endswith("jsonl"):
        text = "".join(json.dumps({"file_name": name, "label": label}) + "\n" for name, label in rows)
    else:
        text = "".join(f"{name},{label}\n" for name, label in [("file", "label"), *rows])
    if table == "columns":
        table, text = "train.csv", text.replace("file,label", "photo,species")
        data = {"columns": ColumnsSection(image="photo", label="species")}
    (tmp_path / table).write_text(text)
    found = training_data(TASK, DataSection(path=tmp_path, dev_share=0.4, **data), seed=3)
    together = [*found.train, *found.dev]
    assert sorted(zip(shades(together), labels(together), strict=True)) == [(1, "x"), (2, "y"), (3, "x")]


def parquet(folder):
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])})
    rows = {"image": [{"bytes": png(n), "path": None} for n in range(4)], "label": [0, 1, 1, 0]}
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.mark.parametrize("how", ["parquet", "save_to_disk"])
def test_what_datasets_writes(how, tmp_path):
    rows = parquet(tmp_path)
    if how == "parquet":
        rows.to_parquet(tmp_path / "train.parquet")
        rows.to_parquet(tmp_path / "dev.parquet")
        data = DataSection(path=tmp_path)
    else:
        datasets.DatasetDict({"train": rows, "validation": rows}).save_to_disk(tmp_path / "set")
        data = DataSection(name=str(tmp_path / "set"))
    found = training_data(TASK, data, seed=0)
    assert labels(found.train) == ["cat", "dog", "dog", "cat"]
    assert shades(found.dev) == [0, 1, 2, 3]


def test_every_broken_image_and_missing_file_is_named_at_once(tmp_path):
    write(tmp_path, SPLITS)
    (tmp_path / "train/cat/bad.png").write_bytes(png(3)[:50])
    (tmp_path / "validation/dog/none.png").write_bytes(b"")
    with pytest.raises(BertctlError) as caught:
        training_data(TASK, DataSection(path=tmp_path), seed=0)
    assert [p.split(": ")[0] for p in caught.value.problems] == [
        str(tmp_path / "train/cat/bad.png"),
        str(tmp_path / "validation/dog/none.png"),
    ]
    (tmp_path / "list.csv").write_text("file,label\ntrain/cat/1.png,cat\nno.png,dog\n,dog\ntrain/dog/1.png,\n")
    with pytest.raises(BertctlError) as caught:
        training_data(TASK, DataSection(path=tmp_path / "list.csv"), seed=0)
    text = str(caught.value)
    assert f"{tmp_path / 'list.csv'}:3: no.png: cannot be read" in text
    assert "list.csv:4: got an empty cell, expected an image or its file" in text
    assert "list.csv:5: got an empty cell in the column 'label'" in text


def test_a_column_that_is_not_there_and_a_folder_for_no_split(tmp_path):
    (tmp_path / "train.csv").write_text("picture,label\na.png,x\n")
    with pytest.raises(BertctlError, match=r"got the columns 'picture', 'label'.*columns\.image"):
        training_data(TASK, DataSection(path=tmp_path / "train.csv"), seed=0)
    write(tmp_path / "set", SPLITS | {"more/cat/1.png": 1})
    with pytest.raises(BertctlError, match=r"more: got a folder for no split"):
        training_data(TASK, DataSection(path=tmp_path / "set"), seed=0)


def test_the_same_image_in_two_splits_is_a_leak(tmp_path):
    write(tmp_path, SPLITS | {"test/dog/copy.png": 2})
    found = training_data(TASK, DataSection(path=tmp_path), seed=0)
    assert TASK.key(found.train[1]) == TASK.key(found.test[-1])
    assert len({TASK.key(example) for example in [*found.train, *found.dev]}) == 4


def test_a_line_of_input_is_a_file_and_an_object_has_its_columns(tmp_path):
    write(tmp_path, {"a.png": 7})
    for record in (str(tmp_path / "a.png"), {"file": str(tmp_path / "a.png")}, {"image": {"bytes": png(7)}}):
        example = image_input(record, DataSection(), "<stdin>:1")
        assert example.label is None
        pixels = ImageProcessor(4, 4, (0.0,), (1.0,), rescale_factor=1.0).pixels(example.image)
        assert np.array_equal(pixels, np.full((1, 4, 4), 7.0))
    with pytest.raises(BertctlError, match="<stdin>:2: got an empty cell"):
        image_input("", DataSection(), "<stdin>:2")
