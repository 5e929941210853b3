"""Misconceptions of the assignment `triton_kernels`: wrong kernels, emulated in plain torch.

What a kernel does to memory it should not touch is not here: the kernel sanitizer has a sentence
for each of these faults. Here are the wrong values.
"""
