"""Time in the simulated account, which tests control."""

import threading
from dataclasses import dataclass, field


@dataclass
class Clock:
    """Passes by a second with each request, and by each pause, which takes no real time.

    Stands in for the module `time` where pgdyno waits for Amazon.
    """

    now_s: float = 0.0
    pauses: list[float] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, length_s: float) -> None:
        with self._lock:
            self.now_s += length_s
            self.pauses.append(length_s)

    def request(self) -> None:
        with self._lock:
            self.now_s += 1.0
