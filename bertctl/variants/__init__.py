"""Families of encoders: presets and Hugging Face key names."""
