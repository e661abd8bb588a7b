"""Stage 3: masked-language-model pretraining."""
