"""The published JSON Schemas of the project's files, read as package resources."""
