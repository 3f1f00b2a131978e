"""A client of Lapse: exact timers, decided by sandboxed plugins."""

from importlib.metadata import version as _version

from .client import AsyncLapse, Lapse
from .errors import LapseConnectionError, LapseError
from .events import Event, aevents, events
from .paging import apaginate, paginate
from .retry import Retry
from .types import UNSET, Unset

__version__ = _version("lapse-client")

__all__ = (
    "UNSET",
    "AsyncLapse",
    "Event",
    "Lapse",
    "LapseConnectionError",
    "LapseError",
    "Retry",
    "Unset",
    "__version__",
    "aevents",
    "apaginate",
    "events",
    "paginate",
)
