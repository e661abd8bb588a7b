"""What holds for all tests: an example of hypothesis may take its time, since machines are busy, and examples are the
same in every run, so that what passed here passes elsewhere. Look for new ones with `--hypothesis-profile=search`."""

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile("same")
