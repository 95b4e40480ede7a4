"""Best known schedules of the library: ``eaco-opt/schedule`` as JSON, compressed, one file an entry."""
