"""Which student a name stands for, and which are refused."""

import pytest
import torch

from bertctl.distill.config import StudentSection
from bertctl.distill.start import WORDS
from bertctl.distill.student import student_config
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.variants.hf import family_of, save_model
from tests.distill.teachers import WORDS_OF_TEACHER, build, config, teacher_of, tokenizer


def test_the_distilbert_preset_of_bert_base_is_distilbert():
    found = student_config(
        "distilbert",
        EncoderConfig(
            vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072
        ),
    )
    assert (found.num_hidden_layers, found.hidden_size, found.type_vocab_size) == (6, 768, 0)
    assert family_of(found, frozenset({"masked_lm"})).model_type == "distilbert"


def test_a_preset_changes_sizes_and_leaves_the_rest_to_the_teacher():
    teacher = config(norm_place="pre", position="rotary", max_position_embeddings=99, vocab_size=77)
    mini = student_config("mini", teacher)
    assert (mini.hidden_size, mini.num_hidden_layers, mini.num_attention_heads) == (256, 4, 4)
    assert (mini.norm_place, mini.position, mini.max_position_embeddings, mini.vocab_size) == ("pre", "rotary", 99, 77)
    narrow = student_config(StudentSection(hidden_size=8), teacher)
    assert (narrow.hidden_size, narrow.num_hidden_layers, narrow.intermediate_size) == (8, 4, 32)


def test_a_yaml_file_is_a_student_too(tmp_path):
    path = tmp_path / "student.yaml"
    path.write_text("num_hidden_layers: 3\n")
    assert student_config(str(path), config()).num_hidden_layers == 3
    path.write_text("num_layers: 3\n")
    with pytest.raises(BertctlError, match=r"student\.yaml:1:1"):
        student_config(str(path), config())


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (StudentSection(name="distlbert"), "did you mean 'distilbert'"),
        (StudentSection(size="minni"), "did you mean 'mini'"),
        (StudentSection(hidden_size=15), "student: hidden_size 15"),
    ],
)
def test_sections_that_fit_nothing_are_refused(section, message):
    with pytest.raises(BertctlError, match=message):
        student_config(section, config())


def test_a_student_can_be_a_checkpoint(tmp_path):
    torch.manual_seed(9)
    model = Model(config(num_hidden_layers=1), {"masked_lm": 0})
    save_model(tmp_path, model, WORDS_OF_TEACHER)
    student = build(str(tmp_path), teacher_of({"sequence": 3}))
    assert student.source == tmp_path
    assert student.model.head_outputs == {"sequence": 3}
    assert torch.equal(student.model.state_dict()[WORDS], model.state_dict()[WORDS])
    assert {name.split(".")[0] for name in student.fresh} == {"heads", "pooler"}
    with pytest.raises(BertctlError, match="brings its own layers"):
        build(str(tmp_path), teacher_of(), layer_map=[1])


def test_a_checkpoint_with_one_other_id_is_refused(tmp_path):
    words = list("abcdefghijklmno")
    words[3], words[4] = words[4], words[3]
    save_model(tmp_path, Model(config(), {"masked_lm": 0}), tokenizer(*words))
    with pytest.raises(BertctlError, match="in 2 of 20 ids; the first is id 8, 'e' and 'd'") as caught:
        build(str(tmp_path), teacher_of())
    assert caught.value.exit_code == 2


def test_a_name_that_means_nothing_says_what_a_student_can_be():
    with pytest.raises(BertctlError) as caught:
        build("minni", teacher_of())
    assert "minni: no such folder" in caught.value.problems[0]
    assert "a preset (mini" in caught.value.hint
