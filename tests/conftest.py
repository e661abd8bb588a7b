"""What holds for all tests: an example of hypothesis may take its time, since machines are busy, and examples are the
same in every run, so that what passed here passes elsewhere. Look for new ones with `--hypothesis-profile=search`.

And what several rooms use: signals that arrive at a chosen place, the hash of a finished model, and images to learn
from, scikit-learn's digits.
"""

import json
import signal

import pytest
from hypothesis import settings

from bertctl import signals

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("same")


@pytest.fixture(autouse=True)
def _no_signal():
    signals.clear()
    yield
    signals.clear()


@pytest.fixture
def stop_at(monkeypatch):
    """(module, name of a function in it, n) -> a list that grows with its calls; at the n-th a TERM arrives. Whoever
    goes on after it says `signals.clear()`."""

    def arrange(module, name, number=1):
        plain, calls = getattr(module, name), []

        def interrupted(*positional, **named):
            calls.append(positional)
            if len(calls) == number:
                signals.request(signal.SIGTERM)
            return plain(*positional, **named)

        monkeypatch.setattr(module, name, interrupted)
        return calls

    return arrange


@pytest.fixture(scope="session")
def model_hash():
    """SHA-256 of the weights of a finished run, from its manifest."""

    def read(folder):
        return json.loads((folder / "model" / "manifest.json").read_text())["files"]["model.safetensors"]["sha256"]

    return read


@pytest.fixture(scope="session")
def write_digits():
    """(folder, numbers of digits by split) -> the folder, with each digit's 8 x 8 pixels as a grey PNG file in
    `<split>/<label>/`; the splits have no number in common."""
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    shades = (digits.images * 255 / 16).round().astype(np.uint8)

    def write(folder, splits):
        for split, numbers in splits.items():
            for number in numbers:
                place = folder / split / str(digits.target[number])
                place.mkdir(parents=True, exist_ok=True)
                Image.fromarray(shades[number]).save(place / f"{number:04d}.png")
        return folder

    return write
