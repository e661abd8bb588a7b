"""What holds for all tests: an example of hypothesis may take its time, since machines are busy, and examples are the
same in every run, so that what passed here passes elsewhere. Look for new ones with `--hypothesis-profile=search`.

And images that several rooms learn from: scikit-learn's digits.
"""

import pytest
from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("same")


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
