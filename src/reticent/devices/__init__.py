"""Arrays on devices: passes over records run where the records are; noise and accounting stay on the host.

An estimator's ``fit`` accepts arrays of PyTorch, CuPy or another library of the array API directly (docs/scale.md).
"""

from reticent.devices.records import DeviceLabels, DeviceRows, OnDevice, is_device_array, on_device
from reticent.devices.totals import DeviceTotal

__all__ = ["DeviceLabels", "DeviceRows", "DeviceTotal", "OnDevice", "is_device_array", "on_device"]
