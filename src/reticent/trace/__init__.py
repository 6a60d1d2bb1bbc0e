"""What a run records, and how its progress is shown."""

from reticent.trace.play import Comparator, Diary, Play
from reticent.trace.summary import NoIntervals, Summary
from reticent.trace.trace import Callback, Moment, Progress, Recorder, Trace

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
