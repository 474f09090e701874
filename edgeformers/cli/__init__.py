"""The command line: a thin coat over the library."""
