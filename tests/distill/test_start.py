"""What a student starts from."""

import numpy as np
import pytest
import torch

from bertctl.distill.config import StudentSection
from bertctl.distill.start import (
    LAYERS,
    POSITIONS,
    PROJECT,
    SEGMENTS,
    WORDS,
    checked_map,
    principal_directions,
)
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from tests.distill.teachers import build, config, teacher_of


def test_half_has_the_tensors_of_every_other_layer_and_all_else_of_the_teacher():
    teacher = teacher_of()
    student = build("half", teacher)
    assert student.layer_map == [1, 4]
    assert not student.fresh
    assert not student.projected
    have = teacher.state_dict()
    for name, tensor in student.model.state_dict().items():
        source = name.replace(f"{LAYERS}1.", f"{LAYERS}3.") if name.startswith(LAYERS) else name
        assert torch.equal(tensor, have[source]), name


def test_a_student_with_all_layers_computes_what_the_teacher_computes():
    teacher = teacher_of(norm_place="pre", position="rotary", initializer_range=0.1).eval()
    student = build(StudentSection(), teacher).model.eval()
    ids = torch.randint(5, 20, (2, 9))
    assert torch.equal(teacher(ids).last_hidden_state, student(ids).last_hidden_state)


def test_layers_with_windows_start_from_layers_with_windows():
    teacher = teacher_of(num_hidden_layers=8, attention=("full", "local", "local"))
    student = build("half", teacher)
    assert student.layer_map == [1, 3, 6, 7]  # evenly it is 1, 3, 6, 8, and the eighth has a window
    name = "attention.query.weight"
    own, have = student.model.state_dict(), teacher.state_dict()
    assert torch.equal(own[f"{LAYERS}3.{name}"], have[f"{LAYERS}6.{name}"])
    other = build(StudentSection(num_hidden_layers=4, attention=("causal",)), teacher)
    assert other.layer_map == [1, 3, 6, 8]


def test_half_of_layers_in_groups_has_no_more_groups_than_layers():
    teacher = teacher_of(layer_sharing="all", num_hidden_groups=3, embedding_size=8)
    student = build("half", teacher)
    assert (student.layer_map, student.model.config.num_hidden_groups) == ([1, 4], 2)
    assert not student.fresh
    name, have = "feed_forward.up.weight", teacher.state_dict()
    for layer, source in enumerate((0, 3)):
        assert torch.equal(student.model.state_dict()[f"{LAYERS}{layer}.{name}"], have[f"{LAYERS}{source}.{name}"])


def test_a_given_map_is_followed():
    teacher = teacher_of()
    student = build("half", teacher, layer_map=[4, 2]).model.state_dict()
    name = "feed_forward.up.weight"
    assert torch.equal(student[f"{LAYERS}0.{name}"], teacher.state_dict()[f"{LAYERS}3.{name}"])
    assert torch.equal(student[f"{LAYERS}1.{name}"], teacher.state_dict()[f"{LAYERS}1.{name}"])


@pytest.mark.parametrize(
    ("given", "message"), [([0, 2], "got layer 0, expected the teacher's 1..4"), ([1], "got 1 layers")]
)
def test_a_map_that_does_not_fit_is_refused(given, message):
    with pytest.raises(BertctlError, match=message):
        checked_map(given, config(), config(num_hidden_layers=2))


def test_a_deeper_student_is_refused():
    with pytest.raises(BertctlError, match="6 layers cannot start from the teacher's 4"):
        build(StudentSection(num_hidden_layers=6), teacher_of())


def test_a_student_without_segments_embeds_a_single_text_as_the_teacher():
    teacher = teacher_of()
    student = build(StudentSection(type_vocab_size=0, num_hidden_layers=2), teacher)
    assert "sentence_pair" not in student.model.head_outputs
    assert student.model.pooler is None
    have, own = teacher.state_dict(), student.model.state_dict()
    assert torch.equal(own[POSITIONS], have[POSITIONS] + have[SEGMENTS][0])
    ids = torch.randint(5, 20, (2, 9))
    embedded = [m.eval()(ids, output_hidden_states=True).hidden_states[0] for m in (teacher, student.model)]
    assert torch.allclose(*embedded, atol=1e-5)


def test_other_layers_start_fresh_and_embeddings_are_still_copied():
    teacher = teacher_of()
    student = build(StudentSection(norm_place="pre", num_hidden_layers=2), teacher)
    assert student.layer_map is None
    assert torch.equal(student.model.state_dict()[WORDS], teacher.state_dict()[WORDS])
    assert f"{LAYERS}0.attention.query.weight" in student.fresh
    with pytest.raises(BertctlError, match="differ from the teacher's in norm_place"):
        build(StudentSection(norm_place="pre", num_hidden_layers=2), teacher, layer_map=[1, 2])


def test_a_narrower_student_gets_the_embeddings_on_their_principal_directions():
    teacher = teacher_of()
    student = build(StudentSection(hidden_size=8, intermediate_size=16), teacher)
    assert set(student.projected) == {WORDS, POSITIONS, SEGMENTS}
    words = teacher.state_dict()[WORDS].double().numpy()
    _, singular, _ = np.linalg.svd(words)  # Eckart-Young: no 8 directions lose less than the smallest singular values
    lost = np.square(words).sum() - np.square(student.model.state_dict()[WORDS].double().numpy()).sum()
    assert lost == pytest.approx(np.square(singular[8:]).sum(), rel=1e-4)
    directions = principal_directions(teacher.state_dict()[WORDS], 8)
    assert torch.allclose(directions.T @ directions, torch.eye(8), atol=1e-5)


def test_the_same_seed_gives_the_same_fresh_weights():
    spec, teacher = StudentSection(hidden_size=8, intermediate_size=16), teacher_of()
    first, again, other = (build(spec, teacher, seed=seed).model.state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    name = f"{LAYERS}0.attention.query.weight"
    assert not torch.equal(first[name], other[name])


def embedded(model: Model, ids: torch.Tensor) -> torch.Tensor:
    """What the first layer sees, [B, T, E]."""
    with torch.no_grad():
        return model.eval()(ids, output_hidden_states=True).hidden_states[0]


def test_factorised_embeddings_come_close_to_those_of_the_teacher():
    """Words in few directions but for a little noise, as trained ones nearly are: 6 of 16 directions suffice."""
    teacher = teacher_of(position="rotary", norm_place="pre", type_vocab_size=0)
    basis = torch.linalg.qr(torch.randn(16, 6))[0]
    basis = torch.linalg.qr(basis - basis.mean(dim=0))[0]  # without the mean over features, which the norm takes out
    teacher.state_dict()[WORDS].copy_(torch.randn(20, 6) @ basis.T + 0.01 * torch.randn(20, 16))
    student = build(StudentSection(embedding_size=6, num_hidden_layers=2), teacher)
    fresh = Model(student.model.config, {"masked_lm": 0})
    assert student.projected == (WORDS, f"{PROJECT}.weight", f"{PROJECT}.bias")
    assert student.layer_map == [1, 4]
    ids = torch.arange(5, 20)[None]
    wanted, found, drawn = (embedded(model, ids) for model in (teacher, student.model, fresh))
    likeness = torch.nn.functional.cosine_similarity(found, wanted, dim=-1)
    assert likeness.mean() > 0.9
    assert found.norm() == pytest.approx(float(wanted.norm()), rel=0.2)
    assert torch.nn.functional.cosine_similarity(drawn, wanted, dim=-1).mean() < 0.5


@pytest.mark.parametrize("width", [8, 16])
def test_a_student_that_reads_less_has_the_first_positions(width):
    teacher = teacher_of()
    student = build(StudentSection(hidden_size=width, max_position_embeddings=10), teacher)
    have = teacher.state_dict()
    narrow = torch.eye(16) if width == 16 else principal_directions(have[WORDS], width)
    assert torch.allclose(student.model.state_dict()[POSITIONS], have[POSITIONS][:10] @ narrow, atol=1e-5)


def test_a_student_that_reads_more_has_fresh_positions():
    assert build(StudentSection(max_position_embeddings=40), teacher_of()).fresh == (POSITIONS,)


def test_a_shared_student_starts_from_the_layer_of_its_first_one_and_an_unshared_one_from_the_shared():
    teacher = teacher_of()
    student = build(StudentSection(layer_sharing="all", num_hidden_layers=2), teacher)
    assert student.layer_map == [1, 4]
    assert student.model.encoder.layers[0] is student.model.encoder.layers[1]
    query = "attention.query.weight"
    got = student.model.encoder.layers[1].get_parameter(query)
    assert torch.equal(got, teacher.encoder.layers[0].get_parameter(query))

    shared = teacher_of(layer_sharing="all")
    copies = build(StudentSection(layer_sharing="none", num_hidden_layers=2), shared).model.encoder.layers
    assert copies[0] is not copies[1]
    assert all(torch.equal(c.get_parameter(query), shared.encoder.layers[0].get_parameter(query)) for c in copies)


def test_rows_of_the_position_table_that_stand_for_no_place_are_left_behind():
    teacher = teacher_of(position_after_padding=True, pad_token_id=2)
    student = build(StudentSection(position_after_padding=False, max_position_embeddings=10), teacher)
    assert torch.equal(student.model.state_dict()[POSITIONS], teacher.state_dict()[POSITIONS][3:13])
    same = build(StudentSection(max_position_embeddings=10), teacher)
    assert torch.equal(same.model.state_dict()[POSITIONS], teacher.state_dict()[POSITIONS][:13])
