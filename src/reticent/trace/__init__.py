"""What a run records, and how its progress is shown."""

from reticent.trace.play import Comparator, Diary, Play
from reticent.trace.progress import Progress
from reticent.trace.summary import NoIntervals, Summary
from reticent.trace.trace import Callback, Moment, Recorder, Trace

__all__ = [
    "Callback",
    "Comparator",
    "Diary",
    "Moment",
    "NoIntervals",
    "Play",
    "Progress",
    "Recorder",
    "Summary",
    "Trace",
]
