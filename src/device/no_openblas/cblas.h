// The declarations of OpenBLAS's cblas.h that blas_library.h names, for builds without OpenBLAS. The functions have no
// definition: only their types are used.
#pragma once

enum CBLAS_ORDER { CblasRowMajor = 101 };
enum CBLAS_TRANSPOSE { CblasNoTrans = 111, CblasTrans = 112 };

void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE order_a, CBLAS_TRANSPOSE order_b, int m, int n, int k, float alpha,
                 const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc);
void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE order_a, CBLAS_TRANSPOSE order_b, int m, int n, int k, double alpha,
                 const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc);
int openblas_get_num_threads();
void openblas_set_num_threads(int threads);
char* openblas_get_config();
char* openblas_get_corename();
