"""What the distance of two tokens adds to their score.

Shapes: `*` any leading dimensions, H heads, Q queries, K keys, D head size, E hidden size, R rows of the table.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from bertctl.encoder.config import EncoderConfig
from bertctl.encoder.dropout import Dropout

# (q [*, H, Q, D], k [*, H, K, D], distances [*, Q, K] of each key after its query) -> what broadcasts to [*, H, Q, K]
ScoreBias = Callable[[Tensor, Tensor, Tensor], Tensor]
Project = Callable[[Tensor], Tensor]  # [1, R, E] -> [1, H, R, D], a layer's own map to queries or keys


class BucketedBias(nn.Module):
    """One number a head for each bucket of distances, shared by all layers: half the buckets for keys before the
    query, half for those after, the near ones exact and the far ones in steps that grow with the logarithm.

    Source: T5, arXiv:1910.10683, section 2.1, and its released code; MPNet, arXiv:2004.09297.
    """

    query_scale = 1.0

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.max_distance = config.relative_max_distance
        self.table = nn.Embedding(config.relative_buckets, config.num_attention_heads)

    def forward(self, project_query: Project, project_key: Project) -> ScoreBias:
        """The bias of any layer."""
        return lambda q, k, away: self.table(self.bucket(away)).movedim(-1, -3)

    def bucket(self, away: Tensor) -> Tensor:
        """Distances of any shape -> numbers of rows, of the same shape."""
        one_side = self.table.num_embeddings // 2
        exact = one_side // 2
        far = away.abs().clamp(min=exact).float() / exact
        steps = torch.log(far) / math.log(self.max_distance / exact) * (one_side - exact)
        row = torch.where(away.abs() < exact, away.abs(), (exact + steps.long()).clamp(max=one_side - 1))
        return row + one_side * (away > 0)


class Disentangled(nn.Module):
    """Content looks at positions and positions at content: q . key(P) + k . query(P), where P is the vector of the
    distance and the layer's own maps to queries and keys serve both. Three products share the scale, 1 / sqrt(3 D).

    Source: DeBERTa, arXiv:2006.03654, section 3.1; log buckets, shared maps and the norm of P as in its second and
    third version (arXiv:2111.09543) and the released code.
    """

    query_scale = 1.0 / math.sqrt(3.0)

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.max_distance = config.relative_max_distance
        self.buckets = config.relative_buckets
        self.table = nn.Embedding(2 * config.relative_buckets, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, project_query: Project, project_key: Project) -> ScoreBias:
        """The bias of the layer that these maps belong to."""
        vectors = self.dropout(self.norm(self.table.weight))[None]
        of_query, of_key = project_query(vectors)[0], project_key(vectors)[0]  # [H, R, D]

        def score_bias(q: Tensor, k: Tensor, away: Tensor) -> Tensor:
            rows = self.bucket(away)[..., None, :, :]
            to_position = (q @ of_key.mT).gather(-1, rows.expand(*q.shape[:-1], k.shape[-2]))
            from_position = (k @ of_query.mT).gather(-1, rows.mT.expand(*k.shape[:-1], q.shape[-2]))
            return (to_position + from_position.mT * self.query_scale) / math.sqrt(q.shape[-1])

        return score_bias

    def bucket(self, away: Tensor) -> Tensor:
        """Distances of any shape -> numbers of rows, of the same shape: exact up to half the buckets on either side,
        then by the logarithm, until max_distance."""
        exact = self.buckets // 2
        far = away.abs().clamp(min=exact)
        steps = torch.ceil(
            torch.log(far / exact) / torch.log(torch.tensor((self.max_distance - 1) / exact)) * (exact - 1)
        )
        row = torch.where(away.abs() <= exact, away.abs(), steps.long() + exact)
        return (self.buckets - away.sign() * row).clamp(0, 2 * self.buckets - 1)


Relative = BucketedBias | Disentangled
RELATIVES: dict[str, type[Relative]] = {"bucketed": BucketedBias, "disentangled": Disentangled}


def build_relative(config: EncoderConfig) -> Relative | None:
    """The relative position that `config` names, if any."""
    return None if config.relative_position == "none" else RELATIVES[config.relative_position](config)
