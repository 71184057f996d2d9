/* The services of leasehold.proto and the standard ones that servers have, as protoc describes them
 * (a FileDescriptorSet). Built from the schema. */
#pragma once

#include <stddef.h>

extern const unsigned char lh_described[];
extern const size_t lh_described_size;
