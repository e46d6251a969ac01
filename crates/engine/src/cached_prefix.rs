//! A cached prefix outside of an engine.

/// What an engine has cached of a text, for another engine of the same model file and type of cache
/// ([`Engine::export`](crate::Engine::export)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedPrefix {
    /// The tokens that are cached.
    pub tokens: Vec<u32>,
    /// [`Tenant::cache_salt`](crate::Tenant::cache_salt) of requests that can use it.
    pub salt: Vec<u8>,
    /// [`Request::adapter`](crate::Request::adapter) of requests that can use it.
    pub adapter: Option<u64>,
    /// By group of stores: the number of the first block, counted from position 0, and blocks in the backend's order of bytes.
    pub groups: Vec<(usize, Vec<Vec<u8>>)>,
    /// The state of recurrent layers after the tokens.
    pub state: Option<Vec<u8>>,
}
