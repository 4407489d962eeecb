"""A live view of any server: the waits of its sessions, the load of its host."""

from pgdyno.watch.find_server import find
from pgdyno.watch.frame import INTERVALS, History
from pgdyno.watch.loop import Watcher
from pgdyno.watch.views import JsonView, LineView, PageView, ScreenView, View

__all__ = ["INTERVALS", "History", "JsonView", "LineView", "PageView", "ScreenView", "View", "Watcher", "find"]
