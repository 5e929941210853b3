"""Wrong versions of `whiten(x, eps)`; x is (N, D)."""

from __future__ import annotations

from functools import partial

import torch

from autograder.misconceptions import misconception as declare
from autograder.misconceptions.scaling.standardize import PAGE, up

misconception = partial(declare, exercise="whiten")


def covariance(h: torch.Tensor) -> torch.Tensor:
    centered = h - h.mean(0)
    return centered.T @ centered / len(h)


def eigh(cov: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """`torch.linalg.eigh`, but NaN in place of an error where there is nothing to decompose."""
    if not cov.isfinite().all():
        return torch.full_like(cov[0], torch.nan), torch.full_like(cov, torch.nan)
    return torch.linalg.eigh(cov)


def zca(cov: torch.Tensor, eps: float) -> torch.Tensor:
    """The right matrix: cov to the power -1/2, with eps added to its eigenvalues."""
    variances, axes = eigh(cov)
    return axes * torch.rsqrt(variances + eps) @ axes.T


def _by(matrix):
    """A version that is right but for the (D, D) matrix, `matrix(h, eps)`, it multiplies by."""

    def whiten(x, eps):
        h = up(x)
        return ((h - h.mean(0)) @ matrix(h, eps)).to(x.dtype)

    return whiten


# -- not white ------------------------------------------------------------------------------------


@misconception(
    name="standardized-only",
    message="You standardized each feature by itself; whitening also removes the correlation "
    "between features.",
    link=PAGE + "why-whiten",
)
@_by
def standardized_only(h, eps):
    return torch.diag(torch.rsqrt(covariance(h).diag() + eps))


@misconception(
    name="rotated-only",
    message="You turned the data to its main directions but did not divide by their standard "
    "deviations; that is PCA without whitening.",
    link=PAGE + "why-pca-zca",
)
@_by
def rotated_only(h, eps):
    return eigh(covariance(h))[1]


@misconception(
    name="root-forgotten",
    message="You divided by the eigenvalues; they are variances, so divide by their roots.",
    link=PAGE + "why-whiten",
)
@_by
def root_forgotten(h, eps):
    variances, axes = eigh(covariance(h))
    return axes / (variances + eps) @ axes.T


@misconception(
    name="multiplied-by-std",
    message="You multiplied by the roots of the eigenvalues; divide by them.",
    link=PAGE + "why-whiten",
)
@_by
def multiplied_by_std(h, eps):
    variances, axes = eigh(covariance(h))
    return axes * torch.sqrt(variances.clamp(min=0) + eps) @ axes.T


@misconception(
    name="eigenvectors-in-rows",
    message="You took the rows of eigh's second result for eigenvectors; they are its columns.",
    link=PAGE + "why-whiten",
)
@_by
def eigenvectors_in_rows(h, eps):
    variances, axes = eigh(covariance(h))
    return axes.T * torch.rsqrt(variances + eps) @ axes


# -- white, but another one -----------------------------------------------------------------------


@misconception(
    name="not-turned-back",
    message="You stopped at the main directions (PCA whitening); multiply by the transposed "
    "eigenvectors to turn the data back (ZCA).",
    link=PAGE + "why-pca-zca",
)
@_by
def not_turned_back(h, eps):
    variances, axes = eigh(covariance(h))
    return axes * torch.rsqrt(variances + eps)


@misconception(name="not-turned-back")
@_by
def not_turned_back_largest_first(h, eps):
    variances, axes = eigh(covariance(h))
    return (axes * torch.rsqrt(variances + eps)).flip(1)


@misconception(
    name="turned-on-instead-of-back",
    message="You multiplied by the eigenvectors twice; to turn back, the second time they must be "
    "transposed.",
    link=PAGE + "why-pca-zca",
)
@_by
def turned_on_instead_of_back(h, eps):
    variances, axes = eigh(covariance(h))
    return axes * torch.rsqrt(variances + eps) @ axes


@misconception(
    name="cholesky",
    message="You whitened with a Cholesky factor; that is white too, but depends on the order of "
    "the features. Use the eigenvectors, and turn back.",
    link=PAGE + "why-pca-zca",
)
@_by
def cholesky(h, eps):
    cov = covariance(h) + eps * torch.eye(h.shape[1], dtype=h.dtype)
    factor = torch.linalg.cholesky(torch.linalg.inv(cov))
    return factor


@misconception(name="cholesky")
@_by
def cholesky_of_covariance(h, eps):
    cov = covariance(h) + eps * torch.eye(h.shape[1], dtype=h.dtype)
    return torch.linalg.inv(torch.linalg.cholesky(cov)).T


@misconception(
    name="correlation-matrix",
    message="You took the eigenvectors of the correlation matrix after standardizing; take those "
    "of the covariance matrix of the centered data.",
    link=PAGE + "why-pca-zca",
)
@_by
def correlation_matrix(h, eps):
    scale = torch.rsqrt(covariance(h).diag() + 1e-12)
    return scale[:, None] * zca(covariance(h) * scale * scale[:, None], eps)


# -- the covariance -------------------------------------------------------------------------------


@misconception(
    name="unbiased-covariance",
    message="You divided the covariance by N - 1; here it is divided by N.",
    link=PAGE + "why-biased-variance",
)
@_by
def unbiased_covariance(h, eps):
    return zca(covariance(h) * (len(h) / (len(h) - 1) if len(h) > 1 else torch.nan), eps)


@misconception(parts=("not-turned-back", "unbiased-covariance"))
@_by
def pca_of_torch_cov(h, eps):
    factor = len(h) / (len(h) - 1) if len(h) > 1 else torch.nan
    variances, axes = eigh(covariance(h) * factor)
    return axes * torch.rsqrt(variances + eps)


@misconception(
    name="covariance-not-divided",
    message="You did not divide the covariance by the number of samples.",
    link=PAGE + "why-whiten",
)
@_by
def covariance_not_divided(h, eps):
    return zca(covariance(h) * len(h), eps)


@misconception(
    name="one-pass-covariance",
    message="You took the covariance as E[x xᵀ] minus the square of the mean; far from the origin "
    "the two nearly cancel and their digits are lost. Subtract the mean first.",
    link=PAGE + "why-one-pass-variance",
)
@_by
def one_pass_covariance(h, eps):
    mean = h.mean(0)
    return zca(h.T @ h / len(h) - torch.outer(mean, mean), eps)


@misconception(name="one-pass-covariance")
@_by
def covariance_with_x(h, eps):
    """Right on paper: the deviations add up to 0, in float32 only nearly so."""
    return zca((h - h.mean(0)).T @ h / len(h), eps)


@misconception(
    name="covariance-uncentered",
    message="You computed the covariance of x before its mean was subtracted; subtract the mean "
    "first.",
    link=PAGE + "why-whiten",
)
@_by
def covariance_uncentered(h, eps):
    return zca(h.T @ h / len(h), eps)


@misconception(
    name="mean-not-subtracted",
    message="You did not subtract the mean; whitened data has mean 0.",
    link=PAGE + "why-whiten",
)
def mean_not_subtracted(x, eps):
    h = up(x)
    return (h @ zca(covariance(h), eps)).to(x.dtype)


@misconception(name="mean-not-subtracted")
def mean_nowhere_subtracted(x, eps):
    h = up(x)
    return (h @ zca(h.T @ h / len(h), eps)).to(x.dtype)


@misconception(
    name="mean-added-back",
    message="You added the mean back at the end; whitened data has mean 0.",
    link=PAGE + "why-whiten",
)
def mean_added_back(x, eps):
    h = up(x)
    return ((h - h.mean(0)) @ zca(covariance(h), eps) + h.mean(0)).to(x.dtype)


@misconception(
    name="mean-of-rows",
    message="You subtracted the mean of each sample; subtract the mean of each feature, a column.",
    link=PAGE + "why-which-dim",
)
def mean_of_rows(x, eps):
    h = up(x)
    centered = h - h.mean(1, keepdim=True)
    return (centered @ zca(centered.T @ centered / len(h), eps)).to(x.dtype)


@misconception(
    name="covariance-of-samples",
    message="You computed the covariance between samples, (N, N); whitening needs that between "
    "features, (D, D).",
    link=PAGE + "why-which-dim",
)
def covariance_of_samples(x, eps):
    h = up(x)
    centered = h - h.mean(0)
    return (zca(centered @ centered.T / h.shape[1], eps) @ centered).to(x.dtype)


# -- eps ------------------------------------------------------------------------------------------


@misconception(
    name="eps-outside-root",
    message="You added eps to the root of the eigenvalue; it belongs under the root.",
    link=PAGE + "why-eps",
)
@_by
def eps_outside_root(h, eps):
    variances, axes = eigh(covariance(h))
    return axes / (torch.sqrt(variances.clamp(min=0)) + eps) @ axes.T


@misconception(
    name="eps-forgotten",
    message="You left eps out; a direction without variance then divides by zero.",
    link=PAGE + "why-eps",
)
@_by
def eps_forgotten(h, eps):
    return zca(covariance(h), 0.0)


@misconception(
    name="eps-hard-coded",
    message="You used a fixed eps; use the argument eps.",
    link=PAGE + "why-eps",
)
@_by
def eps_hard_coded(h, eps):
    return zca(covariance(h), 1e-5)


@misconception(
    name="eps-clamped",
    message="You used eps as a lower limit of the eigenvalues; it is added to each.",
    link=PAGE + "why-eps",
)
@_by
def eps_clamped(h, eps):
    variances, axes = eigh(covariance(h))
    return axes * torch.rsqrt(variances.clamp(min=eps)) @ axes.T


# -- dtypes and memory ----------------------------------------------------------------------------


@misconception(
    name="result-left-wide",
    message="You returned the wider dtype that you computed in; cast the result back to the dtype "
    "of x.",
    link=PAGE + "why-precision",
)
def result_left_in_float32(x, eps):
    h = up(x)
    return (h - h.mean(0)) @ zca(covariance(h), eps)


@misconception(name="result-left-wide")
def result_left_in_float64(x, eps):
    return result_left_in_float32(x.double(), eps)


@misconception(
    name="always-float32",
    message="You computed in float32 whatever the dtype of x, which loses half the digits of a "
    "float64 x; widen only the half types.",
    link=PAGE + "why-precision",
)
def always_float32(x, eps):
    return result_left_in_float32(x.float(), eps).to(x.dtype)


@misconception(
    name="no-upcast",
    message="You computed mean and covariance in half precision, where squares overflow and digits "
    "are lost; widen x to float32 first.",
    link=PAGE + "why-precision",
)
def covariance_in_half(x, eps):
    centered = x - x.mean(0)
    cov = (centered.T @ centered / len(x)).float() if x.dtype.itemsize == 2 else covariance(x)
    return centered @ zca(cov, eps).to(x.dtype)


@misconception(
    name="input-modified",
    message="You changed the input in place (an operator such as -= or a method that ends in _); "
    "make a new tensor.",
    link=PAGE + "why-in-place",
)
def input_modified(x, eps):
    h = up(x)
    h -= h.mean(0)
    return (h @ zca(h.T @ h / len(h), eps)).to(x.dtype)
