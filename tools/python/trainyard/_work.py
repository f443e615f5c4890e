"""The work of one point of a sweep, for workers of any engine."""

from __future__ import annotations

from functools import lru_cache

from . import _core
from ._points import Point
from .errors import RunError


@lru_cache(maxsize=1)
def state() -> str:
    """A fingerprint of the program and its data, as this process has them."""
    return _core.state()


def simulate_point(point: Point, expected: str, journal_state: str) -> str:
    """Simulates a point and returns its row as JSON.

    Raises RunError where the worker has another program or other data than the caller, whose
    `expected` is the state of the caller.
    """
    if state() != expected:
        raise RunError("this worker has another build or other data of trainyard than the caller")
    return _core.row(point.variant(), journal_state)
