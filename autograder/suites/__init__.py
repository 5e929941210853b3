"""Hidden suites, one folder per assignment."""
