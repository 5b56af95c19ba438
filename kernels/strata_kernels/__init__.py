"""Operations on arrays: one folder each, the plain MLX reference beside its kernels."""
