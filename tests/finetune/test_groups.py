"""The table of parameter groups, against rates worked out by hand."""

import pytest
import torch
from torch import nn

from bertctl.encoder.config import EncoderConfig
from bertctl.errors import BertctlError
from bertctl.finetune.groups import parameter_groups, show_table, table
from bertctl.finetune.objective import TaskObjective
from bertctl.finetune.strategy import check_strategy, prepare
from bertctl.finetune.strategy_config import StrategySection
from bertctl.heads.model import Model
from bertctl.recipe.load import build_recipe
from bertctl.tasks.table import TASKS
from bertctl.training.config import AdamWSection

SMALL = {
    "vocab_size": 30,
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
}
# one layer: 4 x (16 x 16 + 16) attention, 2 x 2 x 16 norms, 16 x 32 + 32 and 32 x 16 + 16 feed-forward
LAYER_MATRICES, LAYER_VECTORS = 4 * 256 + 2 * 512, 4 * 16 + 4 * 16 + 32 + 16


def make(head="sequence", **more):
    model = Model(EncoderConfig(**{**SMALL, **more}), {head: 3})
    return TaskObjective(model, TASKS["classification" if head == "sequence" else "ner"]), model


def groups_of(strategy, *, lr=1.0, steps_in_epoch=10, made=None, **more):
    objective, model = made or make(**more)
    section = build_recipe(strategy, StrategySection)
    return parameter_groups(objective, model, section, lr, steps_in_epoch=steps_in_epoch)


def rates(groups):
    return {group.name: group.lr for group in groups}


def test_layer_decay_halves_from_group_to_group():
    """lr 0.8, d = 1/2, 3 layers: head 0.8, layer 3 at d^1, layer 2 at d^2, layer 1 at d^3, embeddings at d^4."""
    found = rates(groups_of({"layer_decay": 0.5}, lr=0.8))
    by_hand = {"embeddings": 0.05, "layer 1": 0.1, "layer 2": 0.2, "layer 3": 0.4, "head": 0.8}
    assert list(found) == list(by_hand)
    assert found == pytest.approx(by_hand)


def test_the_head_has_a_rate_of_its_own_if_asked():
    found = rates(groups_of({"layer_decay": 0.5, "head_lr": 5.0}, lr=0.8))
    assert found["head"] == 5.0
    assert found["layer 3"] == pytest.approx(0.4)  # still of lr, not of head_lr


def test_every_parameter_is_in_one_group_and_in_the_right_one():
    objective, model = make(norm_place="pre")
    groups = groups_of({}, made=(objective, model))
    names = {name: group.name for group in groups for name in group.parameters}
    assert sorted(names) == sorted(name for name, _ in objective.named_parameters())
    assert sum(len(group.parameters) for group in groups) == len(names)
    wanted = {
        "model.encoder.embeddings.word.weight": "embeddings",
        "model.encoder.embeddings.norm.bias": "embeddings",
        "model.encoder.position.table.weight": "embeddings",
        "model.encoder.layers.0.attention.query.weight": "layer 1",
        "model.encoder.layers.2.feed_forward.down.bias": "layer 3",
        "model.encoder.final_norm.weight": "layer 3",
        "model.pooler.dense.weight": "head",
        "model.heads.sequence.output.bias": "head",
    }
    assert {name: names[name] for name in wanted} == wanted


def test_what_an_objective_trains_besides_the_model_learns_with_the_head():
    objective, model = make()
    objective.projection = nn.Linear(4, 4)
    [*_, head] = groups_of({"layer_decay": 0.5}, made=(objective, model))
    assert {"projection.weight", "projection.bias"} <= set(head.parameters)


@pytest.mark.parametrize(
    ("more", "by_hand"),
    [
        ({"layer_sharing": "all"}, {"embeddings": 0.25, "layer 3": 0.5, "head": 1.0}),
        (
            {"layer_sharing": "all", "num_hidden_layers": 4, "num_hidden_groups": 2},
            {"embeddings": 0.125, "layer 2": 0.25, "layer 4": 0.5, "head": 1.0},
        ),
        (
            {"layer_sharing": "attention"},
            {"embeddings": 0.0625, "layer 1": 0.125, "layer 2": 0.25, "layer 3": 0.5, "head": 1.0},
        ),
    ],
)
def test_what_layers_share_belongs_to_the_topmost_of_them(more, by_hand):
    found = groups_of({"layer_decay": 0.5}, **more)
    assert rates(found) == by_hand
    sizes = {group.name: sum(p.numel() for p in group.parameters.values()) for group in found}
    assert sizes[f"layer {more.get('num_hidden_layers', 3)}"] == LAYER_MATRICES + LAYER_VECTORS
    assert [g.name for g in groups_of({"freeze": "encoder"}, **more) if not g.frozen] == ["head"]


def test_tables_of_relative_positions_belong_to_the_last_layer():
    names = {name: g.name for g in groups_of({}, relative_position="bucketed") for name in g.parameters}
    assert names["model.encoder.position.relative.table.weight"] == "layer 3"
    assert names["model.encoder.position.table.weight"] == "embeddings"


@pytest.mark.parametrize(
    ("freeze", "frozen"),
    [
        ("embeddings", ["embeddings"]),
        (1, ["embeddings", "layer 1"]),
        (3, ["embeddings", "layer 1", "layer 2", "layer 3"]),
        ("encoder", ["embeddings", "layer 1", "layer 2", "layer 3"]),
    ],
)
def test_freezing_goes_from_the_bottom_up(freeze, frozen):
    assert [group.name for group in groups_of({"freeze": freeze}) if group.frozen] == frozen


@pytest.mark.parametrize(("every", "step"), [("epoch", 10), (4, 4)])
def test_unfreezing_goes_from_the_top_down(every, step):
    found = groups_of({"unfreeze_every": every, "freeze": 1}, steps_in_epoch=10)
    starts = {group.name: group.first_step for group in found if not group.frozen}
    assert starts == {"head": 1, "layer 3": 1 + step, "layer 2": 1 + 2 * step}


def test_lora_trains_its_own_parts_and_the_head():
    objective, model = make()
    section = build_recipe({"lora": {"rank": 2, "projections": ["query", "up"]}}, StrategySection)
    prepare(model, section, seed=0)
    groups = parameter_groups(objective, model, section, 1.0, steps_in_epoch=1)
    sizes = {g.name: sum(p.numel() for p in g.parameters.values()) for g in groups if not g.frozen}
    added = 2 * (16 + 16) + 2 * (16 + 32)  # rank x (inputs + outputs)
    assert sizes == {f"layer {n} lora": added for n in (1, 2, 3)} | {"head": 16 * 16 + 16 + 3 * 16 + 3}
    assert all("lora" not in name for g in groups if g.frozen for name in g.parameters)


def test_the_table_by_hand():
    rows = table(groups_of({"freeze": 1, "layer_decay": 0.5, "unfreeze_every": 5}), AdamWSection(weight_decay=0.1))
    layer = LAYER_MATRICES + LAYER_VECTORS
    embeddings = (30 + 24 + 2) * 16 + 2 * 16
    never = {"frozen": True, "lr": None, "weight_decay": None, "decayed_parameters": 0, "first_step": None}
    soon = {"frozen": False, "weight_decay": 0.1, "decayed_parameters": LAYER_MATRICES}
    assert rows == [
        {"group": "embeddings", "tensors": 5, "parameters": embeddings, **never},
        {"group": "layer 1", "tensors": 16, "parameters": layer, **never},
        {"group": "layer 2", "tensors": 16, "parameters": layer, **soon, "lr": 0.25, "first_step": 11},
        {"group": "layer 3", "tensors": 16, "parameters": layer, **soon, "lr": 0.5, "first_step": 6},
        {
            "group": "head",
            "tensors": 4,
            "parameters": 323,
            **soon,
            "decayed_parameters": 304,
            "lr": 1.0,
            "first_step": 1,
        },
    ]


def test_neighbours_that_are_treated_alike_are_one_line(capsys):
    rows = table(groups_of({"freeze": 2}), AdamWSection(lr=1.0))
    show_table(rows, steps=100)
    lines = [line.split() for line in capsys.readouterr().err.splitlines()]
    assert lines[0] == ["group", "tensors", "parameters", "rate", "decay"]
    assert lines[1] == ["embeddings", "to", "layer", "2", "37", "5,376", "frozen"]
    assert lines[2] == ["layer", "3", "to", "head", "20", "2,547", "1", "0.01"]


def test_a_run_that_ends_too_soon_to_unfreeze_says_so(capsys):
    show_table(table(groups_of({"unfreeze_every": 50}), AdamWSection(lr=1.0)), steps=120)
    assert "warning: embeddings, layer 1: not trained, the run ends at step 120" in capsys.readouterr().err


def test_a_head_without_parameters_leaves_nothing_to_train():
    model = Model(EncoderConfig(**SMALL, pooling="mean"), {"embedding": 0})
    with pytest.raises(BertctlError, match="freezes every parameter"):
        groups_of({"freeze": "encoder"}, made=(nn.ModuleDict({"model": model}), model))


@pytest.mark.parametrize(
    ("strategy", "problem"),
    [
        ({"freeze": "encoder", "layer_decay": 0.9}, "layer_decay has nothing to do"),
        ({"freeze": "encoder", "unfreeze_every": "epoch"}, "unfreeze_every has nothing to do"),
        ({"lora": {}, "freeze": 1}, "freeze has nothing to do"),
        ({"lora": {}, "reinit_layers": 1}, "reinit_layers has nothing to do"),
        ({"freeze": 0}, "strategy|freeze"),
        ({"freeze": "layers"}, "freeze"),
        ({"lora": {"projections": ["pooler"]}}, "projections"),
        ({"layer_decay": 1.5}, "layer_decay"),
    ],
)
def test_strategies_that_contradict_themselves_are_refused(strategy, problem):
    with pytest.raises(BertctlError, match=problem):
        build_recipe(strategy, StrategySection)


def test_more_layers_than_there_are_is_refused_all_at_once():
    with pytest.raises(BertctlError) as caught:
        check_strategy(build_recipe({"freeze": 4, "reinit_layers": 5}, StrategySection), EncoderConfig(**SMALL))
    assert caught.value.problems == (
        "strategy.freeze: got 4, but the encoder has 3 layers",
        "strategy.reinit_layers: got 5, but the encoder has 3 layers",
    )
    shared = EncoderConfig(**SMALL, layer_sharing="attention")
    with pytest.raises(BertctlError) as caught:
        check_strategy(build_recipe({"freeze": 1, "reinit_layers": 1}, StrategySection), shared)
    assert [problem.split(",")[0] for problem in caught.value.problems] == [
        "strategy.freeze: got 1",
        "strategy.reinit_layers: got 1",
    ]
    check_strategy(build_recipe({"freeze": "encoder"}, StrategySection), shared)
    with pytest.raises(BertctlError, match="freeze 2 and reinit_layers 2 overlap"):
        check_strategy(build_recipe({"freeze": 2, "reinit_layers": 2}, StrategySection), EncoderConfig(**SMALL))


def test_the_top_layers_and_the_pooler_are_drawn_anew_by_seed():
    torch.manual_seed(0)
    _, model = make(norm_place="pre")
    for parameter in model.parameters():
        nn.init.constant_(parameter, 7.0)
    prepare(model, build_recipe({"reinit_layers": 2}, StrategySection), seed=5)
    drawn = {name for name, p in model.named_parameters() if not bool((p == 7.0).all())}
    tops = ("encoder.layers.1.", "encoder.layers.2.", "encoder.final_norm.", "pooler.")
    assert drawn == {name for name, _ in model.named_parameters() if name.startswith(tops)}
    query = model.encoder.layers[2].attention.query
    assert float(query.weight.detach().std()) == pytest.approx(0.02, rel=0.2)
    assert float(query.bias.detach().abs().max()) == 0.0
    assert float(model.encoder.final_norm.weight.detach().min()) == 1.0
    once = query.weight.detach().clone()
    prepare(model, build_recipe({"reinit_layers": 2}, StrategySection), seed=5)
    assert torch.equal(query.weight, once)
    prepare(model, build_recipe({"reinit_layers": 2}, StrategySection), seed=6)
    assert not torch.equal(query.weight, once)
