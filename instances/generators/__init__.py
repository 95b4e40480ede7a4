"""Instance families, one file each: seeded, the same bytes for the same call."""
