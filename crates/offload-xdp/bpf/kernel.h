// What of the kernel the program uses, so that building it takes clang and no headers.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define TYPE(name, value) int(*name)[value]
#define LIKELY(it) __builtin_expect(!!(it), 1)

// Linux: include/uapi/linux/bpf.h.
struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_DROP = 1, XDP_PASS = 2, XDP_REDIRECT = 4 };
enum {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_DEVMAP_HASH = 25,
};
enum { BPF_F_NO_PREALLOC = 1 << 0, BPF_F_MMAPABLE = 1 << 10 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static s64 (*csum_diff)(const void *from, u32 from_bytes, const void *to, u32 to_bytes, u32 seed) = (void *)28;
static long (*adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*redirect_map)(void *map, u64 key, u64 otherwise) = (void *)51;
static u64 (*coarse_ns)(void) = (void *)160;
static u64 (*frame_bytes)(struct xdp_md *ctx) = (void *)188;
static long (*load_bytes)(struct xdp_md *ctx, u32 offset, void *to, u32 bytes) = (void *)189;
