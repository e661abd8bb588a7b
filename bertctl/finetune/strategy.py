"""What a strategy does to a model before it is trained, and what it asks of one."""

import torch

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.init import initialise
from bertctl.errors import raise_problems
from bertctl.finetune.lora import add_lora
from bertctl.finetune.strategy_config import StrategySection
from bertctl.heads.model import Model
from bertctl.training.batching import mix

REINIT_STREAM, LORA_STREAM = 2, 3  # of the run's seed; 0 draws the head


def check_strategy(strategy: StrategySection, config: EncoderConfig) -> None:
    """Whether there are as many layers as the strategy speaks of, each with weights of its own. Errors: BertctlError
    with all problems."""
    layers, frozen = config.num_hidden_layers, strategy.freeze if isinstance(strategy.freeze, int) else 0
    named = {name: n for name, n in (("freeze", frozen), ("reinit_layers", strategy.reinit_layers)) if n}
    problems = [
        f"strategy.{key}: got {n}, but the encoder has {layers} layers" for key, n in named.items() if n > layers
    ]
    if config.layer_sharing != "none":
        shared = "but the layers of this encoder share weights; expected none apart from the others"
        problems = [f"strategy.{key}: got {n}, {shared}" for key, n in named.items()]
    if not problems and frozen + strategy.reinit_layers > layers:
        problems = [
            f"strategy: freeze {frozen} and reinit_layers {strategy.reinit_layers} overlap in an encoder of {layers} "
            "layers; expected no layer that is both drawn anew and frozen"
        ]
    raise_problems(problems, hint="`freeze` takes embeddings and encoder too" if "freeze" in named else None)


def prepare(model: Model, strategy: StrategySection, seed: int) -> None:
    """Draw layers anew and add LoRA, by seed. Errors: BertctlError if the encoder's layers do not allow it."""
    if strategy.reinit_layers:
        torch.manual_seed(mix(seed, REINIT_STREAM))
        reinitialise(model, strategy.reinit_layers)
    if strategy.lora is not None:
        torch.manual_seed(mix(seed, LORA_STREAM))
        add_lora(model.encoder, strategy.lora)


def reinitialise(model: Model, count: int) -> None:
    """Draw the top `count` layers, what stands above them in the encoder, and the pooler anew. Source:
    arXiv:2006.05987, section 5, which draws the pooler anew with any number of layers."""
    for part in (*list(model.encoder.layers)[-count:], model.encoder.final_norm, model.pooler):
        if part is not None:
            initialise(part, model.config)
