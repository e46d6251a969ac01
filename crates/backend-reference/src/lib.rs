//! The reference backend: dequantise to f32, sum in f64.
