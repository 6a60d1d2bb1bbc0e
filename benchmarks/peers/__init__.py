"""Other libraries, each in an environment of its own, driven over pipes so that one run asks all of them."""
