//! What one card does in a second.

use crate::device::cuda::Compute;

/// A GPU in one precision, by what was measured on it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Card {
    pub name: &'static str,
    /// Memory that a program can have [bytes].
    pub memory: f64,
    /// What the driver needs for a process [bytes].
    pub context: f64,
    /// What a training has besides its arena: kernels, weights in a library's order, its workspace [bytes].
    pub working: f64,
    /// Of passes over memory, read and written [B s⁻¹].
    pub bandwidth: f64,
    /// Of copies from and to the memory of the host's programs [B s⁻¹].
    pub host: f64,
    /// Bytes below which what one operation writes is still in the cache for the next.
    pub cache: f64,
    /// Of large convolutions: forward, gradient of the input, gradient of the weights [FLOP s⁻¹].
    pub convolution: [f64; 3],
    /// What every operation takes besides, inside a graph, and every convolution [s].
    pub launch: f64,
    pub convolution_launch: f64,
    /// Tiles of 128 x 128 outputs that are made at once.
    pub multiprocessors: usize,
    /// Bytes of one activation.
    pub activation: f64,
}

impl Card {
    /// NVIDIA H200, 2026-12-01, driver 580, cuDNN 9.19: bfloat16 by the times of single kernels (ncu) in the networks of
    /// `wxsim bench`, the other precisions by whole training steps of one of them.
    pub fn h200(compute: Compute) -> Self {
        let (convolution, activation) = match compute {
            Compute::Bf16 | Compute::Fp16 => ([740e12, 800e12, 690e12], 2.0),
            Compute::Tf32 => ([250e12, 265e12, 230e12], 4.0),
            Compute::Single => ([24e12; 3], 4.0),
        };
        Self {
            name: "NVIDIA H200",
            memory: 139.0 * (1u64 << 30) as f64,
            context: 0.5 * (1u64 << 30) as f64,
            working: 0.1 * (1u64 << 30) as f64,
            bandwidth: 3.5e12,
            host: 10e9,
            cache: 40e6,
            convolution,
            launch: 2.5e-6,
            convolution_launch: 4e-6,
            multiprocessors: 132,
            activation,
        }
    }
}
