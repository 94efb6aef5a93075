// SPDX-License-Identifier: Apache-2.0
//
// The first functions that programs call in libraries that are not supported. Each reports its name, so that the reason
// of a failure is known. For libraries that are missing entirely, the stubs of XLA's plugin fail without a name.
#include "libraries/log.h"

#define CALLOUT_REFUSED(name, status) \
  CALLOUT_LIBRARY_EXPORT int name() { return callout::software_gpu::Refuse(#name, status); }
#define CALLOUT_REFUSED_BLAS(suffix)   \
  CALLOUT_REFUSED(cublasS##suffix, 15) \
  CALLOUT_REFUSED(cublasD##suffix, 15) \
  CALLOUT_REFUSED(cublasC##suffix, 15) \
  CALLOUT_REFUSED(cublasZ##suffix, 15)

#if defined(CALLOUT_REFUSE_CUBLAS)
CALLOUT_REFUSED_BLAS(trsm_v2)
CALLOUT_REFUSED_BLAS(trsmBatched)
CALLOUT_REFUSED_BLAS(gemmBatched)
CALLOUT_REFUSED_BLAS(getrfBatched)
CALLOUT_REFUSED_BLAS(geqrfBatched)
CALLOUT_REFUSED(cublasGemmBatchedEx, 15)
#elif defined(CALLOUT_REFUSE_CUDNN)
CALLOUT_REFUSED(cudnnBackendCreateDescriptor, 3000)
CALLOUT_REFUSED(cudnnCreateConvolutionDescriptor, 3000)
CALLOUT_REFUSED(cudnnCreateTensorDescriptor, 3000)
CALLOUT_REFUSED(cudnnCreateRNNDescriptor, 3000)
#elif defined(CALLOUT_REFUSE_CUSOLVER)
CALLOUT_REFUSED(cusolverDnCreate, 9)
CALLOUT_REFUSED(cusolverSpCreate, 9)
#elif defined(CALLOUT_REFUSE_CUSPARSE)
CALLOUT_REFUSED(cusparseCreate, 10)
#elif defined(CALLOUT_REFUSE_CUFFT)
CALLOUT_REFUSED(cufftCreate, 16)
CALLOUT_REFUSED(cufftPlanMany, 16)
#endif
