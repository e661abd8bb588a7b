"""The families of encoders. A new one is a file beside this and a line here; the tests run over it."""

from bertctl.variants.bert import BERT
from bertctl.variants.distilbert import DISTILBERT
from bertctl.variants.family import Family

VARIANTS: dict[str, Family] = {family.model_type: family for family in (BERT, DISTILBERT)}
