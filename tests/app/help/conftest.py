"""The service of the routes' tests."""

from tests.app.routes.conftest import service

__all__ = ["service"]
