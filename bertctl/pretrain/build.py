"""What is trained: the model, and for replaced tokens its generator, out of a recipe section or a checkpoint."""

from collections.abc import Mapping

import torch

from bertctl.artifacts.checkpoint import resolve_model
from bertctl.console import note
from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.heads.model import Model
from bertctl.pretrain.config import PretrainSection, ReplacedTokenObjectiveSection
from bertctl.pretrain.data import PretrainingData
from bertctl.pretrain.images import ImageData
from bertctl.pretrain.masked_image import HEAD as MASKED_IMAGE
from bertctl.pretrain.masked_image import MaskedImageObjective
from bertctl.pretrain.objective import PretrainingObjective
from bertctl.pretrain.replaced_token import HEAD, ReplacedTokenObjective, generator_config
from bertctl.pretrain.vocabulary import with_vocabulary
from bertctl.training.batching import mix
from bertctl.variants.config import encoder_config
from bertctl.variants.extend import never_predicted, rounded_up
from bertctl.variants.hf import load_model
from bertctl.variants.resize import resized


def build_objective(
    section: PretrainSection, data: PretrainingData, seed: int
) -> PretrainingObjective | ReplacedTokenObjective:
    """The objective that the section names, over the models that it trains, with the heads that the examples call
    for."""
    pairs = data.held_out.has_pairs()
    if not isinstance(section.objective, ReplacedTokenObjectiveSection):
        heads = {"masked_lm": 0} | ({"sentence_pair": 2} if pairs else {})
        return PretrainingObjective(build_model(section, heads, data, seed))
    if pairs:
        note("pretrain: the pairs' labels are not used: for replaced tokens a pair is one input with two segments")
    model = build_model(section, {HEAD: 1}, data, seed)
    weights = {"mlm": section.objective.masked_lm_weight, HEAD: section.objective.replaced_token_weight}
    generator = build_generator(section.objective, model, seed)
    never_predicted(generator, data.tokenizer.vocab_size)
    return ReplacedTokenObjective(model, generator, weights, section.objective.embedding_sharing)


def build_masked_image(section: PretrainSection, data: ImageData, seed: int) -> MaskedImageObjective:
    """The objective of hidden patches over fresh weights, or those of a checkpoint."""
    torch.manual_seed(mix(seed, 0))
    if section.init_from is None:
        return MaskedImageObjective(Model(data.config, {MASKED_IMAGE: 0}))
    loaded = load_model(resolve_model(section.init_from), {MASKED_IMAGE: 0})
    if loaded.new_tensors:
        note(f"init_from: drawn anew because the checkpoint has none: {', '.join(loaded.new_tensors)}")
    return MaskedImageObjective(loaded.model)


def build_generator(section: ReplacedTokenObjectiveSection, model: Model, seed: int) -> Model:
    """A fresh generator of the section's width, or that of a checkpoint. Errors: BertctlError if the checkpoint's
    embeddings are not as large as the model's, which it is to share."""
    if section.generator_from is None:
        torch.manual_seed(mix(seed, 2))
        generator = Model(generator_config(model.config, section.generator_width), {"masked_lm": 0})
        with torch.no_grad():  # what is shared starts as the model's
            generator.encoder.embeddings.word.weight.copy_(model.encoder.embeddings.word.weight)
        return generator
    loaded = load_model(resolve_model(section.generator_from), {"masked_lm": 0})
    have, want = (one.encoder.embeddings.word.weight.shape for one in (loaded.model, model))
    if have != want:
        raise BertctlError(
            f"pretrain.objective.generator_from: got word embeddings of shape {list(have)}, expected {list(want)} as "
            "in the encoder, which shares them"
        )
    return loaded.model


def build_model(section: PretrainSection, heads: Mapping[str, int], data: PretrainingData, seed: int) -> Model:
    """Fresh weights, or those of a checkpoint for this vocabulary or the first part of it. Errors: BertctlError if the
    encoder has too few embeddings or places, or the checkpoint another vocabulary."""
    torch.manual_seed(mix(seed, 0))
    fresh: list[str] = []
    tokenizer, multiple = data.tokenizer, section.pad_vocab_to_multiple_of
    if section.init_from is None:
        rows = rounded_up(tokenizer.vocab_size, multiple)
        model = Model(encoder_config(section.encoder, vocab_size=rows, pad_token_id=tokenizer.pad_id), heads)
    else:
        folder = resolve_model(section.init_from)
        loaded = load_model(folder, None if section.resize else heads)
        model, fresh = with_vocabulary(loaded.model, folder, tokenizer, multiple=multiple), loaded.new_tensors
    if section.resize:
        rows = model.config.vocab_size
        config = encoder_config(section.encoder, vocab_size=rows, pad_token_id=tokenizer.pad_id)
        model, fresh = resized(model, config, heads, seed=mix(seed, 1), stretch=section.stretch)
    never_predicted(model, tokenizer.vocab_size)
    if fresh:
        note(f"init_from: drawn anew because the checkpoint has none: {', '.join(fresh)}")
    check_fits(model.config, data)
    return model


def check_fits(config: EncoderConfig, data: PretrainingData) -> None:
    """Errors: BertctlError if the encoder has not a row for every token, or not a place for the longest example."""
    if config.vocab_size < data.tokenizer.vocab_size:
        raise BertctlError(
            f"the encoder has {config.vocab_size} word embeddings, the vocabulary {data.tokenizer.vocab_size}"
        )
    if config.max_position_embeddings < data.longest:
        raise BertctlError(
            f"the encoder reads {config.max_position_embeddings} tokens, the longest example has {data.longest}",
            hint=f"--set pretrain.encoder.max_position_embeddings={data.longest}",
        )
