"""What the tests of the build have in common."""


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: it counts or measures, so tests/run.py runs nothing beside it")
