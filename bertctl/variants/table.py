"""The families of encoders. A new one is a file beside this and a line here; the tests run over it."""

from bertctl.variants.albert import ALBERT
from bertctl.variants.bert import BERT
from bertctl.variants.deberta import DEBERTA
from bertctl.variants.distilbert import DISTILBERT
from bertctl.variants.electra import ELECTRA
from bertctl.variants.family import Family
from bertctl.variants.modernbert import MODERNBERT
from bertctl.variants.mpnet import MPNET
from bertctl.variants.roberta import ROBERTA
from bertctl.variants.transformer import TRANSFORMER
from bertctl.variants.vit import VIT

FAMILIES = (BERT, ROBERTA, ALBERT, DISTILBERT, ELECTRA, MODERNBERT, MPNET, DEBERTA, TRANSFORMER, VIT)
VARIANTS: dict[str, Family] = {family.model_type: family for family in FAMILIES}
