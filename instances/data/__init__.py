"""Tables that ship with the project (CSV and JSON), read as package resources, never by a path."""
