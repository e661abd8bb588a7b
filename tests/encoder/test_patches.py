"""Patches against unfolding by hand, positions on another grid against torch's own image resampling, and refusals."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.encoder import Encoder

SIZES = {
    "vocab_size": 0,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "type_vocab_size": 0,
    "image_size": 12,
    "patch_size": 4,
    "num_channels": 2,
    "position": "grid",
    "norm_place": "pre",
    "embedding_norm": False,
}


def encoder(**changes):
    torch.manual_seed(0)
    return Encoder(EncoderConfig(**(SIZES | {"initializer_range": 0.3} | changes))).eval()


def images(height=12, width=12, count=3):
    return torch.randn(count, 2, height, width, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_patch_is_one_linear_map_of_its_pixels_and_stands_at_its_place():
    built, pixels = encoder(), images()
    states = built(pixels, output_hidden_states=True).hidden_states
    weight, bias = (p.detach().numpy() for p in built.embeddings.patches.parameters())
    places = built.position.position_embeddings[0].numpy()
    np.testing.assert_allclose(states[0][:, 0], (built.embeddings.cls_token[0, 0] + places[0]).expand(3, -1), atol=1e-6)
    for row, column in ((0, 0), (0, 2), (1, 0), (2, 1)):
        patch = pixels[:, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4].numpy()
        expected = patch.reshape(3, -1) @ weight.reshape(16, -1).T + bias + places[1 + 3 * row + column]
        np.testing.assert_allclose(states[0][:, 1 + 3 * row + column].numpy(), expected, atol=1e-5)


@torch.no_grad()
def test_places_on_another_grid_are_the_table_resampled_as_an_image():
    built = encoder()
    places = built.position.add_on_grid(torch.zeros(1, 1 + 2 * 5, 16), (2, 5))[0]
    table = built.position.position_embeddings[0]
    picture = table[1:].T.reshape(1, 16, 3, 3)
    expected = F.interpolate(picture, size=(2, 5), mode="bicubic")[0].reshape(16, -1).T
    assert torch.equal(places[0], table[0])
    torch.testing.assert_close(places[1:], expected)
    assert built(images(8, 20)).last_hidden_state.shape == (3, 11, 16)
    same = built.position.add_on_grid(torch.zeros(1, 10, 16), (3, 3))[0]
    assert torch.equal(same, table)


@torch.no_grad()
def test_hidden_patches_do_not_matter_but_their_places_do():
    built, pixels = encoder(), images()
    hidden = torch.zeros(3, 9, dtype=torch.bool)
    hidden[:, 4] = True
    changed = pixels.clone()
    changed[:, :, 4:8, 4:8] += 5  # the patch in the middle
    vector = torch.full((16,), 0.5)
    before, after = (built(p, stand_in=(hidden, vector)).last_hidden_state for p in (pixels, changed))
    assert torch.equal(before, after)
    assert not torch.equal(built(pixels).last_hidden_state, built(changed).last_hidden_state)
    corner = torch.zeros_like(hidden)
    corner[:, 0] = True
    assert not torch.equal(before, built(pixels, stand_in=(corner, vector)).last_hidden_state)


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "none"])
@torch.no_grad()
def test_any_other_position_counts_patches_row_by_row_and_has_an_end(position):
    built = encoder(position=position)
    assert built(images()).last_hidden_state.isfinite().all()
    with pytest.raises(ValueError, match="12 patches, but the encoder has positions for 9"):
        built(images(12, 16))


@pytest.mark.parametrize(
    ("pixels", "message"),
    [(torch.zeros(1, 3, 12, 12), "3 channels"), (torch.zeros(1, 2, 12, 3), "in patches of 4")],
)
def test_images_that_cannot_be_read_are_refused(pixels, message):
    with pytest.raises(ValueError, match=message):
        encoder()(pixels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"patch_size": 5}, "image_size 12 is not a multiple of patch_size 5"),
        ({"vocab_size": 9}, "vocab_size is 9"),
        ({"type_vocab_size": 2}, "type_vocab_size is 2"),
        ({"embedding_size": 8}, "embedding_size is 8"),
        ({"num_channels": 0}, "num_channels is 0"),
        ({"image_size": 0, "vocab_size": 9}, "position grid is for images"),
        ({"image_size": 0, "position": "none"}, "vocab_size is 0"),
        ({"conv_kernel_size": 3}, "conv_kernel_size is 3"),
    ],
)
def test_fields_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        EncoderConfig(**(SIZES | changes))


def test_fresh_places_and_class_token_are_drawn_like_weights_and_all_learn():
    built = encoder(initializer_range=0.02, hidden_size=64).train()
    for drawn in (built.position.position_embeddings, built.embeddings.patches.weight):
        assert 0.015 < drawn.std() < 0.025
        assert drawn.abs().max() <= 0.04
    assert 0 < built.embeddings.cls_token.abs().max() <= 0.04
    built(images(8, 12)).last_hidden_state.square().sum().backward()
    assert [name for name, p in built.named_parameters() if p.grad is None or not p.grad.any()] == []
