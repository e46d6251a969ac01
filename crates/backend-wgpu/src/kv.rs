//! Keys and values on the device, a buffer each for each layer; `kernels/rotate.wgsl` says how they lie.

use backend::{Error, KvFormat, KvLayout, PAGE};

use crate::device::{Buffer, Device, WRITTEN};

#[derive(Debug)]
pub(crate) struct Kv {
    pub(crate) layout: KvLayout,
    /// Keys and values by layer.
    pub(crate) layers: Vec<[Buffer; 2]>,
}

impl Kv {
    pub(crate) fn new(device: &Device, layout: KvLayout) -> Result<Kv, Error> {
        let bytes = |dim: usize| {
            let numbers = [layout.pages, PAGE, layout.kv_heads, dim.next_multiple_of(2)];
            let numbers = numbers.iter().fold(1u64, |all, &factor| all.saturating_mul(factor as u64));
            numbers.saturating_mul(layout.format.bytes() as u64)
        };
        let store = |dim: usize| {
            if bytes(dim) > device.limits.max_storage_buffer_binding_size {
                return Err(Error::OutOfMemory {
                    what: "the K/V cache of a layer, which the device must bind as a whole",
                    bytes: bytes(dim),
                    hint: "ask for a smaller context",
                });
            }
            let store = device.buffer("the K/V cache", bytes(dim), WRITTEN)?;
            #[cfg(test)]
            crate::guard::poison_store(device, &store);
            Ok(store)
        };
        let layer = |_| Ok([store(layout.k_dim)?, store(layout.v_dim)?]);
        Ok(Kv { layout, layers: (0..layout.layers).map(layer).collect::<Result<_, Error>>()? })
    }

    /// Whether elements are f32.
    pub(crate) fn is_wide(&self) -> bool {
        self.layout.format == KvFormat::F32
    }
}
