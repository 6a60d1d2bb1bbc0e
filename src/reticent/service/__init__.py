"""The durable service: private learning over HTTP that commits before it reveals.

`reticent serve` runs it; the parts are a store (what is kept), an engine (one thread that commits in groups), and
an application (HTTP). See docs/service.md.
"""
