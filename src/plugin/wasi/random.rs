//! Randomness that is a function of the call: SHA-256 over its key, its attempt and a counter.
//!
//! Not a generator of a library's: what a past call has seen must be the same after every upgrade.

use std::convert::Infallible;

use rand::TryRng;
use sha2::{Digest as _, Sha256};

use super::Seed;

pub struct Random {
    seed: [u8; 32],
    counter: u64,
    block: [u8; 32],
    /// Bytes of the block that are used up.
    used: usize,
}

impl Random {
    pub fn new(seed: Seed<'_>, purpose: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"lapse:plugin wasi random 1\0");
        hash.update(purpose.as_bytes());
        hash.update(b"\0");
        hash.update(seed.attempt.to_be_bytes());
        hash.update(seed.idempotency_key.as_bytes());
        Self { seed: hash.finalize().into(), counter: 0, block: [0; 32], used: 32 }
    }

    pub fn number(mut self) -> u128 {
        let mut bytes = [0; 16];
        self.fill(&mut bytes);
        u128::from_le_bytes(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            if self.used == self.block.len() {
                let mut hash = Sha256::new();
                hash.update(self.seed);
                hash.update(self.counter.to_be_bytes());
                self.block = hash.finalize().into();
                self.counter += 1;
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        self.fill(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.fill(bytes);
        Ok(())
    }
}
