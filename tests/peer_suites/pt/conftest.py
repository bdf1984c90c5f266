"""All samples, in parts for processes side by side."""

import suite


def pytest_collection_modifyitems(config, items):
    suite.keep(config, items, suite.mine(items, lambda item: item.nodeid))
