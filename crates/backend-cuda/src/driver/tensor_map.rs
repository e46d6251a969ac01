//! Tensor maps: descriptions of matrices in device memory for bulk copies (CUDA driver API, tensor memory access).

use std::ffi::c_void;
use std::mem::MaybeUninit;

use backend::{Error, KV_BLOCK};
use cudarc::driver::sys::{
    CUtensorMapDataType_enum as Type, CUtensorMapFloatOOBfill_enum as Fill,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Promotion,
    CUtensorMapSwizzle_enum as Swizzle, cuTensorMapEncodeTiled,
};

use super::{Buffer, Device};

/// Bytes of a tensor map. A kernel wants it at a multiple of 64 bytes.
pub(crate) const TENSOR_MAP_BYTES: usize = 128;

impl Device {
    /// Describes a matrix of `rows` rows of `cols` f16 values in `buffer`, `cols` a multiple of 8, from which `copy_panel` in
    /// `kernels/hopper.cuh` copies 64 columns of a block of positions.
    pub(crate) fn tensor_map(
        &self,
        buffer: &Buffer,
        rows: usize,
        cols: usize,
    ) -> Result<[u8; TENSOR_MAP_BYTES], Error> {
        let pitch = cols as u64 * 2;
        let is_inside = pitch.is_multiple_of(16) && rows as u64 * pitch <= buffer.bytes();
        assert!(is_inside, "the matrix lies in the buffer");
        let mut map = MaybeUninit::uninit();
        // SAFETY: the driver writes the description, and reads sizes, strides and steps of two dimensions, one stride less.
        let map = self.call(|| unsafe {
            cuTensorMapEncodeTiled(
                map.as_mut_ptr(),
                Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                2,
                buffer.address() as *mut c_void,
                [cols as u64, rows as u64].as_ptr(),
                [pitch].as_ptr(),
                [64, KV_BLOCK as u32].as_ptr(),
                [1, 1].as_ptr(),
                Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                Swizzle::CU_TENSOR_MAP_SWIZZLE_128B,
                Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                Fill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
            .result()?;
            Ok(map.assume_init())
        })?;
        Ok(bytemuck::cast(map.opaque))
    }
}
