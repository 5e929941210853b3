"""What runs beside a learner's code: this folder and kernel_sanitizer/ are copied into the sandbox.

So nothing in here imports anything else of the project. `serve` answers the grader's questions.
"""
