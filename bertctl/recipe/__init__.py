"""Recipes: YAML text to typed, checked sections and back."""
