"""The commands of `eaco-opt`, one file each."""
