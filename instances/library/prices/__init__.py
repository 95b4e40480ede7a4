"""Prices of epochs that prove the bounds of the library (docs/library.md section 3), one file an entry."""
