"""The durable service: private learning over HTTP that commits before it reveals.

`reticent serve` runs it. Its parts are a store, an engine (one thread that commits in groups), and an HTTP application.
See docs/service.md.
"""
