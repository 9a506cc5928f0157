"""def test_efficient(attnfuzz): attnfuzz.check(efficient, cases=2000)"""

import pytest


class Front:
    """What a test is given: check() as attnfuzz.check, with reproducers under pytest's temporary folder."""

    def __init__(self, folder):
        self.folder = folder

    def check(self, function, **options):
        import attnfuzz

        options.setdefault("out", str(self.folder / "found"))
        return attnfuzz.check(function, **options)

    def judge(self, function, **options):
        import attnfuzz

        return attnfuzz.judge(function, **options)


@pytest.fixture(name="attnfuzz")
def _attnfuzz(tmp_path):
    return Front(tmp_path)
