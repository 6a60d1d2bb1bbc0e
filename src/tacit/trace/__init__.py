"""What a run records, and how its progress is shown."""

from tacit.trace.play import Comparator, Diary, Play
from tacit.trace.progress import Progress
from tacit.trace.trace import Callback, Moment, Recorder, Trace

__all__ = [
    "Callback",
    "Comparator",
    "Diary",
    "Moment",
    "Play",
    "Progress",
    "Recorder",
    "Trace",
]
