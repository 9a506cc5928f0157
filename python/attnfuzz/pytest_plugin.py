"""The pytest fixture `attnfuzz`, and the options of its checks.

    def test_efficient(attnfuzz):
        attnfuzz.check(efficient)

    pytest --attnfuzz-profile ci                 # 200 cases; "dev" 2,000 (the default), "thorough" 20,000
    pytest --attnfuzz-cases 500 --attnfuzz-seed 7

The arguments of a test's own check(f, cases=100) override a profile; --attnfuzz-cases and --attnfuzz-seed override both.
Reproducers are kept in .attnfuzz/ beside pytest's configuration, in a folder for each test, and are tried first next time.
"""

import os
import re

import pytest

PROFILES = {"ci": 200, "dev": 2000, "thorough": 20000}  # cases


def pytest_addoption(parser):
    group = parser.getgroup("attnfuzz", "checks of attention kernels")
    group.addoption("--attnfuzz-cases", type=int, metavar="N", help="cases of each check, whatever the test says")
    group.addoption("--attnfuzz-seed", type=int, metavar="N", help="seed of each check, whatever the test says")
    group.addoption("--attnfuzz-profile", choices=sorted(PROFILES), default=None,
                    help="cases of a check whose test does not say how many: "
                         + ", ".join(f"{name} {cases:,}" for name, cases in PROFILES.items()))
    parser.addini("attnfuzz_profile", "as --attnfuzz-profile", default="dev")


class Front:
    """The fixture's value. check() is attnfuzz.check with the command line's options; it also has
    judge()."""

    def __init__(self, folder, config):
        self.folder, self.config = folder, config

    def _options(self, options):
        cases, seed = (self.config.getoption(f"--attnfuzz-{name}") for name in ("cases", "seed"))
        if cases is not None:
            options.pop("seconds", None)
            options["cases"] = cases
        if seed is not None:
            options["seed"] = seed
        return options

    def check(self, function, **options):
        import attnfuzz

        profile = self.config.getoption("--attnfuzz-profile") or self.config.getini("attnfuzz_profile")
        if profile not in PROFILES:
            raise pytest.UsageError(f"attnfuzz_profile is {profile!r}: must be one of {', '.join(sorted(PROFILES))}")
        options.setdefault("cases", PROFILES[profile])
        options.setdefault("out", self.folder)
        return attnfuzz.check(function, **self._options(options))

    def judge(self, function, **options):
        import attnfuzz

        return attnfuzz.judge(function, **options)


@pytest.fixture(name="attnfuzz")
def _attnfuzz(request):
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", request.node.nodeid)
    return Front(os.path.join(str(request.config.rootpath), ".attnfuzz", name), request.config)
