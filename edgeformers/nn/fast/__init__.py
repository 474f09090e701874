"""Optional kernels: faster ways to compute what the plain layers compute."""
