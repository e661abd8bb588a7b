"""DeBERTa's enhanced mask decoder, against transformers' own layers put together as the released training code does."""

import json

import pytest
import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.heads.model import Model
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.variants.deberta import COMMON
from bertctl.variants.hf import load_model, save_model

SIZES = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 48}
SMALL = {"max_position_embeddings": 40, "relative_buckets": 8, "relative_max_distance": 16, "initializer_range": 0.2}
IDS = torch.randint(4, 60, (2, 14), generator=torch.Generator().manual_seed(0))
MASK = torch.arange(14)[None] < torch.tensor([[14], [9]])
PLACES = torch.tensor([2, 5, 13, 14 + 1, 14 + 7])


def config(**changes):
    return EncoderConfig(**COMMON | SIZES | SMALL | {"mask_decoder": True} | changes)


def model(heads=("masked_lm",), **changes):
    torch.manual_seed(1)
    return Model(config(**changes), dict.fromkeys(heads, 0)).eval()


def test_it_asks_the_last_layer_twice_as_the_released_code(tmp_path):
    import transformers

    ours = model()
    plain = Model(config(mask_decoder=False), {"masked_lm": 0})
    plain.load_state_dict(ours.state_dict(), strict=False)
    save_model(tmp_path, plain, None)
    bare = transformers.DebertaV2Model.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        states = bare(IDS, MASK.long(), output_hidden_states=True).hidden_states
        encoder, before = bare.encoder, states[-2]
        mask = encoder.get_attention_mask(MASK.long())
        relative, asked = encoder.get_rel_embedding(), before + ours.mask_decoder.table.weight[:14]
        for _ in range(2):
            asked = encoder.layer[-1](
                before, mask, query_states=asked, relative_pos=encoder.get_rel_pos(before), rel_embeddings=relative
            )[0]
        wanted = ours.heads["masked_lm"](asked.flatten(0, 1)[PLACES], ours.encoder.embeddings.word.weight)
        output = ours(IDS, MASK)
        found = ours.masked_logits(output, PLACES)
    assert torch.allclose(output.last_hidden_state[MASK], states[-1][MASK], atol=1e-5)
    assert torch.allclose(found, wanted, atol=1e-5)
    assert not torch.allclose(found, plain.eval().masked_logits(plain(IDS, MASK), PLACES), atol=0.1)


def test_only_the_decoder_knows_absolute_places():
    """In a text of one word, two places are told apart by nothing but their distances to its ends; by far most of the
    difference is the table's."""
    ours, ids, places = model(), torch.full((1, 8), 7), torch.tensor([3, 4])
    with torch.no_grad():
        known = ours.masked_logits(ours(ids), places)
        ours.mask_decoder.table.weight.zero_()
        unknown = ours.masked_logits(ours(ids), places)
    assert float((known[0] - known[1]).abs().max()) > 10 * float((unknown[0] - unknown[1]).abs().max())


def test_the_table_and_the_last_layer_learn():
    ours = model().train()
    labels = torch.tensor([4, 5, 6, 7, 8])
    batch = {"input_ids": IDS, "attention_mask": MASK, "masked_positions": PLACES, "labels": labels}
    PretrainingObjective(ours)(batch)["mlm"].backward()
    gradient = ours.mask_decoder.table.weight.grad
    assert float(gradient[:14].abs().sum()) > 0
    assert float(gradient[14:].abs().sum()) == 0
    assert all(float(p.grad.abs().sum()) > 0 for p in ours.encoder.layers[-1].parameters() if p.ndim == 2)


def test_it_is_saved_as_bertctl_and_a_task_model_as_deberta(tmp_path):
    ours = model()
    (tmp_path / "pretrained").mkdir()
    save_model(tmp_path / "pretrained", ours, None)
    assert json.loads((tmp_path / "pretrained" / "config.json").read_text())["model_type"] == "bertctl"
    loaded = load_model(tmp_path / "pretrained")
    assert (loaded.new_tensors, loaded.unused_tensors) == ([], [])
    with torch.no_grad():
        found = loaded.model.eval().masked_logits(loaded.model(IDS, MASK), PLACES)
        assert torch.equal(found, ours.masked_logits(ours(IDS, MASK), PLACES))
    tuned = load_model(tmp_path / "pretrained", {"sequence": 3})
    assert "mask_decoder.table.weight" in tuned.unused_tensors
    (tmp_path / "tuned").mkdir()
    save_model(tmp_path / "tuned", tuned.model, None, labels=["a", "b", "c"])
    assert json.loads((tmp_path / "tuned" / "config.json").read_text())["model_type"] == "deberta-v2"
    assert load_model(tmp_path / "tuned").new_tensors == []


@pytest.mark.parametrize("changes", [{"position": "learned"}, {"norm_place": "pre"}])
def test_it_is_for_encoders_without_places_and_with_norms_after_the_sums(changes):
    with pytest.raises(ValueError, match="mask_decoder adds places at the end"):
        config(**changes)
