"""What the general tests of assignments expect of one: a module each, found by its name.

EXPLAINED  (exercise, change) -> why a mutant of the solution survives the hidden suite
ALIKE      {(mistake, what a test may call it instead)}; can be left out
MISTAKES   exercise -> {mistake: (text of the solution, replacement, part of the check's message)}
LEAST      exercise -> the least number of differently named misconceptions
"""
