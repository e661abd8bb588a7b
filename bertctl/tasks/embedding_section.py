"""The part of a recipe that says how vectors of texts are trained. No torch."""

from typing import Any, Literal

from pydantic import Field

from bertctl.recipe.section import Section

EmbeddingLoss = Literal["in_batch_negatives", "triplet", "cosent", "cosine_mse"]


class EmbeddingSection(Section):
    """How vectors of texts are trained (task embedding), and what the finished model does with a text."""

    loss: EmbeddingLoss | None = None
    """What is minimised. If not given: cosent for scored pairs, in_batch_negatives for pairs, triplets and queries with
    passages. triplet needs negatives, cosent and cosine_mse need scores."""
    temperature: float = Field(default=0.05, gt=0)
    """Cosines are divided by it (in_batch_negatives, cosent): the smaller, the more the hardest negatives count."""
    both_directions: bool = False
    """in_batch_negatives: also tell the anchor of a positive from the other anchors; the two losses are averaged."""
    margin: float = Field(default=0.2, gt=0, le=2)
    """triplet: how much higher the cosine to the positive should be than to the negative."""
    highest_score: float = Field(default=1.0, gt=0)
    """cosine_mse: the score of texts that mean the same, such as 5; scores are divided by it."""
    projection_size: int | None = Field(default=None, ge=1)
    """Numbers in a vector: a linear layer on the pooled vector; the encoder's width, without a layer, if not given."""
    normalize: bool = True
    """The finished model gives vectors of length 1. Training and evaluation use cosines either way."""
    query_prefix: str = ""
    """Put before every query, anchor and text of a scored pair, such as `query: `; kept in the checkpoint."""
    passage_prefix: str = ""
    """Put before every positive, negative and passage."""

    def noted(self) -> dict[str, Any]:
        """What the checkpoint keeps, so that it is read as it was trained."""
        return {"embedding": self.model_dump(include={"normalize", "query_prefix", "passage_prefix"})}
