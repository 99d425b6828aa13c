// Defines libFuzzer's custom mutator for harnesses whose inputs are JSON. Three of four mutations change a JSON value,
// the others change bytes.
#pragma once

#include "support/json_mutator.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 4 != 0) {
    if (const std::size_t changed = strobe::test::mutate_json(data, size, most, seed / 4)) return changed;
  }
  return LLVMFuzzerMutate(data, size, most);
}
