"""The papers that this library follows: their formulas as printed, and their figures reproduced.

``calibration="published"`` takes its noise from here (:mod:`reticent.papers.calibrations`), to reproduce the papers'
results; docs/errata.md compares claims with the true guarantees. Some of the formulas protect far less than they claim:
check :meth:`reticent.privacy.prescribed.Prescription.claim_is_proved` before use, or use ``calibration="exact"``. The
rest of the library does not depend on this package: it looks formulas up by name.
"""

from reticent.papers import calibrations as _calibrations  # noqa: F401 (registers them)
from reticent.papers.formulas import *  # noqa: F403
from reticent.papers.formulas import __all__ as __all__
