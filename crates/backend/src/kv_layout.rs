//! What sequences carry on a device: pages of positions, block tables, and how stores are laid out.

use bytemuck::Zeroable;
use graph::{Graph, Group, Store};

use crate::{Error, MemoryKind, Remedy};

/// Positions a page.
pub const PAGE: usize = 32;

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum KvFormat {
    /// 16-bit floats.
    #[default]
    F16,
    /// 32-bit floats.
    F32,
}

impl KvFormat {
    /// Bytes a value.
    pub fn bytes(self) -> usize {
        match self {
            KvFormat::F16 => 2,
            KvFormat::F32 => 4,
        }
    }
}

/// How much state there is room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvLayout {
    /// Pages of each group of [`Graph::groups`], shared by all sequences.
    pub pages: Vec<usize>,
    /// How keys and values are stored.
    pub format: KvFormat,
}

/// Pages that a sequence gives back late: its last positions can be taken back and computed again while the window
/// before them is there.
const SLACK: usize = 1;

impl KvLayout {
    /// Room for `sequences` of up to `n_ctx` positions, for steps of up to `n_batch` rows: all pages of groups without a
    /// window; of those with one, the pages that windows and the rows of a step touch.
    pub fn new(graph: &Graph, n_ctx: usize, sequences: usize, n_batch: usize, format: KvFormat) -> KvLayout {
        let pages = graph.groups().iter().map(|group| pages_of(*group, n_ctx, sequences, n_batch));
        KvLayout { pages: pages.collect(), format }
    }

    /// So many pages of every group.
    pub fn uniform(graph: &Graph, pages: usize, format: KvFormat) -> KvLayout {
        KvLayout { pages: vec![pages; graph.groups().len()], format }
    }

    /// How each store of `graph` is laid out.
    pub fn stores(&self, graph: &Graph) -> Vec<StoreLayout> {
        let layout = |(id, store): (_, &Store)| {
            let pages = self.pages.get(graph.group_of(id)).copied().unwrap_or(0);
            StoreLayout { store: *store, pages, format: self.format }
        };
        graph.stores().map(layout).collect()
    }

    /// Bytes of all stores of `graph`; the largest number when there is none so large.
    pub fn bytes(&self, graph: &Graph) -> u64 {
        self.stores(graph).iter().fold(0, |bytes, store| bytes.saturating_add(store.bytes()))
    }
}

/// Pages of a group for so many sequences.
fn pages_of(group: Group, n_ctx: usize, sequences: usize, n_batch: usize) -> usize {
    let all = n_ctx.div_ceil(PAGE);
    let all_sequences = all.saturating_mul(sequences);
    match group.window {
        None => all_sequences,
        Some(window) => {
            // A window and the rows of a step lie in one page more than they fill, twice.
            let of_windows =
                (window.div_ceil(PAGE).saturating_add(2 + SLACK)).min(all).saturating_mul(sequences);
            of_windows.saturating_add(n_batch.div_ceil(PAGE)).min(all_sequences)
        }
    }
}

/// The first page, counted from position 0, that a sequence of `cached` positions still needs.
pub fn first_needed_page(group: Group, cached: usize) -> usize {
    (group.first_visible(cached) / PAGE).saturating_sub(SLACK)
}

/// How one store lies on a device: `pages` pages of [`PAGE`] positions; for each position `heads` keys of `k_dim`
/// values and as many values of `v_dim`. How a page lies in memory is the backend's own business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLayout {
    /// What the graph declares.
    pub store: Store,
    /// Pages, shared by all sequences.
    pub pages: usize,
    /// How keys and values are stored.
    pub format: KvFormat,
}

impl StoreLayout {
    /// Bytes of the store; the largest number when there is none so large.
    pub fn bytes(&self) -> u64 {
        let Store { heads, k_dim, v_dim, window: _ } = self.store;
        let factors = [heads, k_dim.saturating_add(v_dim), self.pages, PAGE];
        factors.iter().fold(self.format.bytes() as u64, |bytes, &factor| bytes.saturating_mul(factor as u64))
    }

    /// The keys (`dim` = `k_dim`) or values (`v_dim`), all zero. The memory is the system's until it is written to.
    ///
    /// # Errors
    /// When there is no room for it.
    pub fn zeroed<T: Zeroable>(&self, dim: usize) -> Result<Vec<T>, Error> {
        let factors = [self.pages, PAGE, self.store.heads, dim];
        let values = factors.iter().try_fold(1usize, |values, &factor| values.checked_mul(factor));
        let store = values.and_then(|values| bytemuck::allocation::try_zeroed_vec(values).ok());
        store.ok_or(Error::OutOfMemory {
            what: "the K/V cache",
            bytes: self.bytes(),
            memory: MemoryKind::Host,
            remedy: Remedy::SmallerContext,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_need_few_pages() {
        let window = |window| Group { window };
        // All positions of two sequences.
        assert_eq!(pages_of(window(None), 1000, 2, 512), 2 * 32);
        // 1024 positions lie in up to 33 pages, rows of a step in one more than they fill, and one is slack.
        assert_eq!(pages_of(window(Some(1024)), 32768, 1, 512), 32 + 3 + 16);
        assert_eq!(pages_of(window(Some(1024)), 32768, 4, 512), 4 * 35 + 16);
        // Never more than all.
        assert_eq!(pages_of(window(Some(1024)), 640, 1, 512), 20);
        assert_eq!(pages_of(window(Some(usize::MAX)), usize::MAX, usize::MAX, 1), usize::MAX);
    }

    /// With so many pages, a sequence always finds room for its next rows, however they are cut into steps.
    #[test]
    fn a_window_fits_whatever_the_steps() {
        for (window, n_batch) in [(1, 1), (31, 5), (32, 32), (33, 64), (100, 37), (100, 512)] {
            let group = Group { window: Some(window) };
            let room = pages_of(group, 5000, 1, n_batch);
            for first in 1..=n_batch.min(40) {
                let (mut cached, mut rows) = (0, first);
                while cached < 3000 {
                    let pages = (cached + rows).div_ceil(PAGE) - first_needed_page(group, cached);
                    assert!(
                        pages <= room,
                        "window {window}, {cached} cached, {rows} rows: {pages} of {room}"
                    );
                    (cached, rows) = (cached + rows, n_batch);
                }
            }
        }
    }
}
