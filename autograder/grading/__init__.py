"""The processes of grading. From the outside in:

engine            one command: takes submissions, starts a suite runner, stores the results
suite_runner      the trusted process that has torch, the hidden tests and the reference loaded
slots             so many submissions at a time, each with a grader and a worker
grader            a fork of the suite runner, for one submission after another
one_submission    reads it and runs its tests
link              the trusted end of the connection to a worker (`autograder.worker`)
"""
