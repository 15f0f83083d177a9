//! The cache in front of the table: the newest short URLs, in memory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use redrive::persist::Cache;

use crate::short_url::ShortUrl;

const CAPACITY: usize = 100_000;

/// The newest short URLs; the oldest go first.
#[derive(Default)]
pub(crate) struct UrlCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    urls: HashMap<String, String>,
    order: VecDeque<String>,
}

impl UrlCache {
    pub(crate) fn get(&self, short: &str) -> Option<String> {
        self.state().urls.get(short).cloned()
    }

    pub(crate) fn put(&self, url: &ShortUrl) {
        let mut state = self.state();
        if state.urls.insert(url.short.clone(), url.long.clone()).is_none() {
            state.order.push_back(url.short.clone());
        }
        if state.order.len() > CAPACITY
            && let Some(oldest) = state.order.pop_front()
        {
            state.urls.remove(&oldest);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Cache<ShortUrl> for UrlCache {
    async fn refresh(&self, saved: Vec<ShortUrl>) {
        saved.iter().for_each(|url| self.put(url));
    }
}
