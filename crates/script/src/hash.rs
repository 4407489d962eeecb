//! The hash functions of expressions, over the 8 bytes of an integer.

/// FNV-1a (Fowler, Noll, Vo), 64 bits, from the lowest byte; the seed changes the basis.
pub(crate) fn fnv1a(value: i64, seed: i64) -> i64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let start = BASIS ^ seed as u64;
    let hash = value.to_le_bytes().iter().fold(start, |hash, octet| (hash ^ u64::from(*octet)).wrapping_mul(PRIME));
    hash as i64
}

/// MurmurHash64A (Appleby, MurmurHash2) of one 8-byte block.
pub(crate) fn murmur2(value: i64, seed: i64) -> i64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    const LENGTH: u64 = 8;
    let mut block = (value as u64).wrapping_mul(MULTIPLIER);
    block ^= block >> SHIFT;
    block = block.wrapping_mul(MULTIPLIER);
    let mut hash = seed as u64 ^ LENGTH.wrapping_mul(MULTIPLIER);
    hash = (hash ^ block).wrapping_mul(MULTIPLIER);
    hash = (hash ^ (hash >> SHIFT)).wrapping_mul(MULTIPLIER);
    (hash ^ (hash >> SHIFT)) as i64
}
