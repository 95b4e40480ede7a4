"""Instances of the library that are stored: ``eaco-opt/instance`` as JSON, compressed, one file each."""
