"""A made-up class whose submissions show every kind of result the grader can give."""
