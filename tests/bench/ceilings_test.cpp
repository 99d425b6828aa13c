// Tests bench/ceilings.h: the machine's matmul rate that is selected for a dtype, and rates that are absent.
#include "bench/ceilings.h"

#include <gtest/gtest.h>

#include "strobe/error.h"

namespace strobe::bench {
namespace {

TEST(Ceilings, MatmulRateIsThatOfACompleteGemmIfMeasured) {
  Ceilings ceilings;
  EXPECT_FALSE(ceilings.matmul(DType::fp32));
  EXPECT_FALSE(ceilings.fastest(DType::bf16));
  ceilings.packed[static_cast<int>(DType::fp32)] = 160e9;
  EXPECT_FALSE(ceilings.matmul(DType::fp32));  // the rate of packed operands is not that of a complete GEMM
  EXPECT_EQ(ceilings.fastest(DType::fp32), 160e9);
  ceilings.sgemm = 140e9;
  ceilings.packed[static_cast<int>(DType::bf16)] = 600e9;
  EXPECT_EQ(ceilings.matmul(DType::fp32), 140e9);
  EXPECT_EQ(ceilings.fastest(DType::fp32), 160e9);
  EXPECT_EQ(ceilings.matmul(DType::bf16), 600e9);
  EXPECT_FALSE(ceilings.matmul(DType::fp16));
  ceilings.fma_all = 160e9;
  EXPECT_FALSE(ceilings.disturbed());
  ceilings.sgemm = 70e9;
  EXPECT_TRUE(ceilings.disturbed());
  ceilings.sgemm = 140e9;

  const Json json = ceilings_json(ceilings);
  EXPECT_EQ(json.at("matrix_product_flop_per_s").at("fp32").as_number(), 140e9);
  EXPECT_EQ(json.at("matrix_product_by").at("fp32").as_string(), "OpenBLAS sgemm");
  EXPECT_EQ(json.at("matrix_product_by").at("bf16").as_string(), "packed GEMM");
  EXPECT_EQ(json.at("packed_product_flop_per_s").at("fp32").as_number(), 160e9);
}

TEST(Ceilings, EveryTypeAmongTheCasesIsMeasured) {
  const AttentionCase cases[] = {{.dtype = DType::fp32}, {.dtype = DType::bf16}};
  const Ceilings ceilings = ceilings_for(cases, Depth::brief);
  EXPECT_TRUE(ceilings.matmul(DType::fp32));
  EXPECT_TRUE(ceilings.matmul(DType::bf16));
  EXPECT_FALSE(ceilings.matmul(DType::fp16));
}

// Without cuBLAS, a GPU has no matmul rate; its other rates are measured.
TEST(Ceilings, UnsupportedRatesAreAbsent) {
  const auto throws = [](ErrorCode code, const char* what) { return [=]() -> double { throw Error(code, what); }; };
  Ceilings ceilings;
  ceilings.device = Device::cuda;
  EXPECT_EQ(rate_where_supported([] { return 7.0; }, ceilings.cublas_refusal), 7.0);
  EXPECT_FALSE(gpu_ceilings_json(ceilings).find("cublas_refusal"));
  EXPECT_FALSE(rate_where_supported(throws(ErrorCode::unsupported, "no such library"), ceilings.cublas_refusal));
  EXPECT_EQ(gpu_ceilings_json(ceilings).at("cublas_refusal").as_string(), "no such library");
  EXPECT_THROW(rate_where_supported(throws(ErrorCode::out_of_memory, "too much"), ceilings.cublas_refusal), Error);
}

TEST(Ceilings, ReferenceRateOfAGpuIsCublas) {
  Ceilings ceilings;
  ceilings.device = Device::cuda;
  EXPECT_FALSE(ceilings.matmul(DType::fp32));
  ceilings.cublas[static_cast<int>(DType::fp32)] = 50e12;
  ceilings.cublas[static_cast<int>(DType::bf16)] = 700e12;
  EXPECT_EQ(ceilings.matmul(DType::fp32), 50e12);
  EXPECT_EQ(ceilings.fastest(DType::bf16), 700e12);
  EXPECT_FALSE(ceilings.disturbed());
  const Json json = ceilings_json(ceilings);
  EXPECT_EQ(json.at("matrix_product_flop_per_s").at("bf16").as_number(), 700e12);
  EXPECT_EQ(json.at("matrix_product_by").at("fp32").as_string(), "cuBLAS");
}

}  // namespace
}  // namespace strobe::bench
