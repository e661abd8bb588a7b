"""What reads a model's inputs, and models that read the other kind."""

import pytest

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.images.processor import ImageProcessor
from bertctl.tasks.preprocessing import preprocessor, refuse_other_inputs
from bertctl.tasks.table import TASKS
from bertctl.text.tokenizer import Tokenizer
from bertctl.variants.hf import save_model

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"], True, True)
TEXTS = EncoderConfig(vocab_size=6, **SIZES)
IMAGES = EncoderConfig(vocab_size=0, type_vocab_size=0, position="grid", image_size=8, patch_size=4, **SIZES)


def test_each_model_comes_with_what_reads_its_inputs(tmp_path):
    for name, config, reader in (("texts", TEXTS, TOKENIZER), ("images", IMAGES, ImageProcessor.of(IMAGES))):
        (tmp_path / name).mkdir()
        save_model(tmp_path / name, Model(config, {}), reader)
        assert preprocessor(tmp_path / name, config).hash == reader.hash


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_a_task_about_the_other_kind_is_refused(task):
    fits, other = (IMAGES, TEXTS) if task.images else (TEXTS, IMAGES)
    refuse_other_inputs(task, fits, "model")
    with pytest.raises(BertctlError, match=f"model: reads .*, and {task.name} is about"):
        refuse_other_inputs(task, other, "model")
