"""Faults for the durable service: processes that are killed, disks that fail, clocks that jump, and a checker."""
