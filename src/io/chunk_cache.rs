//! Inflated chunks that hold parts of several fields, kept for the next field.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// As much as an open file may keep [bytes]: the chunks of one grid of a one-degree archive in (100, 10, 10).
const MOST_BYTES: usize = 64 << 20;

/// The last chunks that were inflated, oldest out first.
#[derive(Default)]
pub(super) struct ChunkCache {
    chunks: HashMap<Key, Arc<Vec<u8>>>,
    order: VecDeque<Key>,
    bytes: usize,
}

/// A variable of the file, and the place of a chunk in it.
pub(super) type Key = (usize, u64);

impl ChunkCache {
    pub fn get(&self, key: Key) -> Option<Arc<Vec<u8>>> {
        self.chunks.get(&key).cloned()
    }

    /// Keeps a chunk if there is room for it at all.
    pub fn insert(&mut self, key: Key, chunk: &Arc<Vec<u8>>) {
        if chunk.len() > MOST_BYTES || self.chunks.insert(key, chunk.clone()).is_some() {
            return;
        }
        self.bytes += chunk.len();
        self.order.push_back(key);
        while self.bytes > MOST_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.chunks.remove(&oldest).map_or(0, |chunk| chunk.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_keeps_the_newest_chunks_within_its_bound() {
        let mut cache = ChunkCache::default();
        for place in 0..10 {
            cache.insert((0, place), &Arc::new(vec![0; MOST_BYTES / 4]));
            cache.insert((0, place), &Arc::new(vec![0; MOST_BYTES / 4]));
        }
        let kept: Vec<u64> = (0..10).filter(|&place| cache.get((0, place)).is_some()).collect();
        assert_eq!(kept, [6, 7, 8, 9]);
        cache.insert((1, 0), &Arc::new(vec![0; MOST_BYTES + 1]));
        assert!(cache.get((1, 0)).is_none() && cache.get((0, 9)).is_some());
    }
}
