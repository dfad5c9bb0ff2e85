"""Command line: thin. Parse, call, print."""
