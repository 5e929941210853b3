"""Watches Triton kernels in Triton's interpreter: stray addresses, races, memory nobody wrote.

It needs Triton, torch and NumPy, and knows nothing of the grader.
"""
