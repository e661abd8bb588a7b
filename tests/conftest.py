"""What holds for all tests: an example of hypothesis may take its time, since machines are busy."""

from hypothesis import settings

settings.register_profile("without_times", deadline=None)
settings.load_profile("without_times")
