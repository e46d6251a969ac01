//! The cards of this machine, and the context of each.

use std::sync::{Arc, Mutex, OnceLock};

use backend::lock;
use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;

use super::Loaded;

/// Oldest version of the driver's API that loads the kernels, which are compiled by CUDA 13.0. It has every function used
/// here.
const MIN_API: i32 = 13000;

/// Oldest compute capability with kernels.
const MIN_CAPABILITY: (i32, i32) = (8, 0);

/// A card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub(super) ordinal: i32,
    pub(crate) name: String,
    /// PCI address, such as `0000:17:00.0`.
    pub(crate) address: String,
    pub(crate) capability: (i32, i32),
    pub(crate) total_memory: u64,
    /// Version of the driver's API, such as 13000 for 13.0.
    pub(crate) api: i32,
}

impl Card {
    /// Whether it has the kernels of 9.0a, with `wgmma`, which no later architecture has, and bulk copies.
    pub(crate) fn has_wgmma(&self) -> bool {
        self.capability == (9, 0)
    }

    /// Whether its kernels wait for the ones before (programmatic dependent launch). Those of later cards do not: they are
    /// PTX of an architecture without.
    pub(super) fn has_dependent_launch(&self) -> bool {
        matches!(self.capability.0, 9 | 10)
    }

    /// Free memory in bytes, if the driver tells.
    pub(crate) fn free_memory(&self) -> Option<u64> {
        PrimaryContext::of(self.ordinal).ok()?.make_current().ok()?;
        result::mem_get_info().ok().map(|(free, _)| free as u64)
    }
}

/// All cards that have kernels; none without a driver, or with one older than 580.
pub fn cards() -> Vec<Card> {
    static CARDS: OnceLock<Vec<Card>> = OnceLock::new();
    CARDS.get_or_init(|| find().unwrap_or_default()).clone()
}

fn find() -> Result<Vec<Card>, DriverError> {
    // SAFETY: opens the library and looks nothing up.
    if !unsafe { sys::is_culib_present() } {
        return Ok(Vec::new());
    }
    result::init()?;
    let mut api = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut api) }.result()?;
    let mut found = Vec::new();
    for ordinal in 0..result::device::get_count()? {
        let device = result::device::get(ordinal)?;
        use sys::CUdevice_attribute::{
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
        };
        let mut address = [0; 32];
        // SAFETY: `device` is valid; the address is terminated within the given length.
        let (total, major, minor) = unsafe {
            sys::cuDeviceGetPCIBusId(address.as_mut_ptr(), address.len() as i32, device).result()?;
            let attribute = |which| result::device::get_attribute(device, which);
            (result::device::total_mem(device)?, attribute(MAJOR)?, attribute(MINOR)?)
        };
        let address = address.iter().take_while(|&&c| c != 0);
        let address = address.map(|&c| char::from(c as u8).to_ascii_lowercase()).collect();
        let (name, capability) = (result::device::get_name(device)?, (major, minor));
        found.push(Card { ordinal, name, address, capability, total_memory: total as u64, api });
    }
    found.retain(|card| card.capability >= MIN_CAPABILITY && api >= MIN_API);
    Ok(found)
}

/// The context of a card that the libraries of a process share, and the kernels that this one has loaded. It is held until the
/// process ends: creating it and loading kernels take a fraction of a second.
pub(super) struct PrimaryContext {
    pub(super) device: sys::CUdevice,
    context: sys::CUcontext,
    pub(super) loaded: Mutex<Loaded>,
}

// SAFETY: handles of the driver may be used from any thread.
unsafe impl Send for PrimaryContext {}
// SAFETY: as above; what is mutable has a lock.
unsafe impl Sync for PrimaryContext {}

impl PrimaryContext {
    pub(super) fn of(ordinal: i32) -> Result<Arc<PrimaryContext>, DriverError> {
        static KNOWN: Mutex<Vec<(i32, Arc<PrimaryContext>)>> = Mutex::new(Vec::new());
        let mut known = lock(&KNOWN);
        if let Some((_, context)) = known.iter().find(|(of, _)| *of == ordinal) {
            return Ok(context.clone());
        }
        let device = result::device::get(ordinal)?;
        // SAFETY: `device` is valid.
        let context = unsafe { result::primary_ctx::retain(device) }?;
        let context = Arc::new(PrimaryContext { device, context, loaded: Mutex::default() });
        known.push((ordinal, context.clone()));
        Ok(context)
    }

    pub(super) fn make_current(&self) -> Result<(), DriverError> {
        // SAFETY: the context is retained.
        unsafe { result::ctx::set_current(self.context) }
    }
}
